"""`asc convert`: the same conversion as `atc`, with short options, a progress line and JSON output."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from asc_devkit.cli.atc_options import ConversionCommand, merged

if TYPE_CHECKING:
    from asc_devkit.atc import Options, Result


@click.command(cls=ConversionCommand)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--weight", type=click.Path(), help="The .caffemodel of a Caffe net (MODEL is its .prototxt).")
@click.option(
    "--soc", "--soc-version", "soc_version", default="Ascend310P3", show_default=True, help="Chip (see `asc soc list`)."
)
@click.option("-o", "--output", type=click.Path(), help="Path of the .om, or a folder for it [default: beside MODEL].")
@click.option("--input-shape", default="", help='Fixes dynamic axes: "images:1,3,640,640;mask:1,64".')
@click.option("--insert-op-conf", default="", help="AIPP configuration file (docs/aipp.md).")
@click.option("--precision-mode", default="", help="Float types [default: force_fp16] (docs/convert.md).")
@click.option("--out-nodes", default="", help='Cut the graph: "node:0;node2:1" or output names.')
@click.option("--output-type", default="", help='"FP16" for all outputs or "name:FP16".')
@click.option("--log", default="warning", show_default=True, help="debug, info, warning, error or null.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def convert(
    model: Path,
    weight: str | None,
    soc_version: str,
    output: str | None,
    input_shape: str,
    insert_op_conf: str,
    precision_mode: str,
    out_nodes: str,
    output_type: str,
    log: str,
    as_json: bool,
    atc_flags: dict[str, str],
) -> None:
    """Convert MODEL to an .om file; its suffix tells the framework (docs/front_ends.md)."""
    from asc_devkit.atc.options import from_flags
    from asc_devkit.frontends.source import framework_of

    flags = {
        "model": str(model),
        "framework": framework_of(model),
        "weight": weight or "",
        "output": _output(model, output),
        "soc_version": soc_version,
        "input_shape": input_shape,
        "insert_op_conf": insert_op_conf,
        "precision_mode": precision_mode,
        "out_nodes": out_nodes,
        "output_type": output_type,
        "log": log,
    }
    command = shlex.join(["asc", *sys.argv[1:]])
    result = run_conversion(from_flags(merged(flags, atc_flags), command_line=command))
    if as_json:
        click.echo(json.dumps(result.as_dict(), indent=2))
        return
    click.echo(result.summary())


def _output(model: Path, wanted: str | None) -> str:
    """``--output`` for ATC: a folder (one that exists, or a name with a slash at its end) gets the model's name."""
    stem = model.with_suffix("") if model.name else model
    if wanted is None:
        return str(stem)
    if wanted.endswith("/") or (wanted and Path(wanted).is_dir()):
        return str(Path(wanted) / stem.name)
    return wanted


def run_conversion(options: Options) -> Result:
    """Convert with a stage line on stderr while it runs (only on a terminal) and the log at the asked level."""
    from asc_devkit import atc

    terminal = sys.stderr.isatty()

    def show(stage: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[2K{stage} ...", err=True, nl=False)

    try:
        return atc.compile(options, on_stage=show, echo=sys.stderr)
    finally:
        if terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
