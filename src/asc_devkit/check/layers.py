"""Layer by layer: each value of the compiled graph that equals a tensor of the user's model, against that tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import ENGINE, MEMBERS, ORIGIN_OPS, ORIGIN_TENSOR, Engine
from asc_devkit.precision import Metrics, compare

CHUNK_BYTES: Final = 256 << 20
SUDDEN_FACTOR: Final = 4.0  # an error this many times the inputs' is the layer's own
# relative Euclidean distance that about ten roundings in the type explain
NOISE: Final = {"FLOAT16": 5e-3, "BFLOAT16": 4e-2, "FLOAT": 1e-5}
OTHER_NOISE: Final = 5e-3
MAX_SOURCES: Final = 64  # of one layer; more would not change the judgement
_CARRIERS: Final = ("TransData", "Cast")


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
    nearest: dict[ir.Value, tuple[str, ...]] = {}  # the closest comparable values a value is computed from
    for index, node in enumerate(graph):
        sources = _sources(node, nearest)
        for value in node.outputs:
            tensor = value.meta.get(ORIGIN_TENSOR)
            if tensor not in available or tensor in taken or not _is_layer(node, value):
                nearest[value] = sources
                continue
            taken.add(tensor)
            nearest[value] = (value.name or "",)
            engine = node.meta.get(ENGINE)
            found.append(
                Layer(
                    index=index,
                    node=node.name or "",
                    type=_shown_type(node),
                    value=value.name or "",
                    tensor=str(tensor),
                    engine=engine.value if isinstance(engine, Engine) else "",
                    dtype=value.dtype.name if value.dtype is not None else "",
                    sources=sources,
                    origin=tuple(node.meta.get(ORIGIN_OPS, ())),
                    bytes=_bytes(value),
                )
            )
    return found


def _is_layer(node: ir.Node, value: ir.Value) -> bool:
    kind = value.dtype
    return node.op_type not in _CARRIERS and kind is not None and (kind.is_floating_point() or kind.is_integer())


def _sources(node: ir.Node, nearest: Mapping[ir.Value, tuple[str, ...]]) -> tuple[str, ...]:
    """Names of the comparable values this node reads, looking through all that are not comparable."""
    names: dict[str, None] = {}
    for value in node.inputs:
        if value is not None:
            names.update(dict.fromkeys(nearest.get(value, ())))
    return tuple(names)[:MAX_SOURCES]


def _shown_type(node: ir.Node) -> str:
    members = node.attributes.get(MEMBERS)
    if members is None:
        return node.op_type
    return "+".join(member.op_type for member in members.as_graph())


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
        **metrics.summary(),
    }


def noise(layers: Sequence[Layer]) -> float:
    """What rounding alone explains in a graph with these layers: that of its least precise float type."""
    return max((NOISE[layer.dtype] for layer in layers if layer.dtype in NOISE), default=OTHER_NOISE)


def judge(rows: list[dict[str, Any]], layers: Sequence[Layer]) -> dict[str, Any] | None:
    """Mark each row ``own_error`` (its relative distance beyond what its inputs brought) and name the first bad layer.

    ``kind``: ``sudden`` when a layer's error is more than four times its inputs' and more than rounding explains, else
    ``accumulated``.
    """
    error: dict[str, float] = {}
    by_value = {layer.value: layer for layer in layers}
    explained = noise(layers)
    first: dict[str, Any] | None = None
    for row in rows:
        distance = row["relative_euclidean"] if np.isfinite(row["relative_euclidean"]) else 1.0
        distance = max(distance, 1.0 if row["kind_mismatches"] else 0.0)
        error[row["value"]] = distance
        inherited = max((error.get(source, 0.0) for source in by_value[row["value"]].sources), default=0.0)
        row["inherited_error"] = inherited
        row["own_error"] = max(0.0, distance**2 - inherited**2) ** 0.5
        bad = distance > explained and distance > SUDDEN_FACTOR * inherited
        row["kind"] = "sudden" if bad else "accumulated"
        if bad and first is None:
            first = row
    return first
