"""``npu.load`` and ``Session``: an OM on the virtual NPU."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit import om, soc
from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import cache as store
from asc_devkit.npu import ort
from asc_devkit.npu.dump import DumpFolder
from asc_devkit.npu.executor import Executor
from asc_devkit.npu.lower import Output, lower
from asc_devkit.npu.numerics import HALVES, Array, numpy_dtype
from asc_devkit.npu.rewrite import Step, build

OVERFLOW: Final = ("saturate", "infnan")
LEVEL: Final = "ORT_ENABLE_ALL when the graph is built, ORT_DISABLE_ALL when it runs"
DEFAULT_DUMP: Final = Path("npu_dump")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the model: device dtype (numpy), shape with None where it is not fixed."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]


Inputs = Mapping[str, Array] | Sequence[Array]


class Session:
    """A loaded model. ``inputs``/``outputs`` describe it, ``info`` records how its numbers come about,
    ``operators`` lists every operator output of the compiled graph in execution order."""

    def __init__(self, folder: Path, meta: Mapping[str, Any], threads: int, cache_hit: bool, started: float) -> None:
        self.inputs = tuple(_tensor(row) for row in meta["inputs"])
        self.outputs = tuple(_tensor(row) for row in meta["outputs"])
        self.operators = tuple(_output(row) for row in meta["operators"])
        steps = tuple(_step(row) for row in meta["steps"])
        size = sum(size for name, size in meta["files"].items() if name.endswith(".weights"))
        self._executor = Executor(folder, steps, meta["own"], threads, size)
        self._specs = [(t.name, t.shape, t.dtype, t.dtype == _BF16) for t in self.inputs]
        self._results = [(t.name, t.dtype) for t in self.outputs]
        self.info: dict[str, Any] = {
            **meta["info"],
            "onnxruntime": ort.version(),
            "optimisation": LEVEL,
            "threads": threads,
            "cpu": ort.cpu(),
            "cache_hit": cache_hit,
            "load_s": time.perf_counter() - started,
        }

    def run(
        self, inputs: Inputs, dump: PathLike[str] | str | bool | None = None, dump_format: str = "npy"
    ) -> dict[str, Array]:
        """Outputs by name, in their device dtype.

        ``inputs``: arrays by name, or in the order of ``self.inputs``; float32 is accepted for 16-bit float inputs and
        rounded. ``dump``: folder that receives every operator output (True: ``npu_dump``), as ``npy`` or ``bin``
        files; dumping changes no bit of the outputs. Raises ``AscError`` listing everything wrong with the inputs.
        """
        feed = self._feed(inputs)
        if dump is None or dump is False:
            return self._named(self._executor.run(feed))
        target = DEFAULT_DUMP if dump is True else Path(dump)
        sink = DumpFolder(target, self.operators, dump_format)
        try:
            values = self._executor.run_values(feed, sink.by_name.keys(), sink)
            sink.finish({"info": self.info})
        except BaseException:
            sink.abandon()
            raise
        return self._named(values)

    def run_with_values(
        self, inputs: Inputs, names: Iterable[str] | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Outputs, and values of operator outputs in their device dtype.

        ``names``: value names, node names (their first output) or ``node:index``; keys of the result are as asked for.
        None: every operator output, by value name.
        """
        feed = self._feed(inputs)
        chosen = {o.value: o for o in self.operators} if names is None else self._find(names)
        sink = _Collect()
        values = self._executor.run_values(feed, {o.onnx for o in chosen.values()}, sink)
        found = {
            name: _as_device(sink.values[o.onnx], ir.DataType[o.dtype])
            for name, o in chosen.items()
            if o.onnx in sink.values
        }
        return self._named(values), found

    def _find(self, names: Iterable[str]) -> dict[str, Output]:
        by_name: dict[str, Output] = {}
        for output in self.operators:
            by_name.setdefault(f"{output.node}:{output.index}", output)
            if output.index == 0:
                by_name.setdefault(output.node, output)
        by_name.update((o.value, o) for o in self.operators)
        wanted = list(names)
        missing = [n for n in wanted if n not in by_name]
        if missing:
            raise AscError(
                Problem(
                    "ASC4006",
                    f"The model has no values called {', '.join(missing[:10])}.",
                    cause="Members of a fused group have no value of their own on the device.",
                    fix="Session.operators lists the values that exist.",
                    nodes=tuple(missing),
                )
            )
        return {n: by_name[n] for n in wanted}

    def _named(self, values: Sequence[Array]) -> dict[str, Array]:
        return {
            name: value if value.dtype == dtype else value.astype(dtype)
            for (name, dtype), value in zip(self._results, values, strict=True)
        }

    def _feed(self, inputs: Inputs) -> dict[str, Array]:
        """Inputs as the graph wants them."""
        feed: dict[str, Array] = {}
        if isinstance(inputs, Mapping) and len(inputs) == len(self._specs):
            for name, shape, dtype, wide in self._specs:
                array = inputs.get(name)
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape or wide:
                    break
                feed[name] = array
            else:
                return feed
        return self._checked_feed(inputs)

    def _checked_feed(self, inputs: Inputs) -> dict[str, Array]:
        problems: list[Problem] = []
        if isinstance(inputs, Mapping):
            given = dict(inputs)
            known = {t.name for t in self.inputs}
            problems += [
                Problem("ASC4010", f"The model has no input {n!r}.", fix=f"Inputs are {', '.join(sorted(known))}.")
                for n in given
                if n not in known
            ]
        else:
            given = {t.name: a for t, a in zip(self.inputs, inputs, strict=False)}
            if len(inputs) > len(self.inputs):
                problems.append(Problem("ASC4010", f"{len(inputs)} inputs for a model with {len(self.inputs)}."))
        feed: dict[str, Array] = {}
        for tensor in self.inputs:
            if tensor.name not in given:
                problems.append(Problem("ASC4011", f"Input {tensor.name!r} {_describe(tensor)} is missing."))
                continue
            array = np.asarray(given[tensor.name])
            problem = _mismatch(tensor, array)
            if problem is not None:
                problems.append(problem)
                continue
            if array.dtype != tensor.dtype:
                array = array.astype(tensor.dtype)
            feed[tensor.name] = array.astype(np.float32) if tensor.dtype == _BF16 else array
        if problems:
            raise AscError(problems)
        return feed


_BF16: Final = numpy_dtype(ir.DataType.BFLOAT16)


class _Collect:
    """Keeps the values of a run in memory."""

    mapped = False

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}

    def place(self, name: str) -> Array | None:
        return None

    def take(self, name: str, array: Array) -> None:
        self.values[name] = array


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
    if overflow is not None and overflow not in OVERFLOW:
        raise AscError(Problem("ASC4007", f"Unknown overflow mode {overflow!r}.", fix=f"Use {' or '.join(OVERFLOW)}."))
    if threads is not None and threads < 1:
        raise AscError(Problem("ASC4008", f"{threads} threads are not possible.", fix="Use 1 or more."))
    threads = threads or ort.default_threads()
    file = model if isinstance(model, om.OmFile) else om.read(model)

    def make(folder: Path) -> dict[str, Any]:
        return _build(file, overflow, folder)

    if cache:
        facts = {"overflow": overflow, "onnxruntime": ort.version(), "cpu": ort.cpu()}
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
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(session, shutil.rmtree, folder, True)
    return session


def _build(file: om.OmFile, overflow: str | None, folder: Path) -> dict[str, Any]:
    """Fill ``folder`` with the executable of ``file``; the facts a session needs."""
    attrs = file.attrs
    mode = overflow or str(attrs.get("asc_overflow_mode") or "") or _chip_overflow(str(attrs.get("soc_version", "")))
    if mode not in OVERFLOW:
        mode = OVERFLOW[0]
    model = file.to_ir()
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
    problems, rows = [], []
    for value in values:
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


def _tensor(row: Mapping[str, Any]) -> Tensor:
    return Tensor(row["name"], tuple(row["shape"]), numpy_dtype(ir.DataType[row["dtype"]]))


def _output(row: Mapping[str, Any]) -> Output:
    pairs = {k: tuple(tuple(p) for p in row[k]) for k in ("members", "origin_ops")}
    return Output(**{**row, "shape": tuple(row["shape"]), **pairs})


def _step(row: Mapping[str, Any]) -> Step:
    lists = {k: tuple(row[k]) for k in ("inputs", "passes")}
    return Step(**{**row, **lists, "roundings": {k: tuple(v) for k, v in row["roundings"].items()}})


def _as_device(array: Array, dtype: ir.DataType) -> Array:
    """``array`` in its device dtype; only 16-bit floats are ever delivered in another one."""
    return array.astype(numpy_dtype(dtype)) if dtype in HALVES and array.dtype == np.float32 else array


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype.name} {[d if d is not None else '?' for d in tensor.shape]}"


def _mismatch(tensor: Tensor, array: Array) -> Problem | None:
    fits = len(array.shape) == len(tensor.shape) and all(
        want is None or want == have for want, have in zip(tensor.shape, array.shape, strict=True)
    )
    floats = tensor.dtype in (_BF16, np.dtype(np.float16)) and array.dtype in (
        np.dtype(np.float32),
        np.dtype(np.float16),
    )
    if fits and (array.dtype == tensor.dtype or floats):
        return None
    return Problem(
        "ASC4012",
        f"Input {tensor.name!r} is {array.dtype.name} {list(array.shape)}; the model wants {_describe(tensor)}.",
        fix="Convert it (array.astype, reshape), or convert the model again with another --input_shape.",
    )
