"""Layer by layer: each value of the compiled graph that equals a tensor of the user's model, against that tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import ENGINE, MEMBERS, ORIGIN_OPS, ORIGIN_TENSOR, Engine
from asc_devkit.precision import Metrics, compare

CHUNK_BYTES: Final = 256 << 20
SUDDEN_FACTOR: Final = 4.0  # an error this many times the inputs' is the layer's own
NOISE: Final = 5e-3  # relative Euclidean distance that fp16 arithmetic alone explains (ten roundings)


@dataclass(frozen=True)
class Layer:
    """A comparable output: ``value`` in the compiled graph, ``tensor`` in the user's model."""

    index: int
    node: str
    type: str
    value: str
    tensor: str
    engine: str
    dtype: str
    sources: tuple[str, ...]
    origin: tuple[tuple[str, str], ...]
    bytes: int


def comparable(graph: ir.Graph, available: set[str]) -> list[Layer]:
    """Outputs of the root graph's operators whose origin tensor exists in the user's model, in execution order."""
    found: list[Layer] = []
    taken: set[str] = set()
    for index, node in enumerate(graph):
        for value in node.outputs:
            tensor = value.meta.get(ORIGIN_TENSOR)
            if tensor not in available or tensor in taken or node.op_type in ("TransData", "Cast"):
                continue
            if value.dtype is None or not (value.dtype.is_floating_point() or value.dtype.is_integer()):
                continue
            taken.add(tensor)
            engine = node.meta.get(ENGINE)
            found.append(
                Layer(
                    index=index,
                    node=node.name or "",
                    type=_shown_type(node),
                    value=value.name or "",
                    tensor=str(tensor),
                    engine=engine.value if isinstance(engine, Engine) else "",
                    dtype=value.dtype.name,
                    sources=tuple(_producers(node)),
                    origin=tuple(node.meta.get(ORIGIN_OPS, ())),
                    bytes=_bytes(value),
                )
            )
    return found


def _shown_type(node: ir.Node) -> str:
    members = node.attributes.get(MEMBERS)
    if members is None:
        return node.op_type
    return "+".join(member.op_type for member in members.as_graph())


def _producers(node: ir.Node) -> Iterator[str]:
    """Names of the values this node reads, looking through Cast and TransData."""
    for value in node.inputs:
        current = value
        while current is not None:
            producer = current.producer()
            if producer is None or producer.op_type not in ("TransData", "Cast") or not producer.inputs:
                break
            current = producer.inputs[0]
        if current is not None and current.name and current.const_value is None:
            yield current.name


def _bytes(value: ir.Value) -> int:
    if value.shape is None or not value.shape.is_static() or value.dtype is None:
        return 1 << 20
    return int(np.prod([int(d) for d in value.shape], dtype=np.int64)) * 8  # type: ignore[arg-type]


def chunks(layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """Groups of layers whose values together stay within ``CHUNK_BYTES``."""
    chunk: list[Layer] = []
    size = 0
    for layer in layers:
        if chunk and size + layer.bytes > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(layer)
        size += layer.bytes
    if chunk:
        yield chunk


def measure(layer: Layer, expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> dict[str, Any] | None:
    """The row of one layer, None when the two are not the same tensor after all (different element counts)."""
    if expected.size != actual.size:
        return None
    metrics: Metrics = compare(expected.reshape(actual.shape), actual)
    saturated = 0
    if actual.dtype == np.float16:
        saturated = int(np.count_nonzero(np.abs(actual) >= np.float16(65504)))
    return {
        "index": layer.index,
        "name": layer.node,
        "type": layer.type,
        "tensor": layer.tensor,
        "value": layer.value,
        "engine": layer.engine,
        "dtype": layer.dtype,
        "origin": [f"{name} ({kind})" for name, kind in layer.origin],
        "saturated": saturated,
        **metrics.as_dict(),
    }


def judge(rows: list[dict[str, Any]], layers: Sequence[Layer]) -> dict[str, Any] | None:
    """Mark each row ``own_error`` (its relative distance beyond what its inputs brought) and name the first bad layer.

    ``kind``: ``sudden`` when a layer's error is more than four times its inputs', else ``accumulated``.
    """
    error: dict[str, float] = {}
    by_value = {layer.value: layer for layer in layers}
    first: dict[str, Any] | None = None
    for row in rows:
        distance = row["relative_euclidean"] if np.isfinite(row["relative_euclidean"]) else 1.0
        distance = max(distance, 1.0 if row["kind_mismatches"] else 0.0)
        error[row["value"]] = distance
        inherited = max((error.get(source, 0.0) for source in by_value[row["value"]].sources), default=0.0)
        row["inherited_error"] = inherited
        row["own_error"] = max(0.0, distance**2 - inherited**2) ** 0.5
        bad = distance > NOISE and distance > SUDDEN_FACTOR * inherited
        row["kind"] = "sudden" if bad else "accumulated"
        if bad and first is None:
            first = row
    return first
