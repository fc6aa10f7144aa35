"""`asc tune-precision`, and the search of `atc --auto_keep_dtype`: the operators that must keep float32, as a file."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from asc_devkit.atc.options import Options
    from asc_devkit.check.keep import Keep

_SHOWN: Final = 20


@click.command("tune-precision")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--soc", default="Ascend310P3", show_default=True, help="Chip (see `asc soc list`).")
@click.option("--target", default="0.999", show_default=True, help="What every output must reach.")
@click.option("--metric", default="cosine", show_default=True, help="What the target measures (see `atc --help`).")
@click.option("--precision-mode", default="force_fp16", show_default=True, help="See `atc --help`.")
@click.option("--data", type=click.Path(path_type=Path), help="Inputs, as in `asc check` [default: random values].")
@click.option("--input-shape", default="", help='Fixes dynamic axes: "images:1,3,640,640".')
@click.option("--host-ops", is_flag=True, help="Leave operators CANN lacks to the host instead of refusing.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File [default: MODEL_keep_dtype.cfg].")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def tune_precision(
    model: Path,
    soc: str,
    target: str,
    metric: str,
    precision_mode: str,
    data: Path | None,
    input_shape: str,
    host_ops: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find a smallest set of operators of MODEL to keep in float32 so that every output reaches TARGET."""
    from asc_devkit.atc.options import from_flags

    flags = {
        "model": str(model),
        "framework": "5",
        "output": str(model.with_suffix("")),
        "soc_version": soc,
        "precision_mode": precision_mode,
        "input_shape": input_shape,
        "host_ops": "true" if host_ops else "false",
        "auto_keep_dtype": target,
        "metric": metric,
        "data": str(data or ""),
    }
    found, written = search_and_write(
        from_flags({k: v for k, v in flags.items() if v}), output or model.with_name(f"{model.stem}_keep_dtype.cfg")
    )
    if as_json:
        click.echo(json.dumps({**found.as_dict(), "files": [str(p) for p in written]}, indent=2))
    else:
        print_kept(found, written)
    if not found.reached:
        raise SystemExit(1)


def keep_then(request: Options) -> Options | None:
    """The search of ``atc --auto_keep_dtype``: prints its result; the options to convert with, None when out of reach."""
    path = request.output.with_name(f"{request.output.name}_keep_dtype.cfg")
    found, written = search_and_write(request, path)
    print_kept(found, written)
    if not found.reached:
        return None
    return replace(request, keep_dtype=str(path)) if found.names else request


def search_and_write(request: Options, path: Path) -> tuple[Keep, list[Path]]:
    """Run the search and write its files, if operators must be kept; a line on stderr tells how far it is."""
    from asc_devkit import files
    from asc_devkit.check.keep import search, target

    terminal = sys.stderr.isatty()

    def tell(text: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[2K{text} ...", err=True, nl=False)

    try:
        found = search(request, target(request.auto_keep_dtype, request.metric), request.data, tell)
    finally:
        if terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
    written: list[Path] = []
    if found.names:
        files.write_text(path, found.keep_dtype_text())
        written.append(path)
    if found.mixlist_reached:
        mix = path.with_name(f"{path.stem.removesuffix('_keep_dtype')}_mixlist.json")
        files.write_text(mix, found.mixlist_text())
        written.append(mix)
    return found, written


def print_kept(found: Keep, written: list[Path]) -> None:
    """The ranking, what is kept, what it costs, and the files."""
    goal = found.target
    worst = min if goal.metric in ("cosine", "close_share") else max
    reached = worst((o[goal.metric] for o in found.outputs), default=1.0)
    if found.reached and not found.names:
        click.echo(f"No operator needs float32: {goal} holds in the low type ({goal.metric} {reached:.6g}).")
        return
    kept = set(found.names)
    click.echo("Layers by saturation and own error (all in the low type):")
    for row in found.ranking[:_SHOWN]:
        mark = "*" if kept & {o.rsplit(" (", 1)[0] for o in row["origin"]} else " "
        figures = f"own error {row['own_error']:.2e}  saturated {row['saturated']}"
        click.echo(f" {mark} {row['name'][:44]:44} {row['type'][:24]:24} {figures}")
    if found.unable:
        click.echo(
            f"warning: {len(found.unable)} Conv and MatMul operators cannot keep float32 on {found.soc}, whose cube "
            "multiplies float16 only; they were left out. Ascend910B and later have a float32 cube."
        )
    if not found.reached:
        click.echo(f"Out of reach: with every operator that can keep float32, {goal.metric} is {reached:.6g} ({goal}).")
        return
    click.echo(f"Keep float32 ({found.conversions} conversions tried), {goal} holds ({goal.metric} {reached:.6g}):")
    for name in sorted(found.names, key=lambda n: -found.costs_us[n]):
        click.echo(f"   {name:44} costs {found.costs_us[name]:+.1f} us (estimated)")
    click.echo(f"Time of a run (estimated): {found.plain_us:.1f} us without, {found.kept_us:.1f} us with them.")
    for path in written:
        option = "modify_mixlist" if path.suffix == ".json" else "keep_dtype"
        click.echo(f"Wrote {path}: atc --{option}={path}")
    if found.mixlist_reached is False:
        click.echo("Their types on the black list (--modify_mixlist) do not reach it: no such file was written.")
