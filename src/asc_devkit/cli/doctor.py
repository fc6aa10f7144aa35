"""`asc doctor`: what is installed and what belongs together. Plain text, so that it works without any other library."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from asc_devkit.doctor import Diagnosis, Finding

_MARKS: Final = {
    "ok": ("ok", "green"),
    "missing": ("-", "bright_black"),
    "doubt": ("?", "yellow"),
    "wrong": ("!", "red"),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Show what is installed, what belongs together and what each missing part would enable.

    Exit code 0 unless something found cannot work as it is (1); missing optional parts are fine.
    """
    from asc_devkit.doctor import diagnose

    diagnosis = diagnose()
    if as_json:
        click.echo(json.dumps(diagnosis.as_dict(), indent=1))
    else:
        for line in _lines(diagnosis):
            click.echo(line)
    return 1 if diagnosis.wrong else 0


def _lines(diagnosis: Diagnosis) -> list[str]:
    width = max(len(f.name) for section in diagnosis.sections for f in section.findings)
    lines = []
    for section in diagnosis.sections:
        lines.append(click.style(section.title, bold=True))
        for finding in section.findings:
            lines += _finding(finding, width)
        lines.append("")
    wrong = len(diagnosis.wrong)
    lines.append(
        click.style(f"{wrong} to repair, marked with !.", fg="red", bold=True)
        if wrong
        else "All that asc-devkit needs is here. Parts marked with - are optional."
    )
    return lines


def _finding(finding: Finding, width: int) -> list[str]:
    sign, colour = _MARKS[finding.state.value]
    head = f"  {click.style(f'{sign:>2}', fg=colour)}  {finding.name:<{width}}  "
    indent = " " * (6 + width + 2)
    text = " – ".join(filter(None, (finding.value, finding.note)))
    wrapped = textwrap.wrap(text, 118 - len(indent), break_long_words=False, break_on_hyphens=False) or [""]
    lines = [head + wrapped[0], *(indent + part for part in wrapped[1:])]
    if finding.fix:
        lines.append(indent + click.style(f"-> {finding.fix}", fg="cyan"))
    return lines
