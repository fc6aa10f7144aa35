"""The verdict per operator: does it compute what its own inputs ask for?

``local_error`` compares the target's output with the operator executed again on the target's inputs; ``inherited`` is
what golden and target differ by in its inputs, ``total`` in its output, and their ratio the amplification. An operator with a
small local error and a large amplification cancels: benign, whatever its total error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from asc_devkit.precision.accumulate import compare
from asc_devkit.precision.cause import Cause, classify
from asc_devkit.precision.held import holds, prevailing_type
from asc_devkit.precision.local.reexecute import reexecute
from asc_devkit.precision.scales import PRECISION
from asc_devkit.precision.sources import Collection, TensorRef
from asc_devkit.precision.sources.names import plain

Array = np.ndarray[Any, Any]
AMPLIFIES: Final = 8.0


@dataclass(frozen=True)
class LocalRow:
    """``verdict``: ``faulty`` (own error beyond rounding), ``cancels`` (healthy, but amplifies), ``healthy``, or
    ``changed_type`` for non-numeric outputs that differ."""

    op: str
    op_type: str
    output: str
    verdict: str
    local_error: float
    inherited: float
    total: float
    amplification: float
    cause: Cause
    executed: int

    @property
    def faulty(self) -> bool:
        return self.verdict == "faulty"

    def as_dict(self) -> dict[str, Any]:
        facts = {key: getattr(self, key) for key in self.__dataclass_fields__ if key != "cause"}
        facts["cause"] = self.cause.as_dict()
        return facts


class _Arrays(Mapping[str, Array]):
    """Tensors of the model by its own names, loaded when asked for."""

    def __init__(self, refs: dict[str, TensorRef]) -> None:
        self.refs = refs

    def __getitem__(self, name: str) -> Array:
        return self.refs[name].array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.refs)

    def __len__(self) -> int:
        return len(self.refs)


def localise(model: onnx.ModelProto, target: Collection, golden: Collection | None = None) -> list[LocalRow]:
    """One row for each operator of ``model`` whose output and inputs the target's dump holds, in graph order.

    ``golden`` (optional) gives inherited and total errors; the verdict needs the target alone.
    """
    ours = _Arrays(by_model_name(model, target))
    theirs = _Arrays(by_model_name(model, golden)) if golden is not None else _Arrays({})
    for value in model.graph.input:  # both sides were fed the same; dumps of devices often leave it out
        if value.name not in ours.refs and value.name in theirs.refs:
            ours.refs[value.name] = theirs.refs[value.name]
    held = prevailing_type(target.tensors.values())
    names = [name for node in model.graph.node for name in node.output if name in ours]
    rows = []
    for again in reexecute(model, ours, names):
        actual = ours[again.output]
        if again.expected.size != actual.size:
            continue
        inherited = max((_apart(theirs, ours, name) for name in again.inputs), default=0.0)
        total = _apart(theirs, ours, again.output)
        rows.append(_row(again.node, again.op_type, again.output, again.nodes, again.expected, actual, inherited, total,
                         assumed_type(ours.refs[again.output], actual, held)))  # fmt: skip
    return rows


def by_model_name(model: onnx.ModelProto, collection: Collection) -> dict[str, TensorRef]:
    """Tensors of a collection by the names the model has for them: tensor names, or operator names with an index."""
    names: dict[str, str] = {}
    for value in model.graph.input:
        names.setdefault(plain(value.name), value.name)
    for node in model.graph.node:
        for index, output in enumerate(node.output):
            if output:
                names.setdefault(plain(output), output)
                if node.name:
                    names.setdefault(plain(f"{node.name}.output.{index}"), output)
    found: dict[str, TensorRef] = {}
    for name, ref in collection.tensors.items():
        origin = names.get(plain(name))
        if origin is not None and ref.facts.get("side") != "input":
            found.setdefault(origin, ref)
    return found


def assumed_type(ref: TensorRef, array: Array, held: str) -> str:
    """Element type whose rounding the values show: the device's where known, ``held`` where they fit, else the file's."""
    device = str(ref.facts.get("device_dtype", "")).lower()
    if device in PRECISION:
        return device
    return held if holds(array, held) else str(array.dtype.name)


def _apart(theirs: _Arrays, ours: _Arrays, name: str) -> float:
    if name not in theirs or name not in ours:
        return 0.0
    a, b = theirs[name], ours[name]
    if a.size != b.size or a.dtype.kind in "biu":
        return 0.0
    return compare(a.reshape(b.shape), b).relative_euclidean


def _row(
    op: str,
    op_type: str,
    output: str,
    executed: int,
    expected: Array,
    actual: Array,
    inherited: float,
    total: float,
    kind: str,
) -> LocalRow:
    expected = expected.reshape(actual.shape)
    if kind in PRECISION and expected.dtype.kind == "f":
        with np.errstate(over="ignore"):
            rounded = expected.astype(actual.dtype) if actual.dtype.name == kind else expected
        expected = np.where(np.isinf(rounded.astype(np.float64)), rounded, expected).astype(np.float64)
    metrics = compare(expected, actual)
    cause = classify(expected, actual, kind)
    amplification = total / inherited if inherited > 0 else 0.0
    verdict = "healthy"
    if cause.kind != "rounding":
        verdict = "faulty"
    elif amplification > AMPLIFIES:
        verdict = "cancels"
    return LocalRow(
        op, op_type, output, verdict, metrics.relative_euclidean, inherited, total, amplification, cause, executed
    )
