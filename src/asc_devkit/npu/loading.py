"""``npu.load``: from an ``.om`` to a session, through the cache of executable graphs."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import onnx_ir as ir

from asc_devkit import files, om, soc
from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import cache as store
from asc_devkit.npu import ort, preprocessing
from asc_devkit.npu.geared import GearedSession
from asc_devkit.npu.lower import lower
from asc_devkit.npu.numerics import numpy_dtype
from asc_devkit.npu.rewrite import build
from asc_devkit.npu.session import Session
from asc_devkit.ops import plugins

OVERFLOW: Final = ("saturate", "infnan")


def load(
    model: str | PathLike[str] | om.OmFile,
    *,
    threads: int | None = None,
    overflow: str | None = None,
    cache: bool = True,
) -> Session:
    """Load an OM.

    ``threads``: CPU threads (default: all this process may use). ``overflow``: ``saturate`` (clamp to the largest
    finite number) or ``infnan`` (IEEE); default: what the OM says, else its chip's. ``cache``: keep the executable graph
    for later loads (``npu.cache``). Raises ``AscError`` for files that are damaged or hold what cannot be executed.
    """
    started = time.perf_counter()
    plugins.load_from_environment()
    if overflow is not None and overflow not in OVERFLOW:
        raise AscError(Problem("ASC4007", f"Unknown overflow mode {overflow!r}.", fix=f"Use {' or '.join(OVERFLOW)}."))
    if threads is not None and threads < 1:
        raise AscError(Problem("ASC4008", f"{threads} threads are not possible.", fix="Use 1 or more."))
    threads = threads or ort.default_threads()
    file = model if isinstance(model, om.OmFile) else om.read(model)
    count = threads
    gears = file.gears

    def make(gear: int) -> Session:
        return _prepared(file, overflow, cache, count, time.perf_counter(), gear)

    if not preprocessing.has_dynamic(file):
        if gears:
            return GearedSession(gears, make, _values(file))
        return _prepared(file, overflow, cache, threads, started, None)
    cuts = [preprocessing.cut(file.to_ir(gear)) for gear in (range(len(gears)) if gears else (None,))]
    if not gears:
        return preprocessing.AippSession(_prepared(file, overflow, cache, threads, started, None), cuts)
    behind = [_behind(gear, items) for gear, items in zip(gears, cuts, strict=True)]
    return preprocessing.AippSession(GearedSession(behind, make, _values(file)), cuts)


def _values(file: om.OmFile) -> tuple[tuple[int, ...], ...]:
    """What the open axes are in each gear."""
    described = file.in_out
    return tuple((n,) for n in described.batch_gears) or described.image_gears or described.dim_gears


def _behind(
    gear: Mapping[str, tuple[int, ...]], items: Sequence[preprocessing.DynamicInput]
) -> dict[str, tuple[int, ...]]:
    """The shapes of a gear as they are behind dynamic AIPP."""
    shapes = {name: shape for name, shape in gear.items() if name not in {item.parameters for item in items}}
    return {**shapes, **{item.name: item.shape for item in items}}


def _prepared(
    file: om.OmFile, overflow: str | None, cache: bool, threads: int, started: float, gear: int | None
) -> Session:
    """The session of a static model or of one gear."""

    def make(folder: Path) -> dict[str, Any]:
        return _build(file, overflow, folder, gear)

    if cache:
        facts: dict[str, Any] = {"overflow": overflow, "onnxruntime": ort.version(), "cpu": ort.cpu()}
        if gear is not None:
            facts["gear"] = gear
        if custom := plugins.fingerprint():
            facts["plugins"] = custom
        name = store.key(file.data, facts)
        found = store.find(name)
        if found is not None:
            try:
                return Session(*found, threads, True, started)
            except (AscError, KeyError, TypeError, ValueError):
                shutil.rmtree(found[0], ignore_errors=True)  # unreadable: make it again
        try:
            return Session(*store.store(name, make), threads, False, started)
        except OSError:
            pass  # no room or no right to write: work without a cache
    folder = Path(tempfile.mkdtemp(prefix="asc-npu-"))
    try:
        session = Session(folder, store.fill(folder, make), threads, False, started)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise files.CannotWrite(folder, error) from error
        raise
    weakref.finalize(session, shutil.rmtree, folder, True)
    return session


def _build(file: om.OmFile, overflow: str | None, folder: Path, gear: int | None) -> dict[str, Any]:
    """Fill ``folder`` with the executable of ``file``; the facts a session needs."""
    attrs = file.attrs
    mode = overflow or str(attrs.get("asc_overflow_mode") or "") or _chip_overflow(str(attrs.get("soc_version", "")))
    if mode not in OVERFLOW:
        mode = OVERFLOW[0]
    model = file.to_ir(gear)
    preprocessing.cut(model)
    inputs, outputs = _rows(model.graph.inputs, "input"), _rows(model.graph.outputs, "output")
    lowered = lower(model, mode == "saturate")
    dumps = {o.onnx: ir.DataType[o.dtype] for o in lowered.outputs}
    built = build(
        lowered.model,
        lowered.roundings,
        dumps,
        folder,
        known=lowered.known,
        inputs=lowered.input_dtypes,
        outputs=lowered.output_dtypes,
    )
    kinds = sorted({r.dtype.name.lower() for r in lowered.roundings})
    return {
        "inputs": inputs,
        "outputs": outputs,
        "operators": [o.as_dict() for o in lowered.outputs],
        "steps": [s.as_dict() for s in built.steps],
        "own": list(built.outputs),
        "info": {
            "soc_version": str(attrs.get("soc_version", "")),
            "precision_mode": str(attrs.get("asc_precision_mode", "")),
            "overflow_mode": mode,
            "rounded_to": kinds,
            "roundings": built.roundings,
            "clamps": built.clamps,
            "reference_operators": [s.foreign for s in built.steps if s.foreign],
        },
    }


def _chip_overflow(name: str) -> str:
    try:
        return str(soc.resolve(name).soc.overflow_mode)
    except AscError:
        return OVERFLOW[0]


def _rows(values: Sequence[ir.Value], kind: str) -> list[dict[str, Any]]:
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    for value in values:
        kind_of_value = "sequence" if isinstance(value.type, ir.SequenceType) else "optional"
        if value.type is not None and not isinstance(value.type, ir.TensorType | ir.SparseTensorType):
            rows.append({"name": value.name, "dtype": "", "shape": [], "kind": kind_of_value})
            continue
        try:
            numpy_dtype(value.dtype or ir.DataType.UNDEFINED)
        except TypeError:
            problems.append(
                Problem(
                    "ASC4009", f"The element type of {kind} {value.name} is {value.dtype}, which cannot be computed."
                )
            )
            continue
        shape = [d if isinstance(d, int) else None for d in value.shape or ()]
        rows.append({"name": value.name, "dtype": value.dtype.name if value.dtype else "", "shape": shape})
    if problems:
        raise AscError(problems)
    return rows
