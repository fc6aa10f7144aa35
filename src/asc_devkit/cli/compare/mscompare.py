"""`mscompare`: folders of per-layer dumps of a baseline and of the NPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from asc_devkit.cli.compare import shared
from asc_devkit.cli.compare.shared import NAMES, PATH

if TYPE_CHECKING:
    from asc_devkit.precision.comparison.result import Result

MODES = ("cosine_similarity", "all", "max_absolute_error", "relative_euclidean_distance", "kullback_leibler_divergence")


@click.command(context_settings={**NAMES, "help_option_names": ["-h", "--help"]})
@click.option("--baseline", "--golden", type=PATH, required=True, help="Folder (or file) of the reference tensors.")
@click.option("--comparison", "--target", type=PATH, required=True, help="Folder (or file) of the tensors to judge.")
@click.option("--output", "-o", type=PATH, default=Path(), show_default=True, help="Folder for the reports.")
@click.option("--compare-mode", type=click.Choice(MODES), default="cosine_similarity", show_default=True,
              help="Metric that is printed for each layer; all are in the reports.")  # fmt: skip
@click.option("--atol", type=float, default=1e-3, show_default=True, help="Absolute tolerance.")
@click.option("--rtol", type=float, default=1e-3, show_default=True, help="Relative tolerance.")
@click.option("--cosine-threshold", type=click.FloatRange(-1, 1), help="Least cosine, as an additional gate.")
@click.option("--criterion", type=click.Choice(["combined", "any"]), default="combined", show_default=True,
              help="combined: |a-b| <= atol + rtol |a|; any: either limit exceeded fails.")  # fmt: skip
@click.option("--error-rate-threshold", type=float, default=0.0, show_default=True, help="Share that may fail.")
@click.option("--mapping", type=PATH, help="JSON or CSV: target name to golden name.")
@click.option("--dtype", help="Element type of .bin files [default: float32].")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def mscompare(
    baseline: Path,
    comparison: Path,
    output: Path,
    compare_mode: str,
    atol: float,
    rtol: float,
    cosine_threshold: float | None,
    criterion: str,
    error_rate_threshold: float,
    mapping: Path | None,
    dtype: str | None,
    as_json: bool,
) -> int:
    """Compare two folders of layer outputs: pass or fail per layer, the first divergent one, sudden or accumulated.

    The verdict is the tolerance; cosine decides too when --cosine-threshold is given.
    """
    request = shared.Request(
        golden=baseline,
        target=comparison,
        standard=criterion,
        numbers={"atol": atol, "rtol": rtol, "error_rate": error_rate_threshold},
        atol=atol,
        rtol=rtol,
        cosine=cosine_threshold,
        also=("combined", "cann-eco") if criterion == "any" else (),
        mapping=mapping,
        dtype=dtype,
    )
    result = shared.execute(request)
    written = shared.write(result, output)
    if as_json:
        from asc_devkit.precision.comparison.outputs import to_json

        click.echo(to_json(result), nl=False)
        return result.exit_code
    _layers(result, compare_mode)
    shared.show(result, written)
    return result.exit_code


def _layers(result: Result, mode: str) -> None:
    """One line a layer with the metric asked for."""
    fields = {
        "cosine_similarity": "cosine",
        "max_absolute_error": "max_abs",
        "relative_euclidean_distance": "relative_euclidean",
        "kullback_leibler_divergence": "kl",
    }
    chosen = list(fields.values()) if mode == "all" else [fields[mode]]
    for row in result.rows:
        if row.metrics is None:
            continue
        values = "  ".join(f"{name}={_number(getattr(row.metrics, name))}" for name in chosen)
        click.echo(f"{row.level:8} {row.name}  {values}")


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.6g}"


def main() -> None:
    """Console entry point."""
    import sys

    from asc_devkit.cli.errors import guarded

    sys.exit(guarded(mscompare))
