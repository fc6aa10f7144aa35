"""`asc om show|json|decompress|compress|extract-weights|diff`: looking into offline models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

PATH: Final = click.Path(path_type=Path)
LONGEST: Final = 400  # characters of an attribute in the summary


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
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    mib = 1 << 20
    console.print(
        _printable(f"{file.path}  {facts['bytes'] / mib:.2f} MiB, weights {facts['weight_bytes'] / mib:.2f} MiB"),
        style="bold",
    )
    for kind in ("inputs", "outputs"):
        for index, tensor in enumerate(facts[kind]):
            stored = f", to be fed as {tensor['buffer_shape']}" if "buffer_shape" in tensor else ""
            line = f"  {kind[:-1]} {index}: {tensor['name']}  {tensor['dtype']} {tensor['shape']}{stored}"
            console.print(_printable(line))
    for index, gear in enumerate(facts["gears"]):
        shapes = ", ".join(f"{name} {shape}" for name, shape in gear.items())
        console.print(_printable(f"  gear {index}: {shapes}"))
    for key, value in facts["attributes"].items():
        text = _printable(f"  {key}: {value}")
        console.print(text if len(text) <= LONGEST else text[:LONGEST] + "...")
    console.print("  partitions: " + ", ".join(f"{p['type']} {p['bytes']}" for p in facts["partitions"]))
    table = Table("operator type", "count", box=None, header_style="bold")
    for kind, count in facts["operators"].items():
        table.add_row(Text(_printable(kind)), str(count))
    console.print(table)
    if nodes:
        listing = Table("name", "type", "engine", "output", "from", box=None, header_style="bold")
        for row in facts["nodes"]:
            cells = (row["name"], row["type"], row["engine"], row["output"], ", ".join(row["origin"]))
            listing.add_row(*(Text(_printable(cell)) for cell in cells))
        console.print(listing)


def _printable(text: str) -> str:
    """``text`` without control characters: names in a file must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turns a failure to write (no such folder, no space, no permission) into a problem the user can act on."""
    from asc_devkit.errors import AscError, Problem

    try:
        yield
    except OSError as error:
        what = f"Cannot write {target}: {error.strerror or error}."
        raise AscError(Problem("E13004", what, fix="Choose another --output.", nodes=(str(target),))) from error


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
        with _writing(output):
            files.write_text(output, text)
        click.echo(f"wrote {output}")


def _rewritten(model: Path, output: Path, compressed: bool) -> None:
    from asc_devkit import om as container

    file = container.read(model)
    with _writing(output):
        file.rewrite(output, compressed=compressed)
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
@click.option("--json", "as_json", is_flag=True, help="Print the index as JSON.")
def extract_weights(model: Path, output: Path, raw: bool, as_json: bool) -> None:
    """Write every constant of MODEL as .npy, in its original layout and shape."""
    from asc_devkit.om.extract import extract

    with _writing(output):
        rows = extract(model, output, raw=raw)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    click.echo(f"wrote {len(rows)} weights and index.json to {output}")


@om.command()
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(a: Path, b: Path, as_json: bool) -> int:
    """What differs between two models; exit code 1 when something does."""
    from asc_devkit import om as container
    from asc_devkit.om.diff import diff as compare

    found = compare(container.read(a), container.read(b))
    if as_json:
        click.echo(json.dumps([difference.as_dict() for difference in found], indent=2))
    else:
        click.echo("\n".join(_printable(str(difference)) for difference in found) or "no difference")
    return 1 if found else 0
