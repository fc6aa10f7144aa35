"""`asc soc list` and `asc soc show NAME`: the chips, their figures and where those come from."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping

import click

from asc_devkit import soc as chips


@click.group()
def soc() -> None:
    """List chips and show their figures with sources."""


@soc.command("list")
@click.option("--series", default="", help="Only names or series containing this text.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_chips(series: str, as_json: bool) -> None:
    """List all chips."""
    wanted = series.lower()
    found = [c for c in map(chips.get, chips.names()) if wanted in c.name.lower() or wanted in c.series.lower()]
    if as_json:
        click.echo(json.dumps([_row(c) for c in found], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("soc_version", "series", box=None, header_style="bold")
    for title in ("cube cores", "vector", "MHz", "fp16 TFLOPS", "L2 MiB", "GB/s"):
        table.add_column(title, justify="right")
    for c in found:
        table.add_row(
            c.name,
            c.series,
            _text(c.cube_core_count),
            _text(c.vector_units),
            _text(c.cube_freq_mhz),
            _text(c.fp16_cube_tflops),
            _text(None if c.l2_bytes is None else c.l2_bytes / 2**20),
            _text(c.memory_gbps),
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


@soc.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Show one chip: every figure with its source; what no public source gives is `unknown`."""
    resolution = chips.resolve(name)
    for warning in resolution.warnings:
        click.echo(f"warning: {warning}", err=True)
    chip = resolution.soc
    if as_json:
        click.echo(json.dumps({**_row(chip), "warnings": list(resolution.warnings)}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value", "source", box=None, header_style="bold", title=f"{chip.name}  ({chip.series})")
    for key, value in _row(chip).items():
        if key in ("name", "series", "notes", "sources"):
            continue
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else _text(value)
        table.add_row(key, shown, chip.sources.get(key, "derived" if value is not None else ""))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for note in chip.notes:
        console.print(f"note: {note}")
    for board in chips.boards(chip.generation):
        console.print(f"board: {board.name}, {board.bytes_per_chip / 2**30:.0f} GiB per chip ({board.source})")
    for text in chips.conflicts():
        console.print(f"sources disagree: {text}", style="dim")


def _row(chip: chips.Soc) -> dict[str, object]:
    row = dataclasses.asdict(chip)
    row["cube_floats"] = sorted(chip.cube_floats)
    row["matmul_format"] = chip.matmul_format
    row["vector_units"] = chip.vector_units
    return row


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)
