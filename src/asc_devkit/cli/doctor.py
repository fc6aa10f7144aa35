"""`asc doctor`: what is installed, what is missing and what it would enable."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Show what is installed, whether it belongs together, and what each missing part would enable."""
    from asc_devkit.check.doctor import diagnose

    report = diagnose()
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(_table(report))
    for note in report["notes"]:
        console.print(f"note: {note}", markup=False)


def _table(report: dict[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "part", "found", box=None, header_style="dim")
    marks = {True: "[green]ok[/]", False: "[red]--[/]", None: "[dim]-[/]"}

    def row(ok: bool | None, part: str, found: str) -> None:
        table.add_row(marks[ok], part, escape(found))

    python, system, tool = report["python"], report["system"], report["tool"]
    row(True, "asc-devkit", f"{tool['version']} in {tool['path']}")
    row(python["ok"], "python", f"{python['version']} ({python['implementation']}) {python['executable']}")
    row(None, "system", f"{system['os']}, {system['kernel']}, {system['machine']}")
    memory = f", {system['memory_bytes'] / 2**30:.1f} GiB" if system["memory_bytes"] else ""
    row(None, "cpu", f"{system['cpu']}, {system['cpus']} usable{memory}")
    for library in report["libraries"]:
        row(library["ok"], library["name"], f"{library['version'] or 'missing'} (wanted {library['wanted'] or 'any'})")
    for extra in report["extras"]:
        state = "complete" if extra["complete"] else f"missing {', '.join(extra['missing'])}"
        row(True if extra["complete"] else None, f"extra {extra['name']}", f"{state}; for {extra['enables']}")
    driver, cann, torch = report["driver"], report["cann"], report["torch"]
    row(True if driver["found"] else None, "driver", _driver(driver))
    row(
        True if cann["found"] else None,
        "CANN",
        f"{cann['version'] or 'unknown version'} in {cann['path']}" if cann["found"] else "not installed (not needed)",
    )
    together = {"yes": True, "no": False, "unknown": None}
    pairs = (torch["pair"], torch["cann_pair"])
    row(False if "no" in pairs else together[torch["pair"]], "torch, torch_npu", torch["text"])
    return table


def _driver(driver: dict[str, Any]) -> str:
    if not driver["found"]:
        return "not installed (not needed)"
    parts = [driver["version"] or "unknown version"]
    if driver["npu_smi"]:
        parts.append(f"npu-smi {driver['npu_smi_version'] or ''}".rstrip())
    parts.append(f"devices {', '.join(driver['devices'])}" if driver["devices"] else "no devices")
    return ", ".join(parts)
