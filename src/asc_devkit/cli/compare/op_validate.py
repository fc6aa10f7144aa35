"""`op_validate` (`opValidate`): one operator's result against its golden result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from asc_devkit.cli.compare import shared
from asc_devkit.cli.compare.shared import NAMES, PATH

if TYPE_CHECKING:
    from asc_devkit.precision.comparison.pairs import Row
    from asc_devkit.precision.comparison.result import Result

WORST = 5


@click.command(context_settings={**NAMES, "help_option_names": ["-h", "--help"]})
@click.option("--golden", type=PATH, required=True, help="Golden result: file, or folder for a batch.")
@click.option("--actual", type=PATH, required=True, help="Result to judge: file, or folder for a batch.")
@click.option(
    "--op-name", default="", help="Name shown in the report; also chooses the class of `--criterion standard`."
)
@click.option("--abs-tolerance", type=float, default=1e-3, show_default=True, help="Absolute tolerance.")
@click.option("--rel-tolerance", type=float, default=1e-2, show_default=True, help="Relative tolerance.")
@click.option("--error-rate-threshold", type=float, default=0.0, show_default=True,
              help="The result passes while the share of failing elements is below this; NaN and Inf never.")  # fmt: skip
@click.option(
    "--criterion", default="any", show_default=True, help="any, combined, or a standard (`asc compare --standards`)."
)
@click.option("--equal-nan/--no-equal-nan", default=True, show_default=True, help="Two NaN are the same value.")
@click.option("--dtype", help="Element type of .bin files [default: sidecar, else float32].")
@click.option("--shape", help="Shape of .bin files.")
@click.option("--output", "-o", type=PATH, help="Folder for the reports, or one file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def op_validate(
    golden: Path,
    actual: Path,
    op_name: str,
    abs_tolerance: float,
    rel_tolerance: float,
    error_rate_threshold: float,
    criterion: str,
    equal_nan: bool,
    dtype: str | None,
    shape: str | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Judge an operator's result: MAE, MRE, largest errors with places and values, kind of error, what to do."""
    numbers = {"atol": abs_tolerance, "rtol": rel_tolerance, "error_rate": error_rate_threshold}
    request = shared.Request(
        golden=golden,
        target=actual,
        standard=criterion,
        numbers=numbers if criterion in ("any", "combined") else {},
        atol=abs_tolerance,
        rtol=rel_tolerance,
        equal_nan=equal_nan,
        also=tuple(name for name in ("combined", "cann-eco") if name != criterion),
        dtype=dtype,
        shape=shape,
    )
    result = shared.execute(request)
    for row in result.rows:
        if op_name:
            row.op = op_name
    _warn(result)
    written = shared.write(result, output, base="op_validate_result") if output is not None else []
    if as_json:
        from asc_devkit.precision.comparison.outputs import to_json

        click.echo(to_json(result), nl=False)
        return result.exit_code
    for row in result.rows:
        _row(row)
    shared.show(result, written)
    return result.exit_code


def _warn(result: Result) -> None:
    """Say when only the literal either-or rule fails: it marks most of a healthy fp16 matmul."""
    alone = [row for row in result.rows if row.rule == "any" and row.level == "error" and row.also]
    names = [row.name for row in alone if all(level != "error" for _, level, _ in row.also)]
    if names:
        result.notes.append(
            f"warning: {', '.join(names[:3])} fails the either-or rule (--criterion any) only; the combined tolerance and "
            "cann-eco pass. Healthy fp16 results often do: small values have large relative errors. "
            "Consider --criterion combined."
        )


def _row(row: Row) -> None:
    m = row.metrics
    click.echo(f"{row.op or row.name}  {row.dtype} {list(row.shape)}  rule {row.rule}")
    if m is None:
        return
    click.echo(f"  MAE {m.mean_abs:.6g}  MRE {m.mean_rel:.6g}  MaxAE {m.max_abs:.6g}  MaxRE {m.max_rel:.6g}", nl=False)
    click.echo(f"  (with eps 1e-12: {m.max_rel_literal():.6g})" if m.zero_expected_errors else "")
    click.echo(f"  cosine {m.cosine:.9f}  RMSE {m.rmse:.6g}  failing elements {row.failing} of {m.count}", nl=False)
    click.echo("".join(f"  {rule}: {failing}" for rule, _, failing in row.also))
    if m.kind_mismatches:
        click.echo(f"  NaN {m.nan_expected} -> {m.nan_actual}  Inf {m.inf_expected} -> {m.inf_actual}")
    for worst in m.worst[:WORST] if row.level == "error" else ():
        place = _place(worst.index, row.shape)
        click.echo(f"    {place}: expected {worst.expected:.8g}, found {worst.actual:.8g}")
    if row.level == "error" and m.error_histogram:
        _histogram(m.error_histogram)


def _place(index: int, shape: tuple[int, ...]) -> str:
    import numpy as np

    if not shape or index >= int(np.prod(shape)):
        return f"[{index}]"
    return str([int(i) for i in np.unravel_index(index, shape)])


def _histogram(rows: tuple[tuple[float, int], ...]) -> None:
    """The distribution of absolute errors, by decades."""
    import math

    decades: dict[int, int] = {}
    for low, count in rows:
        decade = -99 if low == 0 else math.floor(math.log10(low))
        decades[decade] = decades.get(decade, 0) + count
    top = max(decades.values())
    for decade, count in sorted(decades.items()):
        label = "0" if decade == -99 else f"1e{decade:+d}"
        click.echo(f"    |error| {label:>6} {'#' * max(1, round(30 * count / top))} {count}")


def main() -> None:
    """Console entry point."""
    import sys

    from asc_devkit.cli.errors import guarded

    sys.exit(guarded(op_validate))
