"""`asc om show|explain|json|decompress|compress|extract-weights|to-onnx|diff`: looking into offline models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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
@click.argument("model", type=PATH)
@click.option("--nodes", is_flag=True, help="List every operator, not only the fused ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(model: Path, nodes: bool, as_json: bool) -> None:
    """How MODEL was made: command line, fused operators and passes, kernels, memory, tasks."""
    from asc_devkit import om as container
    from asc_devkit.om.explain import explain as facts_of

    facts = facts_of(container.read(model))
    click.echo(json.dumps(facts, indent=2) if as_json else _printable_lines(_explained(facts, nodes)))


def _explained(facts: dict[str, Any], nodes: bool) -> Iterator[str]:
    yield f"{facts['path']}: {facts['name']}, compiled by {facts['made_by']} {facts['atc_version']} for {facts['soc_version']}"
    if facts["atc_command_line"]:
        yield f"  {facts['atc_command_line']}"
    memory, kernels = facts["memory"], facts["kernels"]
    yield "  memory: " + ", ".join(f"{name} {size}" for name, size in memory.items() if name != "blocks")
    for block in memory["blocks"]:
        yield f"    block at {block.get('offset', 0)}: {block.get('bytes', 0)} bytes"
    yield f"  kernels: {len(kernels)}, {sum(k['bytes'] for k in kernels)} bytes"
    listed = ", ".join(f"{kind} {count}" for kind, count in facts["tasks"].items())
    yield f"  {facts['streams']} streams, {facts['events']} events, tasks: {listed or 'none'}"
    yield "  passes that hit:" + ("" if facts["passes"] else " none")
    yield from (f"    {count:4} {name}" for name, count in facts["passes"].items())
    rows = facts["operators"] if nodes else facts["fused"]
    yield f"  {len(rows)} {'operators' if nodes else 'fused operators'}:"
    for row in rows:
        yield f"    {row['type']} {row['name']}"
        if len(row["members"]) > 1:
            yield f"      stands for {', '.join(row['members'])}"
        if row["kernel"]:
            yield f"      kernel {row['kernel']}, {row['block_dim']} blocks"
    if facts["guesses"]:
        yield f"  {len(facts['guesses'])} facts that execution rests on are guesses:"
        yield from (f"    {g['node']}: {g['what']} ({g['why']})" for g in facts["guesses"])


def _printable_lines(lines: Iterator[str]) -> str:
    return "\n".join(map(_printable, lines))


@om.command("to-onnx")
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="ONNX file to write.")
@click.option("--exact", is_flag=True, help="Fail when something is guessed.")
@click.option("--gear", type=click.IntRange(0), help="Which gear, counted from 0 [default: the largest].")
@click.option("--device-floats", is_flag=True, help="Keep fp16 and bf16 instead of writing their values as fp32.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def to_onnx(model: Path, output: Path, exact: bool, gear: int | None, device_floats: bool, as_json: bool) -> None:
    """Rebuild an ONNX model from MODEL."""
    from asc_devkit import om as container
    from asc_devkit.om.to_onnx import rebuild, save

    made = rebuild(container.read(model), gear=gear, exact=exact, device_floats=device_floats)
    with _writing(output):
        written = save(made, output)
    nodes = sum(1 for _ in made.model.graph)
    if as_json:
        facts = {
            "schema": "asc-devkit/om-to-onnx/1",
            "files": [str(path) for path in written],
            "nodes": nodes,
            "gear": made.gear,
            "exact": not made.guesses,
            "guesses": [guess.as_dict() for guess in made.guesses],
        }
        click.echo(json.dumps(facts, indent=2))
        return
    click.echo(
        f"wrote {', '.join(map(str, written))}: {nodes} nodes"
        + (f", gear {made.gear}" if made.gear is not None else "")
    )
    if made.guesses:
        click.echo(f"{len(made.guesses)} facts are guesses (fused kernels hide them):")
        for guess in made.guesses:
            click.echo(_printable(f"  {guess.node}: {guess.what} ({guess.why})"))


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
