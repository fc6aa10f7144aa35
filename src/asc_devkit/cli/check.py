"""`asc check [MODEL]`: the main job. Progress goes to stderr, the verdict to stdout, the reports into a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from asc_devkit.cli.atc_options import ConversionCommand

PATH = click.Path(path_type=Path)


class _Check(ConversionCommand):
    """Outputs and inputs stay those of the original model, which the compiled one is compared with."""

    left_out = frozenset(
        {"framework", "weight", "out_nodes", "input_fp16_nodes", "input_fp16_nchw", "auto_keep_dtype", "log"}
    )


@click.command(cls=_Check)
@click.argument("model", type=PATH, required=False)
@click.option(
    "--soc", "--soc-version", "soc", default="Ascend310P3", show_default=True, help="Chip (see `asc soc list`)."
)
@click.option("--input-shape", default="", help='Fixes dynamic axes: "images:1,3,640,640;mask:1,64".')
@click.option("--insert-op-conf", type=PATH, help="AIPP configuration: the data are then uint8 pictures.")
@click.option("--data", type=PATH, help="Inputs: .npy/.npz file, or a folder of them [default: random values].")
@click.option(
    "--labels", type=PATH, help="Class numbers (.npy, .npz, .csv, .txt): adds top-1 accuracy before and after."
)
@click.option("-o", "--output", type=PATH, default=Path("asc_out"), show_default=True, help="Folder for the reports.")
@click.option("--precision-mode", default="force_fp16", show_default=True, help="See `atc --help`.")
@click.option("--threshold", type=click.FloatRange(-1, 1), default=0.999, show_default=True, help="Least cosine.")
@click.option("--samples", type=click.IntRange(1), default=512, show_default=True, help="Most inputs to run.")
@click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="CPU threads; 0 means all.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of the summary.")
def check(
    model: Path | None,
    soc: str,
    input_shape: str,
    insert_op_conf: Path | None,
    data: Path | None,
    labels: Path | None,
    output: Path,
    precision_mode: str,
    threshold: float,
    samples: int,
    threads: int,
    as_json: bool,
    atc_flags: dict[str, str],
) -> int:
    """Convert MODEL (ONNX), compare it with the original layer by layer, predict time and memory, say what to do next.

    Without MODEL the embedded example runs: a small CNN on handwritten digits, with labels. Exit code: 0 accepted,
    1 not accurate enough or too large, 2 the model cannot be converted.
    """
    from asc_devkit import check as checks

    options = checks.CheckOptions(
        model=model,
        output=output,
        soc=soc,
        input_shape=input_shape,
        insert_op_conf=insert_op_conf,
        precision_mode=precision_mode,
        data=data,
        labels=labels,
        threshold=threshold,
        host_ops=atc_flags.pop("host_ops", "false") == "true",
        samples=samples,
        threads=threads,
        atc_flags=atc_flags,
    )
    with _progress() as tell:
        result = checks.run(options, tell)
    if as_json:
        click.echo(json.dumps(result.report, indent=1, default=str, allow_nan=False))
    else:
        from asc_devkit.report import print_summary

        print_summary(result.report, html=result.html)
    return result.exit_code


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A progress line on stderr while it is a terminal; silence otherwise."""
    if not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("start", total=1.0)
        yield lambda stage, share: shown.update(task, description=stage, completed=share)
