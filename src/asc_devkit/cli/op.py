"""`asc op list|show|new`: operators with their support here and in the real ATC; projects for operators of one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from asc_devkit.ops.catalogue import GeOp
    from asc_devkit.ops.listing import OperatorRow

SHOWN = 12  # nodes named per operator; --json has all


@click.group(context_settings={"token_normalize_func": lambda word: word.replace("_", "-")})
def op() -> None:
    """Operators: what converts, what runs where, what the real ATC has parsers for."""


@op.command("list")
@click.option(
    "--unsupported-by-atc",
    "model",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="List what the real ATC would refuse of this ONNX model instead; exit code 1 when there is any.",
)
@click.option("--search", default="", help="Only operators whose name, GE type, engine or support has this text.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_operators(model: Path | None, search: str, as_json: bool) -> int:
    """All operators of ONNX with support, engine, opsets, and the opsets the real ATC has a parser for."""
    if model is not None:
        return _refused(model, as_json)
    from asc_devkit.ops import listing

    wanted = search.lower()
    rows = [row for row in listing.rows() if not wanted or wanted in json.dumps(row.as_dict()).lower()]
    if as_json:
        click.echo(json.dumps({"schema": "asc-devkit/operators/1", "operators": [r.as_dict() for r in rows]}, indent=2))
        return 0
    table = _table("operator", "support", "runs on", "GE operators", "opsets", "real ATC")
    for row in rows:
        table.add_row(
            _full(row), row.support, row.engine, ", ".join(row.ge_types), _opsets(row.opsets), _range(row.real_atc)
        )
    _print(table)
    counts = {kind: sum(row.support == kind for row in rows) for kind in dict.fromkeys(row.support for row in rows)}
    click.echo(f"{len(rows)} operators: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 0


def _refused(model: Path, as_json: bool) -> int:
    from asc_devkit.frontends.onnx import original_nodes
    from asc_devkit.ops.acceptance import refused

    nodes = original_nodes(model)
    rows = refused(nodes)
    if as_json:
        report = {"schema": "asc-devkit/unsupported-by-atc/1", "model": str(model), "nodes": len(nodes)}
        click.echo(json.dumps({**report, "refused": [row.as_dict() for row in rows]}, indent=2))
        return 1 if rows else 0
    if not rows:
        click.echo(f"{model}: the real ATC has parsers for all {len(nodes)} nodes.")
        return 0
    table = _table("operator", "opset", "nodes", "why", "what to do")
    for row in rows:
        names = ", ".join(row.nodes[:SHOWN]) + (
            f", ... {len(row.nodes) - SHOWN} more" if len(row.nodes) > SHOWN else ""
        )
        name = f"{row.domain}::{row.op_type}" if row.domain else row.op_type
        table.add_row(*map(_printable, (name, str(row.opset), names, row.reason, row.hint)))
    _print(table)
    count = sum(len(row.nodes) for row in rows)
    click.echo(f"{model}: the real ATC would refuse {count} of {len(nodes)} nodes ({len(rows)} operators).")
    click.echo(f"  asc onnx fix {model} -o {model.stem}_fixed.onnx")
    return 1


@op.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Everything known about operator NAME (ONNX or GE)."""
    from asc_devkit.ops import listing

    rows, kernels = listing.find(name)
    if as_json:
        report = {
            "schema": "asc-devkit/operator/1",
            "onnx": [r.as_dict() for r in rows],
            "ge": list(map(_facts, kernels)),
        }
        click.echo(json.dumps(report, indent=2))
        return
    for row in rows:
        click.echo(f"{_full(row)}: {row.support}" + (f" ({row.note})" if row.note else ""))
        click.echo(f"  changed at opset: {_opsets(row.opsets)}")
        click.echo(f"  real ATC:         {_range(row.real_atc)}")
        click.echo(f"  becomes:          {', '.join(row.ge_types) or '-'}")
    for kernel in kernels:
        facts = _facts(kernel)
        click.echo(f"GE operator {facts.pop('type')}")
        for key, value in facts.items():
            text = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else value
            click.echo(f"  {key + ':':12} {', '.join(map(str, text)) if isinstance(text, list) else text}")


def _facts(kernel: GeOp) -> dict[str, Any]:
    from asc_devkit.ops.listing import ENGINES

    return {
        "type": kernel.type,
        "inputs": list(kernel.inputs),
        "outputs": list(kernel.outputs),
        "attributes": dict(kernel.attrs),
        "engine": ENGINES[kernel.engine],
        "cost": kernel.cost.value,
        "mix": kernel.mix.value,
        "floats": {generation: " ".join(sorted(names)) for generation, names in kernel.floats.items()},
        "exact": kernel.exact,
        "source": kernel.source,
    }


def _full(row: OperatorRow) -> str:
    return f"{row.domain}::{row.name}" if row.domain else row.name


def _opsets(opsets: tuple[int, ...]) -> str:
    return ", ".join(map(str, opsets)) or "-"


def _range(found: tuple[int, ...]) -> str:
    return f"opset {found[0]}-{found[1]}" if found else "no"


def _printable(text: str) -> str:
    """``text`` without control characters: names in a file must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _table(*columns: str) -> Table:
    from rich.table import Table

    return Table(*columns, box=None, header_style="bold")


def _print(table: Table) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False).print(table)


@op.command()
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the project [default: its name].")
@click.option("--inputs", default="x", show_default=True, help='Names; "limit?" may be absent, "x*" is any number.')
@click.option("--outputs", default="y", show_default=True, help="Names, separated by spaces.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=DEFAULT|NAME:TYPE", help="Attribute; again for more.")
@click.option("--force", is_flag=True, help="Replace the files of a project that stands there already.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def new(
    name: str, output: Path | None, inputs: str, outputs: str, attrs: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Start a project for the custom operator NAME (my_company::ScaledClip): plugin, golden, test model, tests.

    Everything runs as it is written; put your formula in place of the example's.
    """
    create_project(name, output, inputs, outputs, attrs, force, as_json)


def create_project(
    name: str,
    output: Path | None,
    inputs: str,
    outputs: str,
    attrs: tuple[str, ...],
    force: bool,
    as_json: bool,
    domain: str = "",
) -> None:
    """Write the project and say what to do next; ``msopgen plugin`` does the same in its own spelling."""
    from asc_devkit.opdev import plugin

    wanted = plugin.signature(name, inputs, outputs, attrs, domain)
    made = plugin.create(wanted, output or Path(wanted.function), force)
    if as_json:
        report = {
            "schema": "asc-devkit/plugin-project/1",
            "operator": f"{wanted.domain}::{wanted.name}",
            "folder": str(made.folder),
            "plugin": str(made.plugin),
            "files": [str(path) for path in made.files],
        }
        click.echo(json.dumps(report, indent=2))
        return
    for path in made.files:
        click.echo(path)
    click.echo(f"Next: python -m pytest {made.folder}; then put your formula into {made.plugin.name}.", err=True)
