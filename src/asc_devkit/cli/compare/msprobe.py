"""`msprobe`: the vendor's accuracy tool by name; its sub-commands on this toolkit's engine."""

from __future__ import annotations

from pathlib import Path

import click

from asc_devkit.cli.compare import shared
from asc_devkit.cli.compare.shared import NAMES, PATH


@click.group(context_settings={**NAMES, "help_option_names": ["-h", "--help"]})
def msprobe() -> None:
    """Accuracy debugging for training and inference; runs without a device."""


@msprobe.command(context_settings=NAMES)
@click.option(
    "-gp", "--golden-path", type=PATH, required=True, help="dump.json, step folder, or tensors of the reference."
)
@click.option("-tp", "--target-path", "--actual-path", type=PATH, required=True, help="The same of the run to judge.")
@click.option("-o", "--output-path", "--output", type=PATH, help="Folder for the reports.")
@click.option("--output-report", type=PATH, help="One report; its form follows the suffix (.html, .json, .csv, .xlsx).")
@click.option(
    "--standard", default="standard", show_default=True, help="Acceptance standard (`asc compare --standards`)."
)
@click.option("-dm", "--data-mapping", type=PATH, help="JSON or CSV: target name to golden name.")
@click.option("--xlsx", is_flag=True, help="Write an .xlsx file too.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def compare(
    golden_path: Path,
    target_path: Path,
    output_path: Path | None,
    output_report: Path | None,
    standard: str,
    data_mapping: Path | None,
    xlsx: bool,
    as_json: bool,
) -> int:
    """Compare two dumps: tensors where they were dumped, statistics otherwise."""
    request = shared.Request(golden=golden_path, target=target_path, standard=standard, mapping=data_mapping)
    result = shared.execute(request)
    folder = output_path if output_path is not None or output_report is not None else Path()
    sheet = (folder or Path()) / "compare_result.xlsx" if xlsx else None
    written = shared.write(result, folder, output_report, sheet)
    if as_json:
        from asc_devkit.precision.comparison.outputs import to_json

        click.echo(to_json(result), nl=False)
    else:
        shared.show(result, written)
    return result.exit_code


def main() -> None:
    """Console entry point."""
    import sys

    from asc_devkit.cli.errors import guarded

    sys.exit(guarded(msprobe))
