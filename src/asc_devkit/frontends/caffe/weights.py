"""Reader of the binary caffemodel: layer names and their weight blobs, nothing else. Called by ``load``.

Field numbers of Caffe's messages (facts of the file format, checked against files that Caffe wrote):
NetParameter: layers (old form) 2, layer 100. LayerParameter: name 1, type 2, blobs 7. Old layer: name 4, blobs 6.
BlobProto: num, channels, height, width 1-4, data 5 (float), shape 7, double_data 8. BlobShape: dim 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, Final

import numpy as np

from asc_devkit.frontends.wire_format import Wire, WireFault

MAX_LAYERS: Final = 100_000
MAX_BLOBS: Final = 1_000
MAX_RANK: Final = 32
MAX_BYTES: Final = (2 << 30) - (1 << 20)  # the ONNX message in between must stay below protobuf's limit

_LAYER, _OLD_LAYER = (1, 7), (4, 6)  # field numbers of (name, blobs)

Array = np.ndarray[Any, Any]


@dataclass
class Weights:
    """Blobs by layer name in their own shapes (old 4-D blobs have leading ones), and the count of layers."""

    layers: dict[str, list[Array]] = field(default_factory=dict)
    count: int = 0


def read(data: bytes | mmap) -> Weights:
    """All weights of a caffemodel, as views into ``data`` where they lie in one piece.

    Raises ``WireFault`` for anything that is not well-formed protobuf, contradicts itself or is too large.
    """
    wire = Wire(data)
    weights = Weights()
    for number, start, end in wire.messages(0, len(data)):
        if number not in (2, 100):
            continue
        weights.count += 1
        if weights.count > MAX_LAYERS:
            raise WireFault(f"more than {MAX_LAYERS} layers", start)
        name, blobs = _layer(wire, start, end, _OLD_LAYER if number == 2 else _LAYER)
        if blobs and name not in weights.layers:
            weights.layers[name] = blobs
    return weights


def _layer(wire: Wire, start: int, end: int, numbers: tuple[int, int]) -> tuple[str, list[Array]]:
    name = ""
    blobs: list[Array] = []
    for number, a, b in wire.messages(start, end):
        if number == numbers[0]:
            name = bytes(wire.view[a:b]).decode("utf-8", "replace")
        elif number == numbers[1]:
            if len(blobs) >= MAX_BLOBS:
                raise WireFault(f"a layer with more than {MAX_BLOBS} blobs", a)
            blobs.append(_blob(wire, a, b))
    return name, blobs


def _blob(wire: Wire, start: int, end: int) -> Array:
    old_dims: dict[int, int] = {}
    dims: list[int] | None = None
    pieces: list[Array] = []
    for number, kind, a, b in wire.fields(start, end):
        if kind == 0 and number in (1, 2, 3, 4):
            old_dims[number] = a
        elif kind == 2 and number == 7:
            dims = _dims(wire, a, b)
        elif number in (5, 8):
            width, dtype = (4, "<f4") if number == 5 else (8, "<f8")
            if kind not in (2, 5 if width == 4 else 1) or (b - a) % width:
                raise WireFault("weights of a broken length", a)
            pieces.append(np.frombuffer(wire.view, dtype, (b - a) // width, a))
    values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    if dims is None:
        dims = [old_dims.get(i, 1) for i in (1, 2, 3, 4)] if old_dims else [values.size]
    if len(dims) > MAX_RANK or any(d < 0 for d in dims):
        raise WireFault(f"a blob of impossible dimensions {dims[:8]}", start)
    if math.prod(dims) != values.size:
        raise WireFault(f"a blob of dimensions {dims} holds {values.size} numbers", start)
    return values.reshape(dims)


def _dims(wire: Wire, start: int, end: int) -> list[int]:
    dims: list[int] = []
    for number, kind, a, b in wire.fields(start, end):
        if number != 1:
            continue
        if kind == 0:
            dims.append(a)
        elif kind == 2:
            position = a
            while position < b and len(dims) <= MAX_RANK:
                value, position = wire.varint(position, b)
                dims.append(value)
    return [d - (1 << 64) if d >= 1 << 63 else d for d in dims]
