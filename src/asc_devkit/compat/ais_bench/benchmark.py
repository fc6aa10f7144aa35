"""A benchmark run: which shapes, which inputs, warm-up, loop, results and summary. Called by the command."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asc_devkit import files as store
from asc_devkit import om
from asc_devkit.compat.ais_bench import files, timing
from asc_devkit.compat.ais_bench.model import InferenceSession, SessionOptions
from asc_devkit.compat.ais_bench.tensors import InferError, MemorySummary, Tensor
from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.numerics import Array

MAX_SHAPES: Final = 10_000
MAX_RANGE_FILE: Final = 1 << 20


@dataclass(frozen=True)
class Request:
    """What the command line asks for; names as in the tool's manual."""

    model: str
    input: str | None = None
    output: str | None = None
    output_dirname: str | None = None
    outfmt: str = "BIN"
    loop: int = 1
    device: int = 0
    warmup_count: int = 1
    batchsize: int | None = None
    pure_data_type: str = "zero"
    dym_batch: int | None = None
    dym_hw: str | None = None
    dym_dims: str | None = None
    dym_shape: str | None = None
    auto_shape: bool = False
    output_size: tuple[int, ...] = ()
    output_batchsize_axis: int = 0
    run_mode: str = "array"
    dump: bool = False
    acl_json_path: str | None = None
    debug: bool = False
    only: tuple[int, int] = (0, 1)  # of the batches, those with number % [1] == [0]


def run(request: Request) -> dict[str, Any]:
    """Run the benchmark and write its files; the summary. Raises ``AscError``."""
    file = om.read(request.model)
    started = time.time()
    stamp = request.output_dirname or time.strftime("%Y_%m_%d-%H_%M_%S")
    folder = None if request.output is None else Path(request.output) / stamp
    options = SessionOptions(1 if request.debug else 2, request.loop, request.acl_json_path or "")
    session = InferenceSession(request.model, request.device, options)
    if request.dump and request.output is not None and not request.acl_json_path:
        session.dump = Path(request.output) / "dump"
    _set_shape(session, request)
    dump, session.dump = session.dump, None  # a warm-up writes nothing
    _warm_up(session, request)
    session.dump = dump
    MemorySummary.reset()
    session.reset_sumaryinfo()
    made = {str(i): entry for i, entry in enumerate(_runs(session, request, folder))}
    batch = request.batchsize or _batch(session)
    summary = timing.report(session.sumary().exec_time_list, MemorySummary.h2d, MemorySummary.d2h, batch)
    guess = timing.estimate(file, session.gear, batch)
    if guess is not None:
        summary["estimate"] = guess
    summary.update(model=request.model, device=request.device, start_time=started, end_time=time.time())
    summary["filesinfo"] = made
    if folder is not None:
        target = folder.parent / f"{stamp}_summary.json"
        store.write_text(target, json.dumps(summary, indent=1))
        summary["summary_file"] = str(target)
    return summary


def described(session: InferenceSession) -> list[str]:
    """The debug listing of inputs and outputs: number, name, shape, type, bytes, bytes of the shape that is set."""
    lines = []
    for title, descs in (("input:", session.get_inputs()), ("output:", session.get_outputs())):
        lines.append(title)
        for number, d in enumerate(descs):
            kind = str(d.datatype).removeprefix("dtype.")
            lines.append(f"  #{number}    {d.name}  ({', '.join(map(str, d.shape))})  {kind}  {d.size}  {d.realsize}")
    return lines


def shape_range(text: str) -> list[str]:
    """All shapes of ``name:1,3,200~224,224-230``: ``~`` spans numbers, ``-`` lists them. ``text`` may be an .info file.

    Raises ``AscError`` for what is no shape and for more than ``MAX_SHAPES``.
    """
    if text.endswith(".info") or Path(text).is_file():
        path = Path(text)
        if not path.is_file() or path.stat().st_size > MAX_RANGE_FILE:
            raise AscError(Problem("E13001", f"{path} is no readable range file.", fix="Check --dymShape_range."))
        rows = path.read_text(encoding="utf-8", errors="replace").splitlines()
    else:
        rows = [text]
    found: list[str] = []
    for row in filter(None, (r.strip() for r in rows)):
        parts = []
        for piece in row.split(";"):
            name, _, dims = piece.rpartition(":")
            axes = [_axis(d) for d in dims.split(",")]
            total = 1
            for axis in axes:
                total *= len(axis)
            if not name or not total or total > MAX_SHAPES:
                raise AscError(
                    Problem(
                        "ASC4506",
                        f"{piece!r} is not a range of at most {MAX_SHAPES} shapes.",
                        fix="Write name:1,3,200~224,224-230.",
                    )
                )
            parts.append([f"{name}:{','.join(map(str, dims))}" for dims in itertools.product(*axes)])
        if len(found) + _product(parts) > MAX_SHAPES:
            raise AscError(Problem("ASC4506", f"The ranges have more than {MAX_SHAPES} shapes.", fix="Narrow them."))
        found += [";".join(row) for row in itertools.product(*parts)]
    return found


def _product(parts: Sequence[Sequence[str]]) -> int:
    total = 1
    for part in parts:
        total *= len(part)
    return total


def _axis(text: str) -> Sequence[int]:
    if re.fullmatch(r"\d{1,9}~\d{1,9}", text):
        first, last = map(int, text.split("~"))
        return range(first, last + 1)
    if re.fullmatch(r"\d{1,9}(-\d{1,9})*", text):
        return [int(v) for v in text.split("-")]
    return []


def _set_shape(session: InferenceSession, request: Request) -> None:
    given = [v for v in (request.dym_batch, request.dym_hw, request.dym_dims, request.dym_shape) if v is not None]
    if len(given) > 1:
        raise AscError(
            Problem("ASC4521", "More than one of --dymBatch, --dymHW, --dymDims and --dymShape.", fix="Give one.")
        )
    if request.dym_batch is not None:
        session.set_dynamic_batchsize(request.dym_batch)
    elif request.dym_hw is not None:
        if not re.fullmatch(r"\d{1,9},\d{1,9}", request.dym_hw):
            raise AscError(Problem("ASC4506", f"--dymHW {request.dym_hw} is not height,width.", fix="--dymHW 300,500"))
        height, width = map(int, request.dym_hw.split(","))
        session.set_dynamic_hw(height, width)
    elif request.dym_dims is not None or request.dym_shape is not None:
        session.set_dynamic_dims(request.dym_dims or request.dym_shape or "")
    elif session.dynamic and not request.auto_shape:
        raise AscError(
            Problem(
                "ASC4507",
                "The model has gears and none is chosen.",
                fix="Give --dymBatch, --dymHW or --dymDims, or --auto_set_dymdims_mode 1 with .npy inputs.",
            )
        )
    sizes = request.output_size
    if request.dym_shape is not None and sizes:
        outputs = len(session.get_outputs())
        if len(sizes) != outputs:
            raise AscError(
                Problem("ASC4503", f"--outputSize has {len(sizes)} values for {outputs} outputs.", fix="One for each.")
            )
        session.set_custom_outsize(sizes)


def _warm_up(session: InferenceSession, request: Request) -> None:
    if session.dynamic and request.auto_shape:
        session.set_staticbatch()
    feed = session.feed(files.made_up(session.get_inputs(), request.pure_data_type))
    loop, session.options.loop = session.options.loop, 1
    for _ in range(request.warmup_count):
        session.execute(feed)
    session.options.loop = loop


def _runs(session: InferenceSession, request: Request, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Each run of the benchmark: the files it read and wrote."""
    combine = not request.auto_shape
    if request.input is None:
        work: Iterator[files.Batch] = iter([files.Batch(())])
    else:
        found = files.listed(request.input, len(session.get_inputs()))
        work = files.batches(found, session.get_inputs(), combine)
    total = 0
    for number, batch in enumerate(work):
        if number % request.only[1] != request.only[0]:
            continue
        _progress(total)
        total += 1
        arrays: list[Any]
        if batch.files:
            descs = session.get_inputs()
            arrays = [files.load(paths, desc, combine) for paths, desc in zip(batch.files, descs, strict=True)]
            if request.auto_shape:
                _shape_from(session, arrays)
        else:
            arrays = files.made_up(session.get_inputs(), request.pure_data_type)
        if request.run_mode != "array":
            tensors = [Tensor(array) for array in arrays]
            for tensor in tensors:
                tensor.to_device(request.device)
            arrays = list(tensors)
        outputs = session.execute(session.feed(arrays))
        MemorySummary.d2h.note(0.0)
        written = (
            [] if folder is None else files.save(folder, batch, outputs, request.outfmt, request.output_batchsize_axis)
        )
        yield {
            "infiles": [[str(p) for p in paths] for paths in batch.files],
            "outfiles": [str(p) for p in written],
        }


def _shape_from(session: InferenceSession, arrays: Sequence[Array]) -> None:
    if any(a.ndim == 1 and a.dtype.kind == "u" and a.dtype.itemsize == 1 for a in arrays):
        raise InferError(
            Problem("ASC4507", "Raw files do not say their shape.", fix="Give .npy files, or --dymShape/--dymDims.")
        )
    named = zip(session.get_inputs(), arrays, strict=True)
    session.set_dynamic_dims(";".join(f"{d.name}:{','.join(map(str, a.shape))}" for d, a in named if a.ndim))


def _batch(session: InferenceSession) -> int:
    """The first axis of the first input."""
    shape = session.current_shape()
    return shape[0] if shape else 1


def _progress(done: int) -> None:
    if done and done % 100 == 0 and sys.stderr.isatty():
        print(f"\r{done} runs", end="", file=sys.stderr, flush=True)
