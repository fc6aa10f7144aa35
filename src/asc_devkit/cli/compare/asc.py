"""`asc compare GOLDEN TARGET`: compare files or folders of tensors of any layout."""

from __future__ import annotations

from pathlib import Path

import click

from asc_devkit.cli.compare import shared
from asc_devkit.cli.compare.shared import NAMES, PATH


@click.command(context_settings=NAMES)
@click.argument("golden", type=PATH)
@click.argument("target", type=PATH)
@click.option("-o", "--output", type=PATH, help="Folder for compare_result.html/.json/.csv, or one file.")
@click.option(
    "--standard", default="cann-eco", show_default=True, help="Acceptance standard; see `asc compare --standards`."
)
@click.option("--standards", is_flag=True, is_eager=True, expose_value=False, callback=lambda c, p, v: _standards(c, v),
              help="List the standards and stop.")  # fmt: skip
@click.option("--atol", type=float, help="Absolute tolerance (standards combined, any, ...).")
@click.option("--rtol", type=float, help="Relative tolerance.")
@click.option("--error-rate-threshold", type=float, help="Share of elements that may fail (strictly below).")
@click.option("--cosine-threshold", type=click.FloatRange(-1, 1), help="Least cosine, as an additional gate.")
@click.option("--overrides", type=PATH, help="JSON: exceptions by operator name or type.")
@click.option("--mapping", type=PATH, help="JSON or CSV: target name to golden name.")
@click.option(
    "--match-values/--no-match-values", default=True, show_default=True, help="Pair what is left by its values."
)
@click.option("--model", type=PATH, help="The model: executes each operator on the target's own inputs.")
@click.option(
    "--suggest-mix", type=PATH, help="With --model: write the smallest keep-float32 list (--keep_dtype) here."
)
@click.option("--soc", default="Ascend310P3", show_default=True, help="Chip for --suggest-mix.")
@click.option("--dtype", help="Element type of .bin files [default: sidecar, else float32].")
@click.option("--shape", help="Shape of .bin files.")
@click.option(
    "--judge-as",
    default="auto",
    show_default=True,
    help="Element type to judge by: auto, file, or a type such as fp16.",
)
@click.option("--workers", type=click.IntRange(0), default=0, help="Parallel workers; 0 means all cores.")
@click.option("--resume", type=PATH, help="Journal: continue a comparison that was stopped.")
@click.option("--junit", type=PATH, help="Write a JUnit .xml file.")
@click.option("--sarif", type=PATH, help="Write a .sarif file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def compare(
    golden: Path,
    target: Path,
    output: Path | None,
    standard: str,
    atol: float | None,
    rtol: float | None,
    error_rate_threshold: float | None,
    cosine_threshold: float | None,
    overrides: Path | None,
    mapping: Path | None,
    match_values: bool,
    model: Path | None,
    suggest_mix: Path | None,
    soc: str,
    dtype: str | None,
    shape: str | None,
    judge_as: str,
    workers: int,
    resume: Path | None,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
) -> int:
    """Compare TARGET with GOLDEN: .npy, .npz, .bin, .pt, safetensors, dumps of this toolkit, msprobe trees, NPU dumps.

    Exit code: 0 all tensors pass, 1 a tensor fails, 2 nothing comparable.
    """
    if suggest_mix is not None and model is None:
        raise click.UsageError("--suggest-mix needs --model: operators are chosen by converting and running it.")
    numbers = {"atol": atol, "rtol": rtol, "error_rate": error_rate_threshold}
    request = shared.Request(
        golden=golden,
        target=target,
        standard=standard,
        numbers={k: v for k, v in numbers.items() if v is not None},
        overrides=overrides,
        atol=atol if atol is not None else 1e-3,
        rtol=rtol if rtol is not None else 1e-3,
        cosine=cosine_threshold,
        mapping=mapping,
        by_value=match_values,
        workers=workers,
        resume=resume,
        dtype=dtype,
        shape=shape,
        judge_as=judge_as,
        model=model,
    )
    result = shared.execute(request)
    written = shared.write(result, output, junit, sarif)
    if as_json:
        from asc_devkit.precision.comparison.outputs import to_json

        click.echo(to_json(result), nl=False)
    else:
        shared.show(result, written)
    if suggest_mix is not None and model is not None:
        from asc_devkit.cli.compare.suggest import suggest

        suggest(result, model, soc, str(cosine_threshold or 0.999), suggest_mix, as_json)
    return result.exit_code


def _standards(context: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    from asc_devkit.precision.policy import presets

    for row in presets().values():
        click.echo(f"{row.id:16} {row.what} [{row.source}]")
    context.exit(0)
