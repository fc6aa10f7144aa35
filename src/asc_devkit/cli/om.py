"""`asc om show|json|decompress|compress|extract-weights|diff`: looking into offline models."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

PATH = click.Path(path_type=Path)


@click.group()
def om() -> None:
    """Look into .om files (ours and those of the vendor's ATC)."""


@om.command()
@click.argument("model", type=PATH)
@click.option("--nodes", is_flag=True, help="List the operators too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: Path, nodes: bool, as_json: bool) -> None:
    """Inputs, outputs, attributes, partitions and operators of MODEL."""
    from asc_devkit import om as container
    from asc_devkit.om.show import operators, summary

    file = container.read(model)
    facts = summary(file)
    if nodes:
        facts["nodes"] = operators(file)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(
        f"[bold]{file.path}[/]  {facts['bytes'] / 2**20:.2f} MiB, weights {facts['weight_bytes'] / 2**20:.2f} MiB"
    )
    for kind in ("inputs", "outputs"):
        for index, tensor in enumerate(facts[kind]):
            console.print(
                f"  {kind[:-1]} {index}: {tensor['name']}  {tensor['dtype']} {tensor['shape']}", highlight=False
            )
    for key, value in facts["attributes"].items():
        console.print(f"  {key}: {value}", highlight=False, markup=False)
    console.print("  partitions: " + ", ".join(f"{p['type']} {p['bytes']}" for p in facts["partitions"]))
    table = Table("operator type", "count", box=None, header_style="bold")
    for kind, count in facts["operators"].items():
        table.add_row(kind, str(count))
    console.print(table)
    if nodes:
        listing = Table("name", "type", "engine", "output", "from", box=None, header_style="bold")
        for row in facts["nodes"]:
            listing.add_row(row["name"], row["type"], row["engine"], row["output"], ", ".join(row["origin"]))
        console.print(listing)


@om.command("json")
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, help="File to write [default: stdout].")
def to_json(model: Path, output: Path | None) -> None:
    """The whole model definition as JSON (what `atc --mode=1` writes)."""
    from asc_devkit import files
    from asc_devkit import om as container

    text = container.to_json(container.read(model)) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write_text(output, text)
        click.echo(f"wrote {output}")


def _rewritten(model: Path, output: Path, compressed: bool) -> None:
    from asc_devkit import om as container

    container.read(model).rewrite(output, compressed=compressed)
    click.echo(f"wrote {output}")


@om.command()
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="File to write.")
def decompress(model: Path, output: Path) -> None:
    """Rewrite MODEL with readable attributes, so that viewers show names and weights."""
    _rewritten(model, output, compressed=False)


@om.command()
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="File to write.")
def compress(model: Path, output: Path) -> None:
    """Rewrite MODEL with compressed attributes, as the vendor's ATC does."""
    _rewritten(model, output, compressed=True)


@om.command("extract-weights")
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="Folder for one .npy per weight.")
@click.option("--raw", is_flag=True, help="Keep the device layout (FRACTAL_Z, ...) instead of the original one.")
def extract_weights(model: Path, output: Path, raw: bool) -> None:
    """Write every constant of MODEL as .npy, in its original layout and shape."""
    from asc_devkit.om.extract import extract

    rows = extract(model, output, raw=raw)
    click.echo(f"wrote {len(rows)} weights and index.json to {output}")


@om.command()
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(a: Path, b: Path, as_json: bool) -> int:
    """What differs between two models; exit code 1 when something does."""
    from asc_devkit import om as container
    from asc_devkit.om.show import diff as compare

    lines = compare(container.read(a), container.read(b))
    click.echo(json.dumps(lines, indent=2) if as_json else "\n".join(lines) or "no difference")
    return 1 if lines else 0
