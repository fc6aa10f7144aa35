"""The `msprof` command: run a program with collection on; export, query, parse or analyze what was collected."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from asc_devkit.errors import AscError, Problem

if TYPE_CHECKING:
    from asc_devkit.profiling.collect.options import Command

NOTE = "Host times are measured on this computer; device times and counters are simulated."


def main(argv: Sequence[str] | None = None) -> None:
    """Console entry point; exits with 0, 1 (the program failed or left nothing), 2 (bad input) or 3 (internal error)."""
    from asc_devkit.cli.errors import guarded

    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(guarded(lambda: run(words)))


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def msprof(words: tuple[str, ...]) -> None:
    """Run a program on the virtual NPU and write its profile (the vendor's command line; see `msprof --help`)."""
    sys.exit(run(list(words)))


def run(words: list[str]) -> int:
    """Carry out one command line; the exit code. Raises ``AscError`` for every kind of bad input."""
    from asc_devkit.profiling.collect import options

    command = options.parse(words)
    as_json = "json" in command.given
    if not words or "help" in command.given:
        click.echo(options.help_text(), nl=False)
        return 0
    if any(command.on(name) for name in options.AFTER):
        return _after(command, as_json)
    return _collect(command, as_json)


def _collect(command: Command, as_json: bool) -> int:
    from asc_devkit.profiling.collect import after, launch

    chosen = after.export_options(command)
    launched = launch.launch(command)
    written = []
    for tree in launched.trees:
        click.echo(f"exporting {tree}", err=True)
        written += after.export_tree(tree, chosen)
    failed = launched.returncode != 0 or not launched.trees
    if as_json:
        report = {
            "schema": "asc-devkit/msprof/1",
            "returncode": launched.returncode,
            "trees": [str(t) for t in launched.trees],
            "files": [str(f) for f in written],
            "host_times": "measured",
            "device_times": "simulated",
        }
        click.echo(json.dumps(report, indent=2))
    else:
        for tree in launched.trees:
            click.echo(str(tree))
        click.echo(NOTE, err=True)
    if launched.returncode:
        click.echo(f"The program ended with {_ending(launched.returncode)}.", err=True)
    if not launched.trees:
        raise AscError(
            Problem(
                "ASC6017",
                "Nothing was collected.",
                cause="The program used neither acl nor ais_bench of this toolkit, or ended before it did anything.",
                fix="Check that it imports them in the Python that has asc-devkit, or give an .om file.",
            ),
            exit_code=1,
        )
    return 1 if failed else 0


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _after(command: Command, as_json: bool) -> int:
    from asc_devkit.profiling.collect import after
    from asc_devkit.profiling.writers import tree as trees

    if "output" not in command.given:
        raise AscError(Problem("ASC6011", "--output is missing.", fix="Give the folder with the PROF_* trees."))
    path = Path(command.get("output"))
    report: dict[str, Any] = {"schema": "asc-devkit/msprof/1"}
    found = trees.trees(path)
    if command.on("parse"):
        report["parsed"] = {str(tree): after.parse_tree(tree) for tree in found}
    if command.on("export"):
        chosen = after.export_options(command)
        report["exported"] = [
            str(f) for tree in found for f in after.export_tree(tree, chosen, clear=command.on("clear"))
        ]
    if command.on("analyze"):
        report["analyzed"] = [str(f) for tree in found for f in after.analyze_tree(tree, command.get("rule"))]
        click.echo("One device does not communicate: the analysis is empty.", err=True)
    if command.on("query"):
        report["query"] = [row.as_dict() for row in after.query(path)]
    click.echo(json.dumps(report, indent=2) if as_json else _text(report))
    return 0


def _text(report: dict[str, Any]) -> str:
    lines: list[str] = []
    for tree, counts in report.get("parsed", {}).items():
        lines.append(f"{tree}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    lines += report.get("exported", []) + report.get("analyzed", [])
    rows = report.get("query", [])
    if rows:
        table = [list(rows[0]), *([str(v) for v in row.values()] for row in rows)]
        widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
        lines += ["  ".join(str(v).ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
