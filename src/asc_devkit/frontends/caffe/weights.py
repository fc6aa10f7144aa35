"""Reader of the binary caffemodel: layer names and their weight blobs, nothing else. Called by ``load``.

Field numbers of Caffe's messages (facts of the file format, checked against files that Caffe wrote):
NetParameter: layers (old form) 2, layer 100. LayerParameter: name 1, type 2, blobs 7. Old layer: name 4, blobs 6.
BlobProto: num, channels, height, width 1-4, data 5 (float), shape 7, double_data 8. BlobShape: dim 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, Final

import numpy as np

MAX_LAYERS: Final = 100_000
MAX_BLOBS: Final = 1_000
MAX_ENTRIES: Final = 4_000_000
MAX_RANK: Final = 32
MAX_BYTES: Final = (2 << 30) - (1 << 20)  # the ONNX message in between must stay below protobuf's limit

_LAYER, _OLD_LAYER = (1, 7), (4, 6)  # field numbers of (name, blobs)

Array = np.ndarray[Any, Any]


class WeightError(Exception):
    """The bytes are not a caffemodel; ``offset`` is where that shows, ``truncated`` when the file ends too early."""

    def __init__(self, what: str, offset: int, truncated: bool = False) -> None:
        self.what, self.offset, self.truncated = what, offset, truncated
        super().__init__(f"{what} at byte {offset}")


@dataclass
class Weights:
    """Blobs by layer name in their own shapes (old 4-D blobs have leading ones), and the count of layers."""

    layers: dict[str, list[Array]] = field(default_factory=dict)
    count: int = 0


def read(data: bytes | mmap) -> Weights:
    """All weights of a caffemodel, as views into ``data`` where they lie in one piece.

    Raises ``WeightError`` for anything that is not well-formed protobuf, contradicts itself or is too large.
    """
    wire = _Wire(data)
    weights = Weights()
    for number, start, end in wire.messages(0, len(data)):
        if number not in (2, 100):
            continue
        weights.count += 1
        if weights.count > MAX_LAYERS:
            raise WeightError(f"more than {MAX_LAYERS} layers", start)
        name, blobs = _layer(wire, start, end, _OLD_LAYER if number == 2 else _LAYER)
        if blobs and name not in weights.layers:
            weights.layers[name] = blobs
    return weights


def _layer(wire: _Wire, start: int, end: int, numbers: tuple[int, int]) -> tuple[str, list[Array]]:
    name = ""
    blobs: list[Array] = []
    for number, a, b in wire.messages(start, end):
        if number == numbers[0]:
            name = bytes(wire.view[a:b]).decode("utf-8", "replace")
        elif number == numbers[1]:
            if len(blobs) >= MAX_BLOBS:
                raise WeightError(f"a layer with more than {MAX_BLOBS} blobs", a)
            blobs.append(_blob(wire, a, b))
    return name, blobs


def _blob(wire: _Wire, start: int, end: int) -> Array:
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
                raise WeightError("weights of a broken length", a)
            pieces.append(np.frombuffer(wire.view, dtype, (b - a) // width, a))
    values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    if dims is None:
        dims = [old_dims.get(i, 1) for i in (1, 2, 3, 4)] if old_dims else [values.size]
    if len(dims) > MAX_RANK or any(d < 0 for d in dims):
        raise WeightError(f"a blob of impossible dimensions {dims[:8]}", start)
    if math.prod(dims) != values.size:
        raise WeightError(f"a blob of dimensions {dims} holds {values.size} numbers", start)
    return values.reshape(dims)


def _dims(wire: _Wire, start: int, end: int) -> list[int]:
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


class _Wire:
    """Bounded walk over the protobuf wire format."""

    def __init__(self, data: bytes | mmap) -> None:
        self.data, self.view = data, memoryview(data)
        self.entries = 0

    def messages(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(field number, first byte, end) of every length-delimited field."""
        return ((number, a, b) for number, kind, a, b in self.fields(start, end) if kind == 2)

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(field number, wire type, first byte, end) of every field; for integers (number, 0, value, 0)."""
        position = start
        while position < end:
            at = position
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                raise WeightError(f"more than {MAX_ENTRIES} parts", at)
            tag, position = self.varint(position, end)
            number, kind = tag >> 3, tag & 7
            if not number:
                raise WeightError("field number 0", at)
            if kind == 0:
                value, position = self.varint(position, end)
                yield number, kind, value, 0
                continue
            if kind == 2:
                length, position = self.varint(position, end)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise WeightError(f"an impossible field (wire type {kind})", at)
            if length > end - position:
                raise WeightError("a part is missing", at, truncated=position + length > len(self.data))
            yield number, kind, position, position + length
            position += length

    def varint(self, position: int, end: int) -> tuple[int, int]:
        value, shift, start = 0, 0, position
        while position < end:
            byte = self.data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
            if shift > 63:
                raise WeightError("a number longer than ten bytes", start)
        raise WeightError("an incomplete number", start, truncated=end == len(self.data))
