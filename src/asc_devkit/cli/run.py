"""`asc run MODEL.om`: run a converted model on the virtual NPU and look at what comes out."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from asc_devkit.cli.watching import RunWatch
    from asc_devkit.npu import Session
    from asc_devkit.npu.numerics import Array
    from asc_devkit.npu.tensor_files import Sample

SCHEMA: Final = "asc-devkit/run/1"
TIMING: Final = "measured on this CPU, not NPU time"
PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=PATH, required=False)
@click.option("--model", "named", type=PATH, metavar="MODEL", help="The same as the argument (spelling of msame).")
@click.option(
    "-i",
    "--input",
    "given",
    multiple=True,
    metavar="NAME=FILE|FILE,..|DIR",
    help="Input as .npy or raw .bin; a folder holds one file per input, or many runs of a model with one input. "
    "Without it random inputs are used.",
)
@click.option("-o", "--output", type=PATH, help="Folder for the outputs [default: not written].")
@click.option(
    "--outfmt", type=click.Choice(("npy", "bin", "txt"), case_sensitive=False), default="npy", show_default=True
)
@click.option(
    "--loop", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="Repeat each run, for timing."
)
@click.option("--dump", type=PATH, help="Folder for the output of every operator (.npy and index.json).")
@click.option("--dump-format", type=click.Choice(("npy", "bin")), default="npy", show_default=True)
@click.option("--aipp", type=PATH, help="Parameters for dynamic AIPP: a configuration file as for static AIPP.")
@click.option("--dymBatch", "dym_batch", type=click.IntRange(1), help="Gear by batch size [default: by the files].")
@click.option("--dymHW", "dym_hw", metavar="H,W", help="Gear by height and width.")
@click.option("--dymDims", "dym_dims", metavar="NAME:1,3,..", help="Gear by the shapes of the inputs (; between them).")
@click.option("--threads", type=click.IntRange(1, 1024), help="CPU threads [default: all].")
@click.option("--overflow", type=click.Choice(("saturate", "infnan")), help="Beyond fp16 [default: as the model says].")
@click.option("--seed", default=0, show_default=True, help="Of random inputs.")
@click.option("--no-cache", is_flag=True, help="Do not keep the executable graph for the next load.")
@click.option("--profile", type=PATH, help="Folder for a profile of the runs (as `msprof` writes it).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    model: Path | None,
    named: Path | None,
    given: tuple[str, ...],
    output: Path | None,
    outfmt: str,
    loop: int,
    dump: Path | None,
    dump_format: str,
    aipp: Path | None,
    dym_batch: int | None,
    dym_hw: str | None,
    dym_dims: str | None,
    threads: int | None,
    overflow: str | None,
    seed: int,
    no_cache: bool,
    profile: Path | None,
    as_json: bool,
) -> None:
    """Run MODEL (.om) on the virtual NPU: shapes, value ranges and host time of its outputs."""
    from asc_devkit import npu, om
    from asc_devkit.cli import gears
    from asc_devkit.cli.watching import RunWatch
    from asc_devkit.npu import tensor_files

    if (model is None) == (named is None):
        raise click.UsageError("Give one model: `asc run MODEL.om` or `asc run --model MODEL.om`.")
    model = model or named
    assert model is not None
    watch = RunWatch(profile)
    watch.begin()
    started = time.monotonic_ns()
    file = om.read(model)
    session = npu.load(file, threads=threads, overflow=overflow, cache=not no_cache)
    watch.loaded(file, model, started)
    if aipp is not None:
        _set_aipp(session, aipp)
    wanted = gears.asked(session, dym_batch, dym_hw, dym_dims)
    runs = tensor_files.samples(given, session.inputs) if given else [tensor_files.Sample("", {})]
    times: list[float] = []
    rows: list[dict[str, Any]] = []
    for index, sample in enumerate(runs):
        _progress(index, len(runs))
        fixed = session.fixed_inputs(wanted if wanted is not None else gears.of_files(session, sample))
        feed = sample.load(fixed) if given else tensor_files.random_inputs(fixed, seed)
        results = _run(session, feed, loop, times, watch)
        if dump is not None:
            session.run(feed, dump / sample.name if len(runs) > 1 else dump, dump_format)
        rows.append(_row(sample, feed, results, output, outfmt.upper()))
    report = {
        "schema": SCHEMA,
        "model": str(model),
        "inputs_from": "files" if given else f"random numbers (seed {seed})",
        "runs": rows,
        "wall_ms": {"first": times[0], "median": statistics.median(times), "min": min(times), "count": len(times)},
        "timing": TIMING,
        "dump": None if dump is None else str(dump),
        "info": session.info,
        "profile": watch.end(),
    }
    click.echo(json.dumps(report, indent=2) if as_json else _text(report))


def _set_aipp(session: Session, path: Path) -> None:
    from asc_devkit.atc.aipp import runtime
    from asc_devkit.errors import AscError, Problem
    from asc_devkit.npu.preprocessing import AippSession

    if not isinstance(session, AippSession):
        raise AscError(
            Problem(
                "ASC4016",
                "--aipp is given, and the model has no dynamic AIPP.",
                fix="Leave it out: static AIPP carries its parameters.",
                nodes=("--aipp",),
            )
        )
    runtime.set_from_file(session, path)


def _run(
    session: Session, feed: Mapping[str, Array], loop: int, times: list[float], watch: RunWatch
) -> dict[str, Array]:
    results: dict[str, Array] = {}
    for _ in range(loop):
        started = time.monotonic_ns()
        results = session.run(feed)
        ended = time.monotonic_ns()
        times.append((ended - started) / 1e6)
        watch.executed(session, feed, started, ended)
    return results


def _row(
    sample: Sample, feed: Mapping[str, Array], results: Mapping[str, Array], folder: Path | None, fmt: str
) -> dict[str, Any]:
    from asc_devkit.npu import tensor_files

    outputs = {}
    for name, array in results.items():
        outputs[name] = dict(tensor_files.statistics(array))
        if folder is not None:
            stem = f"{sample.name}_{name}" if sample.name else name
            outputs[name]["file"] = str(tensor_files.write(folder, stem, array, fmt))
    inputs = {name: dict(tensor_files.statistics(array)) for name, array in feed.items()}
    return {"sample": sample.name, "inputs": inputs, "outputs": outputs}


def _progress(index: int, total: int) -> None:
    if total > 1 and sys.stderr.isatty():
        click.echo(f"\r{index + 1}/{total}", err=True, nl=index + 1 == total)


def _text(report: Mapping[str, Any]) -> str:
    info, wall = report["info"], report["wall_ms"]
    lines = [
        f"{report['model']} on the virtual NPU ({info['soc_version'] or 'unknown chip'}, "
        f"{info['precision_mode'] or 'unknown precision mode'}, overflow: {info['overflow_mode']})",
        f"inputs: {report['inputs_from']}",
    ]
    for row in report["runs"]:
        if row["sample"]:
            lines.append(row["sample"])
        for kind in ("inputs", "outputs"):
            for name, facts in row[kind].items():
                lines.append(f"  {kind[:-1]:6} {name}: {_facts(facts)}")
    lines.append(
        f"wall time: first {wall['first']:.3f} ms, median {wall['median']:.3f} ms, min {wall['min']:.3f} ms of "
        f"{wall['count']} ({report['timing']}; {info['threads']} threads)"
    )
    if report["profile"]:
        lines.append(f"profile: {report['profile']['folder']} (host times measured, device times simulated)")
    if report["dump"]:
        lines.append(f"operator outputs: {report['dump']}")
    return "\n".join(lines)


def _facts(facts: Mapping[str, Any]) -> str:
    text = f"{facts['dtype']} {facts['shape']}"
    if facts["min"] is not None:
        text += f"  min {facts['min']:.6g}  max {facts['max']:.6g}"
    if facts.get("non_finite"):
        text += f"  {facts['non_finite']} inf or NaN"
    return text + (f"  -> {facts['file']}" if "file" in facts else "")
