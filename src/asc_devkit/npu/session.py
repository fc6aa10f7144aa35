"""``Session``: a loaded model that runs, shows its values and dumps them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import ort
from asc_devkit.npu.casts import Step
from asc_devkit.npu.dump import DumpFolder
from asc_devkit.npu.executor import Executor
from asc_devkit.npu.feeds import BF16, Inputs, Tensor, checked
from asc_devkit.npu.lower import Output
from asc_devkit.npu.numerics import HALVES, Array, numpy_dtype

LEVEL: Final = "ORT_ENABLE_ALL when the graph is built, ORT_DISABLE_ALL when it runs"
DEFAULT_DUMP: Final = Path("npu_dump")


class Session:
    """A loaded model. ``inputs``/``outputs`` describe it, ``info`` records how its numbers come about,
    ``operators`` lists every operator output of the compiled graph in execution order."""

    def __init__(self, folder: Path, meta: Mapping[str, Any], threads: int, cache_hit: bool, started: float) -> None:
        self.inputs = tuple(_tensor(row) for row in meta["inputs"])
        self.outputs = tuple(_tensor(row) for row in meta["outputs"])
        self._operators = tuple(_output(row) for row in meta["operators"])
        steps = tuple(_step(row) for row in meta["steps"])
        size = sum(size for name, size in meta["files"].items() if name.endswith(".weights"))
        self._executor = Executor(folder, steps, meta["own"], threads, size)
        self._specs = [(t.name, t.shape, t.dtype, t.dtype == BF16) for t in self.inputs]
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

    @property
    def operators(self) -> tuple[Output, ...]:
        return self._operators

    def fixed_inputs(self, gear: int | None = None) -> tuple[Tensor, ...]:
        """Inputs with every size known: for a model with gears, those of one of them (None: the largest)."""
        return self.inputs

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
            name: value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype != dtype else value
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
        return checked(self.inputs, inputs, self.info["overflow_mode"] == "saturate")


class _Collect:
    """Keeps the values of a run in memory."""

    mapped = False

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}

    def place(self, name: str) -> Array | None:
        return None

    def take(self, name: str, array: Array) -> None:
        self.values[name] = array


def _tensor(row: Mapping[str, Any]) -> Tensor:
    kind = row.get("kind", "tensor")
    dtype = numpy_dtype(ir.DataType[row["dtype"]]) if kind == "tensor" else np.dtype(object)
    return Tensor(row["name"], tuple(row["shape"]), dtype, kind)


def _output(row: Mapping[str, Any]) -> Output:
    pairs = {k: tuple(tuple(p) for p in row[k]) for k in ("members", "origin_ops")}
    return Output(**{**row, "shape": tuple(row["shape"]), **pairs})


def _step(row: Mapping[str, Any]) -> Step:
    lists = {k: tuple(row[k]) for k in ("inputs", "passes")}
    return Step(**{**row, **lists, "roundings": {k: tuple(v) for k, v in row["roundings"].items()}})


def _as_device(array: Array, dtype: ir.DataType) -> Array:
    """``array`` in its device dtype; only 16-bit floats are ever delivered in another one."""
    return array.astype(numpy_dtype(dtype)) if dtype in HALVES and array.dtype == np.float32 else array
