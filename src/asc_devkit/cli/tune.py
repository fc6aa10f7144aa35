"""`asc tune-precision`: the operators that must keep float32, as a file for ``atc --keep_dtype``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("tune-precision")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--soc", default="Ascend310P3", show_default=True, help="Chip (see `asc soc list`).")
@click.option("--target", default=0.999, show_default=True, type=click.FloatRange(0, 1), help="Cosine of each output.")
@click.option("--data", type=click.Path(path_type=Path), help="Inputs, as in `asc check` [default: random values].")
@click.option("--input-shape", default="", help='Fixes dynamic axes: "images:1,3,640,640".')
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File [default: MODEL_keep_dtype.cfg].")
def tune_precision(
    model: Path, soc: str, target: float, data: Path | None, input_shape: str, output: Path | None
) -> None:
    """Find a smallest set of operators of MODEL to keep in float32 so that every output reaches TARGET."""
    from asc_devkit import files
    from asc_devkit.atc.options import from_flags
    from asc_devkit.check.keep import search

    flags = {"model": str(model), "framework": "5", "output": str(model.with_suffix("")), "soc_version": soc}
    found = search(from_flags({**flags, **({"input_shape": input_shape} if input_shape else {})}), target, data)
    for row in found.ranking[:20]:
        click.echo(
            f"  {row['name']:40} {row['type']:24} own error {row['own_error']:.2e}  saturated {row['saturated']}"
        )
    if not found.reached:
        click.echo(f"Not even all operators in float32 reach {target} on {soc}.")
        raise SystemExit(1)
    if not found.names:
        click.echo(f"None needed: every output reaches {target} in float16.")
        return
    path = output or model.with_name(f"{model.stem}_keep_dtype.cfg")
    files.write_text(path, "".join(f"{name}\n" for name in found.names))
    click.echo(
        f"Keep {', '.join(found.names)} ({found.conversions} conversions). Wrote {path}: atc --keep_dtype={path}"
    )
