"""``python -m ais_bench``: the tool's options in both of its spellings (``--dymBatch``, ``--dym-batch``)."""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, Final

import click

from asc_devkit.cli.errors import guarded
from asc_devkit.compat.ais_bench import benchmark
from asc_devkit.compat.ais_bench.benchmark import Request
from asc_devkit.compat.ais_bench.model import InferenceSession
from asc_devkit.compat.ais_bench.timing import lines
from asc_devkit.errors import AscError, Problem

SWITCH: Final = click.BOOL
COUNT: Final = click.IntRange(1, 1_000_000)
NOT_HERE: Final = {
    "energy_consumption": "No power can be measured without the device.",
    "profiler": "Profiles of this command are not collected yet.",
    "perf": "trtexec needs another vendor's device.",
}


def _spelling(word: str) -> str:
    """One form for all spellings of an option."""
    return word.replace("-", "").replace("_", "").lower()


@click.command(
    context_settings={"token_normalize_func": _spelling, "help_option_names": ["-h", "--help"]},
    epilog="Times are measured on this CPU; the estimate for the chip is printed beside them.",
)
@click.option("--model", "--om-model", required=True, help="The .om file.")
@click.option("--input", "-i", "given", help="Files or folders, separated by commas [default: made-up data].")
@click.option("--output", "-o", help="Folder for results [default: not written].")
@click.option("--output_dirname", help="Sub-folder of --output [default: date and time].")
@click.option("--outfmt", type=click.Choice(("BIN", "NPY", "TXT"), case_sensitive=False), default="BIN")
@click.option("--loop", type=COUNT, default=1, show_default=True, help="Executions of each run.")
@click.option("--debug", type=SWITCH, default=False, help="Show inputs, outputs and each execution's time.")
@click.option("--device", "-d", default="0", show_default=True, help="One device, or several: 0,1.")
@click.option("--dymBatch", "dym_batch", type=COUNT, help="Batch of a model with batch gears.")
@click.option("--dymHW", "dym_hw", help="height,width of a model with image gears.")
@click.option("--dymDims", "dym_dims", help="name:shape;name:shape of a model with dimension gears.")
@click.option("--dymShape", "dym_shape", help="As --dymDims; the shape must be one of the model's.")
@click.option("--dymShape_range", "dym_range", help="name:1,3,200~224,224-230, or an .info file: one run per shape.")
@click.option("--outputSize", "output_size", help="Bytes reserved for each output, separated by commas (--dymShape).")
@click.option("--auto_set_dymdims_mode", "auto_dims", type=SWITCH, default=False, help="Shapes from the .npy inputs.")
@click.option("--auto_set_dymshape_mode", "auto_shape", type=SWITCH, default=False, help="Shapes from the .npy inputs.")
@click.option("--batchsize", "--batch-size", type=COUNT, help="For the throughput [default: first axis of input 0].")
@click.option("--pure_data_type", type=click.Choice(("zero", "random")), default="zero", show_default=True)
@click.option("--profiler", type=SWITCH, default=False, help="Collect a profile into <output>/profiler.")
@click.option("--dump", type=SWITCH, default=False, help="Write every operator's output into <output>/dump.")
@click.option("--acl_json_path", help="acl.json with a dump section.")
@click.option("--output_batchsize_axis", type=click.IntRange(0, 32), default=0, show_default=True)
@click.option("--run_mode", type=click.Choice(("array", "files", "tensor", "full")), default="array", show_default=True)
@click.option("--display_all_summary", type=SWITCH, default=False, help="Copies between host and device too.")
@click.option("--warmup_count", type=click.IntRange(0, 1_000_000), default=1, show_default=True)
@click.option("--divide_input", type=SWITCH, default=False, help="Share the runs out among several devices.")
@click.option("--pipeline", type=SWITCH, default=False, help="Accepted: nothing is copied that could overlap.")
@click.option("--threads", type=COUNT, default=1, help="Accepted, with --pipeline.")
@click.option("--profiler_rename", type=SWITCH, default=True, hidden=True)
@click.option("--dump_npy", type=SWITCH, default=False, help="Accepted: dumps are .npy files already.")
@click.option("--aipp_config", hidden=True, help="For models with dynamic AIPP; without effect on others.")
@click.option("--energy_consumption", type=SWITCH, default=False, hidden=True)
@click.option("--npu_id", type=int, default=0, hidden=True)
@click.option("--backend", hidden=True)
@click.option("--perf", type=SWITCH, default=False, hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON.")
def command(**given: Any) -> None:
    """Benchmark an .om on the virtual NPU."""
    impossible = [
        Problem("ASC4522", f"--{name} is not possible here.", cause=NOT_HERE[name], fix="Leave it out.")
        for name in NOT_HERE
        if given[name]
    ]
    impossible += _contradictions(given)
    if impossible:
        raise AscError(impossible)
    request = Request(
        model=given["model"],
        input=given["given"],
        output=given["output"],
        output_dirname=given["output_dirname"],
        outfmt=given["outfmt"].upper(),
        loop=given["loop"],
        warmup_count=given["warmup_count"],
        batchsize=given["batchsize"],
        pure_data_type=given["pure_data_type"],
        dym_batch=given["dym_batch"],
        dym_hw=given["dym_hw"],
        dym_dims=given["dym_dims"],
        dym_shape=given["dym_shape"],
        auto_shape=given["auto_dims"] or given["auto_shape"],
        output_size=_sizes(given["output_size"]),
        output_batchsize_axis=given["output_batchsize_axis"],
        run_mode=given["run_mode"],
        dump=given["dump"],
        acl_json_path=given["acl_json_path"],
        debug=given["debug"],
    )
    devices = _devices(given["device"])
    if given["debug"]:
        click.echo("\n".join(benchmark.described(InferenceSession(request.model, devices[0]))))
    if given["dym_range"]:
        found = _ranges(request, devices[0], given["dym_range"])
    elif len(devices) == 1:
        found = [benchmark.run(replace(request, device=devices[0]))]
    else:
        found = _everywhere(request, devices, given["divide_input"])
    if given["as_json"]:
        click.echo(json.dumps(found, indent=1))
    else:
        _print(found, request, given["display_all_summary"])


def main() -> None:
    """Entry point; exit codes as all commands of the toolkit."""
    sys.exit(guarded(command))


def _print(found: list[dict[str, Any]], request: Request, display_all: bool) -> None:
    for summary in found:
        if summary.get("shape"):
            click.echo(f"[INFO] shape {summary['shape']}")
        click.echo("\n".join(lines(summary, display_all)))
        if "summary_file" in summary:
            click.echo(f"[INFO] results: {summary['summary_file']}")
    if len({s["device"] for s in found}) > 1:
        for index, s in enumerate(found):
            click.echo(
                f"i:{index} device_{s['device']} throughput:{s['throughput']} "
                f"start_time:{s['start_time']} end_time:{s['end_time']}"
            )
        click.echo(f"[INFO] summary throughput:{sum(s['throughput'] for s in found)}")


def _ranges(request: Request, device: int, text: str) -> list[dict[str, Any]]:
    found = []
    for shape in benchmark.shape_range(text):
        summary = benchmark.run(replace(request, device=device, dym_shape=shape))
        found.append({**summary, "shape": shape})
    return found


def _everywhere(request: Request, devices: list[int], divide: bool) -> list[dict[str, Any]]:
    """One process for each device, at the same time."""
    count = len(devices)
    requests = [
        replace(
            request,
            device=device,
            only=(i, count) if divide else (0, 1),
            output_dirname=f"{request.output_dirname or 'device'}_{device}" if request.output else None,
        )
        for i, device in enumerate(devices)
    ]
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(benchmark.run, requests))


def _contradictions(given: dict[str, Any]) -> list[Problem]:
    problems = []
    if given["profiler"] and given["dump"]:
        problems.append(Problem("ASC4521", "--profiler and --dump exclude each other.", fix="Give one of them."))
    for name in ("profiler", "dump", "output_dirname"):
        if given[name] and not given["output"]:
            problems.append(Problem("ASC4521", f"--{name} needs --output.", fix="Add --output FOLDER."))
    if (given["auto_dims"] or given["auto_shape"]) and not given["given"]:
        problems.append(
            Problem("ASC4521", "Shapes are to come from the inputs, and there are none.", fix="Add --input.")
        )
    if given["output_dirname"] and ("/" in given["output_dirname"] or given["output_dirname"].startswith(".")):
        problems.append(Problem("ASC4521", "--output_dirname is a path.", fix="Give a plain folder name."))
    return problems


def _devices(text: str) -> list[int]:
    parts = text.split(",")
    if not all(p.isdecimal() and len(p) < 4 for p in parts) or len(parts) > 64:
        raise AscError(Problem("ASC4523", f"--device {text} is no list of devices.", fix="--device 0 or --device 0,1"))
    return [int(p) for p in parts]


def _sizes(text: str | None) -> tuple[int, ...]:
    if not text:
        return ()
    parts = text.split(",")
    if not all(p.isdecimal() and len(p) < 14 for p in parts):
        raise AscError(Problem("ASC4503", f"--outputSize {text} is no list of sizes.", fix="--outputSize 10000,10000"))
    return tuple(int(p) for p in parts)
