"""``print_summary``: the verdict of a report in a terminal, or as plain text when the output goes elsewhere."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from asc_devkit.report import text
from asc_devkit.report.origins import ORIGINS, origin_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLAIN_WIDTH: Final = 120
_QUESTIONS: Final = {"converts": "Converts?", "accurate": "Accurate?", "fast": "How fast?", "fits": "Fits?"}
_MARKS: Final = {True: ("green", "yes"), False: ("red", "no"), None: ("yellow", "?")}
_WORST: Final = 5
_MOST_NODES: Final = 20

NAME_WIDTH: Final = 44


def print_summary(report: Mapping[str, Any], html: Path | None = None, file: IO[str] | None = None) -> None:
    """Print the five answers, the worst layers, the slowest operators and where the full report is.

    Colours and the terminal's width only when ``file`` (default stdout) is a terminal.
    """
    from rich.console import Console
    from rich.markup import escape

    out = file or sys.stdout
    console = Console(file=out, width=None if out.isatty() else PLAIN_WIDTH, highlight=False, soft_wrap=False)
    _verdict(console, report)
    for problem in report.get("problems") or []:
        _problem(console, problem)
    for note in (report.get("accuracy") or {}).get("notes") or ():
        console.print(escape(note), soft_wrap=True)
    _layers(console, report.get("accuracy") or {})
    _operators(console, report.get("performance") or {})
    _next_steps(console, report["verdict"]["next"] if not report.get("problems") else [])
    if html is not None:
        console.print(f"\nFull report: [bold]{escape(str(html))}[/]", soft_wrap=True)


def _verdict(console: Console, report: Mapping[str, Any]) -> None:
    from rich.markup import escape
    from rich.panel import Panel
    from rich.table import Table

    verdict = report["verdict"]
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.columns[2].no_wrap = False
    for key, question in _QUESTIONS.items():
        answer = verdict[key]
        colour, mark = _MARKS[answer["ok"]]
        origin = ORIGINS[origin_of(key)][0]
        grid.add_row(
            f"[bold {colour}]{mark}[/]",
            f"[bold]{question}[/]",
            f"{escape(text.answer(answer['text']))} [dim]({origin})[/]",
        )
    title = f"{report['model']['name']} on {report['soc']['name']}, {report['options']['precision_mode']}"
    state = "[bold green]accepted[/]" if verdict["passed"] else "[bold red]not accepted[/]"
    console.print(
        Panel(grid, title=f"[bold]{escape(title)}[/]", subtitle=state, title_align="left", subtitle_align="left")
    )


def _problem(console: Console, problem: Mapping[str, Any]) -> None:
    from rich.markup import escape

    console.print(f"\n[bold red]{escape(problem['code'])}[/] {escape(problem['what'])}")
    for node in problem.get("nodes", ())[:_MOST_NODES]:
        console.print(f"    - {escape(str(node))}", soft_wrap=True)
    if len(problem.get("nodes", ())) > _MOST_NODES:
        console.print(f"    ... and {len(problem['nodes']) - _MOST_NODES} more")
    if problem.get("cause"):
        console.print(f"  Possible Cause: {escape(problem['cause'])}")
    if problem.get("fix"):
        console.print(f"  Solution: {escape(problem['fix'])}")


def _layers(console: Console, accuracy: Mapping[str, Any]) -> None:
    rows = sorted(accuracy.get("layers") or [], key=lambda r: -_amount(r["relative_euclidean"]))[:_WORST]
    if not rows:
        return
    table = _table(
        f"Worst layers ({ORIGINS['simulated'][0]})", ("layer", "type"), ("cosine", "relative error", "own part")
    )
    for row in rows:
        table.add_row(
            _tail(row["name"]),
            row["type"],
            text.cosine(row["cosine"]),
            text.small(row["relative_euclidean"]),
            text.small(row["own_error"]),
        )
    console.print()
    console.print(table)


def _operators(console: Console, performance: Mapping[str, Any]) -> None:
    rows = sorted(performance.get("operators") or [], key=lambda r: -_amount(r["us"]))[:_WORST]
    total = _amount(performance.get("total_us") or 0.0)
    if not rows or not total:
        return
    table = _table(
        f"Slowest operators ({ORIGINS['estimated'][0]})", ("operator", "type"), ("time", "80 % interval", "share")
    )
    table.add_column("bound by")
    for row in rows:
        interval = f"{text.microseconds(row['lo80'])} to {text.microseconds(row['hi80'])}"
        share = f"{100 * _amount(row['us']) / total:.1f} %"
        table.add_row(_tail(row["name"]), row["type"], text.microseconds(row["us"]), interval, share, row["bound_by"])
    console.print()
    console.print(table)


def _tail(name: str) -> str:
    """The end of a long name: exporters put the path of modules first, what tells layers apart comes last."""
    return name if len(name) <= NAME_WIDTH else "…" + name[1 - NAME_WIDTH :]


def _table(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, header_style="dim", padding=(0, 2, 0, 0)
    )
    for name in words:
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=NAME_WIDTH)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _next_steps(console: Console, steps: list[Mapping[str, str]]) -> None:
    from rich.markup import escape

    if steps:
        console.print("\n[bold]Next[/]")
    for number, step in enumerate(steps, 1):
        lines = textwrap.wrap(step["text"], console.width - 5)
        console.print(f"  {number}. {escape(lines[0])}")
        for line in lines[1:]:
            console.print(f"     {escape(line)}")
        if step.get("command"):
            console.print(f"     [cyan]{escape(step['command'])}[/]", soft_wrap=True)


def _amount(value: Any) -> float:
    """Reports spell infinities and NaN as text; both sort as the worst."""
    return float(value) if isinstance(value, (int, float)) and value == value else float("inf")
