"""Running the steps of an executable: one ONNX Runtime session, or several with reference nodes between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import ort, reference
from asc_devkit.npu.casts import Step
from asc_devkit.npu.numerics import Array, rounded

#: Weight bytes above which a session is given up when its dumping twin is made: never two packed copies of a big model.
ONE_COPY_ABOVE = 512 << 20


class Sink(Protocol):
    """Where the values of a dumping run go. ``mapped``: some have a place of their own."""

    mapped: bool

    def place(self, name: str) -> Array | None:
        """Memory for the value (C order, the dtype it is delivered in), or None to have it handed over."""

    def take(self, name: str, array: Array) -> None:
        """The value; ``array`` is its place if it has one."""


class Executor:
    """Steps loaded on ``threads`` threads. The dumping twin of each session is made when first needed."""

    def __init__(self, folder: Path, steps: Sequence[Step], outputs: Sequence[str], threads: int, size: int) -> None:
        self.folder, self.steps, self.outputs, self.threads = folder, steps, outputs, threads
        self.one_copy = size > ONE_COPY_ABOVE
        self.twins: dict[str, Any] = {}
        self.sessions = {step.run: self._load(step, step.run) for step in steps}
        self.single: tuple[Any, list[str]] | None = None
        if len(steps) == 1 and not steps[0].foreign:
            self.single = self.sessions[steps[0].run].run, [steps[0].own[name] for name in outputs]

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """The model's outputs; fp16 as fp16, bfloat16 as rounded fp32."""
        if self.single is None:
            return self._walk(feed, (), None)
        run, names = self.single
        try:
            result: list[Array] = run(names, feed)
        except Exception as error:
            raise _failed(error) from error
        return result

    def run_values(self, feed: Mapping[str, Array], names: Collection[str], sink: Sink) -> list[Array]:
        """The same run with the values called ``names`` given to ``sink``."""
        return self._walk(feed, names, sink)

    def _walk(self, feed: Mapping[str, Array], names: Collection[str], sink: Sink | None) -> list[Array]:
        known: dict[str, Array] = dict(feed)
        results: dict[str, Array] = {}
        for step in self.steps:
            wanted = [n for n in step.dumps if n in names]
            entering = {n: known[n] for n in step.inputs}
            try:
                if step.foreign:
                    found = self._reference(step, entering)
                else:
                    found = self._session(step, entering, wanted, sink)
            except AscError:
                raise
            except Exception as error:
                raise _failed(error) from error
            known.update((n, found[n]) for n in step.passes)
            results.update((n, found[inner]) for n, inner in step.own.items())
            if sink is not None:
                for name in wanted:
                    sink.take(name, found[step.dumps[name]])
        return [results[name] for name in self.outputs]

    def _session(
        self, step: Step, feed: Mapping[str, Array], wanted: Sequence[str], sink: Sink | None
    ) -> dict[str, Array]:
        kept = list(dict.fromkeys((*step.passes, *step.own.values())))
        if sink is None:
            return dict(zip(kept, self._plain(step).run(kept, feed), strict=True))
        session = self._twin(step)
        if not sink.mapped:
            names = list(dict.fromkeys((*kept, *(step.dumps[n] for n in wanted))))
            return dict(zip(names, session.run(names, feed), strict=True))
        binding = session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
        bound: dict[str, Array] = {}
        for name in wanted:
            inner = step.dumps[name]
            place = None if inner in bound or inner in kept else sink.place(name)
            if place is not None:
                binding.bind_output(inner, "cpu", 0, place.dtype, place.shape, place.ctypes.data)
                bound[inner] = place
        rest = list(dict.fromkeys((*kept, *(step.dumps[n] for n in wanted if step.dumps[n] not in bound))))
        for inner in rest:
            binding.bind_output(inner)
        session.run_with_iobinding(binding)
        values = [v.numpy() for v in binding.get_outputs()]
        return {**bound, **dict(zip(rest, values[len(bound) :], strict=True))}

    def _reference(self, step: Step, feed: Mapping[str, Array]) -> dict[str, Array]:
        evaluator = self.sessions[step.run]
        values = dict(zip(evaluator.output_names, evaluator.run(None, dict(feed)), strict=True))
        for name, (dtype, saturate) in step.roundings.items():
            values[name] = rounded(values[name], ir.DataType[dtype], saturate)
        return values

    def _load(self, step: Step, name: str) -> Any:
        path = self.folder / name
        if step.foreign:
            return reference.evaluator(path)
        try:
            return ort.load(path, self.threads)
        except Exception as error:
            raise _failed(error) from error

    def _plain(self, step: Step) -> Any:
        """The session that runs ``step`` without dumping: its dumping twin when that has replaced it."""
        return self.sessions.get(step.run) or self._twin(step)

    def _twin(self, step: Step) -> Any:
        if step.dump not in self.twins:
            if self.one_copy:
                self.sessions.pop(step.run, None)
                self.single = None
            self.twins[step.dump] = self._load(step, step.dump)
        return self.twins[step.dump]


def _failed(error: Exception) -> AscError:
    return AscError(
        Problem(
            "ASC4003",
            "The run on the virtual NPU failed.",
            cause=ort.reason(error),
            fix="Check the values of the inputs (indices inside their tables, masks that are not empty).",
        )
    )
