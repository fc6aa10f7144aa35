"""What the comparing commands share: options to engine, progress, files written, lines printed, exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from asc_devkit.errors import AscError, Problem

if TYPE_CHECKING:
    from asc_devkit.precision.comparison.result import Result

PATH: Final = click.Path(path_type=Path)
NAMES: Final = {"token_normalize_func": lambda word: word.replace("_", "-")}
SHOWN: Final = 10


@dataclass
class Request:
    """One comparison as a command asks for it."""

    golden: Path
    target: Path
    standard: str
    numbers: dict[str, Any] = field(default_factory=dict)
    overrides: Path | None = None
    atol: float = 1e-3
    rtol: float = 1e-3
    cosine: float | None = None
    equal_nan: bool = True
    also: tuple[str, ...] = ()
    mapping: Path | None = None
    by_value: bool = True
    workers: int = 0
    resume: Path | None = None
    dtype: str | None = None
    shape: str | None = None
    judge_as: str = "auto"
    model: Path | None = None


def execute(request: Request) -> Result:
    """Run the comparison with a progress line."""
    from asc_devkit.precision.comparison import Options, compare_paths
    from asc_devkit.precision.comparison.pairs import PairOptions
    from asc_devkit.precision.policy import Policy, preset
    from asc_devkit.precision.sources.raw_file import dtype_of

    preset(request.standard)
    overrides = Policy.load_overrides(request.overrides) if request.overrides is not None else {}
    options = Options(
        pair=PairOptions(
            policy=Policy(request.standard, request.numbers, overrides),
            atol=request.atol,
            rtol=request.rtol,
            cosine=request.cosine,
            equal_nan=request.equal_nan,
            judge_as=_judge_as(request.judge_as),
            also=tuple(
                Policy(name) if name != "combined" else Policy(name, _combined(request)) for name in request.also
            ),
        ),
        mapping=request.mapping,
        by_value=request.by_value,
        workers=request.workers,
        resume=request.resume,
        dtype=dtype_of(request.dtype) if request.dtype else None,
        shape=parse_shape(request.shape) if request.shape else None,
        model=request.model,
    )
    with progress() as tell:
        return compare_paths(request.golden, request.target, options, tell)


def _judge_as(text: str) -> str:
    from asc_devkit.precision.sources.raw_file import dtype_of

    return text if text in ("auto", "file") else dtype_of(text).name


def _combined(request: Request) -> dict[str, Any]:
    return {"atol": request.atol, "rtol": request.rtol}


def parse_shape(text: str) -> tuple[int, ...]:
    """``1,3,224,224`` (brackets and x allowed) as sizes. Raises ``AscError`` (ASC5104)."""
    try:
        dims = tuple(int(part) for part in text.strip("[]() ").replace("x", ",").split(",") if part.strip())
        if any(d < 0 for d in dims):
            raise ValueError
    except ValueError:
        raise AscError(Problem("ASC5104", f"--shape {text!r} is no shape.", fix="Write it as 1,3,224,224.")) from None
    return dims


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A progress line on stderr while it is a terminal; silence otherwise."""
    if not sys.stderr.isatty():
        yield lambda what, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("start", total=1.0)
        yield lambda what, share: shown.update(task, description=what[-60:], completed=share)


def write(result: Result, output: Path | None, *extra: Path | None, base: str = "compare_result") -> list[Path]:
    """Write the reports: JSON, CSV and HTML into the folder ``output`` (or the one file it names), and each ``extra`` file.

    The form follows the suffix: .json, .csv, .xlsx, .html, .xml (JUnit), .sarif. Raises ``AscError`` for another one.
    """
    paths: list[Path] = [path for path in extra if path is not None]
    if output is not None:
        if output.suffix.lower() in _WRITERS and not output.is_dir():
            paths.insert(0, output)
        else:
            paths = [*(output / f"{base}{suffix}" for suffix in (".html", ".json", ".csv")), *paths]
    unknown = [path for path in paths if path.suffix.lower() not in _WRITERS]
    if unknown:
        known = ", ".join(_WRITERS)
        raise AscError(
            Problem("ASC5114", f"{p.name} is of no kind that is written.", fix=f"Use {known}.") for p in unknown
        )
    for path in paths:
        _WRITERS[path.suffix.lower()](result, path)
    return paths


def _text(name: str) -> Callable[[Result, Path], None]:
    def run(result: Result, path: Path) -> None:
        from asc_devkit import files
        from asc_devkit.precision.comparison import outputs

        files.write_text(path, getattr(outputs, name)(result))

    return run


def _xlsx(result: Result, path: Path) -> None:
    from asc_devkit.precision.comparison.outputs import write_xlsx

    write_xlsx(result, path)


def _html(result: Result, path: Path) -> None:
    from asc_devkit import files
    from asc_devkit.precision.comparison.outputs import finite
    from asc_devkit.report.compare_page import render

    files.write_text(path, render(finite(result.page())))


_WRITERS: Final[dict[str, Callable[[Result, Path], None]]] = {
    ".html": _html,
    ".json": _text("to_json"),
    ".csv": _text("to_csv"),
    ".xlsx": _xlsx,
    ".xml": _text("to_junit"),
    ".sarif": _text("to_sarif"),
}


def show(result: Result, written: list[Path]) -> None:
    """Print the summary: counts, failing tensors, operators to blame, what to do, where the reports are."""
    counts = result.counts()
    click.echo(
        f"{len(result.rows)} tensors compared: {counts['pass']} pass, {counts['warning']} warning, "
        f"{counts['error']} error, {counts['unreadable']} unreadable"
    )
    unmatched = (result.matching.only_golden, result.matching.only_target)
    for names, side in zip(unmatched, ("golden", "target"), strict=True):
        if names:
            more = f", ... {len(names) - 5} more" if len(names) > 5 else ""
            click.echo(f"only on the {side} side ({len(names)}): {', '.join(names[:5])}{more}")
    failing = [row for row in result.rows if row.level not in ("pass", "warning")]
    for row in failing[:SHOWN]:
        click.echo(f"  {row.level.upper():10} {row.name}: {'; '.join(row.reasons)}")
        if row.cause is not None:
            click.echo(f"             {row.cause.kind}: {row.cause.evidence}")
    if len(failing) > SHOWN:
        click.echo(f"  ... and {len(failing) - SHOWN} more")
    if result.verdict is not None:
        click.echo(f"{result.verdict.limited}: {result.verdict.statement}")
    if result.first is not None:
        word = "sudden" if result.first.sudden else "accumulated"
        click.echo(f"first divergent operator: {result.first.op} ({word}; {result.first.why})")
        if result.first.advice:
            click.echo(f"what to do: {result.first.advice}")
        for finding in result.findings[1:SHOWN]:
            click.echo(f"  also {finding.op}: {finding.why}")
    for problem in result.problems[:SHOWN]:
        click.echo(f"{problem.code}: {problem.what}", err=True)
    for note in result.notes:
        click.echo(note)
    click.echo("PASS" if result.passed else "FAIL")
    for path in written:
        click.echo(f"written: {path}", err=True)
