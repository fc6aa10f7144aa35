"""Read the protobuf wire form of a model without its bulk: weights stay where they are in the file.

``split`` walks the message once and returns a small model ("skeleton") in which every large tensor payload is replaced
by a token, plus the byte ranges of the payloads. So a 2 GB model costs kilobytes, and lengths that lie are found
before anything is allocated. Called by ``load``; the ranges are turned into arrays by ``tensors``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Final

INLINE_BYTES: Final = 4096  # payloads and messages below this size stay in the skeleton
TRUSTED_BYTES: Final = 1 << 24
MAX_SKELETON_BYTES: Final = 1 << 29
MAX_ENTRIES: Final = 4_000_000
MAX_DEPTH: Final = 60  # protobuf itself stops at 100 nested messages

# Field numbers: onnx.proto (ONNX IR specification). Messages that can hold tensors, and where.
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION = range(7)
_NESTED: Final[Mapping[int, Mapping[int, int]]] = {
    _MODEL: {7: _GRAPH, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _TENSOR: {},
}
# Facts that must not be trusted after shapes are bound, or that inference does not use.
_DROPPED: Final[Mapping[int, frozenset[int]]] = {
    _MODEL: frozenset({20}),  # training_info
    _GRAPH: frozenset({13, 14}),  # value_info, quantization_annotation
    _FUNCTION: frozenset({12}),  # value_info
}
_RAW, _FLOATS, _DOUBLES = 9, 4, 10  # fields of TensorProto whose bytes are the little-endian array itself
_NAMES: Final = {_MODEL: "model", _GRAPH: "graph", _NODE: "node", _ATTRIBUTE: "attribute", _TENSOR: "tensor"}


class WireError(Exception):
    """The bytes are not a complete protobuf message; ``truncated`` when a length points behind the end of the file."""

    def __init__(self, what: str, offset: int, truncated: bool = False) -> None:
        self.what, self.offset, self.truncated = what, offset, truncated
        super().__init__(f"{what} at byte {offset}")


@dataclass(frozen=True, slots=True)
class Span:
    """A tensor payload inside the file: ``field`` tells how it is encoded (raw_data, float_data or double_data)."""

    offset: int
    length: int
    field: int

    @property
    def is_raw(self) -> bool:
        return self.field == _RAW


@dataclass(frozen=True, slots=True)
class Split:
    """The model without its bulk. A tensor whose external location is ``token:i`` has its payload at ``spans[i]``."""

    skeleton: bytes
    spans: tuple[Span, ...]
    token: str


def split(data: bytes | mmap, token: str) -> Split:
    """Separate structure from bulk. ``token`` must not be guessable by whoever wrote the file.

    Raises ``WireError`` for anything that is not a well-formed protobuf message within bounds.
    """
    splitter = _Splitter(data, token)
    skeleton = splitter.message(_MODEL, 0, len(data), 0)
    if len(skeleton) > TRUSTED_BYTES:  # two bytes can make an object of hundreds: count them all before parsing
        _Splitter(skeleton, token, descend_from=1).message(_MODEL, 0, len(skeleton), 0)
    return Split(skeleton, tuple(splitter.spans), token)


class _Splitter:
    def __init__(self, data: bytes | mmap, token: str, descend_from: int = INLINE_BYTES) -> None:
        self.descend_from = descend_from
        self.data = data
        self.view = memoryview(data)
        self.end = len(data)
        self.token = token
        self.spans: list[Span] = []
        self.entries = 0
        self.copied = 0

    def message(self, kind: int, start: int, end: int, depth: int) -> bytes:
        """The skeleton of the message in ``data[start:end]``."""
        if depth > MAX_DEPTH:
            raise WireError(f"subgraphs are nested more than {MAX_DEPTH // 4} deep", start)
        data = self.data
        nested, dropped = _NESTED[kind], _DROPPED.get(kind, frozenset())
        parts: list[bytes] = []
        kept_from = position = start  # data[kept_from:position] is still to be copied
        bulk: Span | None = None
        while position < end:
            field_start = position
            tag = data[position]
            position += 1
            if tag >= 128:
                tag, position = self.varint(field_start, end)
            wire_type, field = tag & 7, tag >> 3
            if wire_type == 2:
                length = data[position] if position < end else 128
                if length < 128:
                    position += 1
                else:
                    length, position = self.varint(position, end)
                body = position
                position += length
                if position > end:
                    raise self.overrun(kind, field_start, position, end)
                if field in dropped:
                    self.copy(parts, kept_from, field_start)
                    kept_from = position
                elif kind == _TENSOR:
                    if field in (_RAW, _FLOATS, _DOUBLES):
                        bulk = None
                        if length >= INLINE_BYTES:
                            bulk = Span(body, length, field)
                            self.copy(parts, kept_from, field_start)
                            kept_from = position
                elif length >= self.descend_from and field in nested:
                    self.copy(parts, kept_from, field_start)
                    inner = self.message(nested[field], body, position, depth + 1)
                    parts += (_varint(tag), _varint(len(inner)), inner)
                    kept_from = position
            elif wire_type == 0:
                _, position = self.varint(position, end)
            elif wire_type in (1, 5):
                position += 8 if wire_type == 1 else 4
                if position > end:
                    raise self.overrun(kind, field_start, position, end)
            else:
                raise WireError(f"an impossible field (wire type {wire_type}) in a {_NAMES.get(kind)}", field_start)
            if not field:
                raise WireError("field number 0", field_start)
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                raise WireError(f"more than {MAX_ENTRIES} parts", field_start)
        self.copy(parts, kept_from, end)
        if bulk is not None:
            parts.append(self.placeholder(bulk))
        return b"".join(parts)

    def copy(self, parts: list[bytes], start: int, end: int) -> None:
        if end > start:
            self.copied += end - start
            if self.copied > MAX_SKELETON_BYTES:
                raise WireError("the model holds more than 512 MiB besides its weights", start)
            parts.append(bytes(self.view[start:end]))

    def placeholder(self, span: Span) -> bytes:
        """An ``external_data`` entry (TensorProto field 13: StringStringEntryProto{key, value}) naming the span."""
        value = f"{self.token}:{len(self.spans)}".encode()
        self.spans.append(span)
        entry = b"\x0a\x08location\x12" + _varint(len(value)) + value
        return b"\x6a" + _varint(len(entry)) + entry

    def varint(self, position: int, end: int) -> tuple[int, int]:
        data, result, shift, start = self.data, 0, 0, position
        while position < end:
            byte = data[position]
            position += 1
            result |= (byte & 127) << shift
            if byte < 128:
                return result & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
            if shift > 63:
                raise WireError("a number longer than ten bytes", start)
        raise WireError("an incomplete number", start, truncated=end == self.end)

    def overrun(self, kind: int, start: int, position: int, end: int) -> WireError:
        if position > self.end:
            missing = position - self.end
            return WireError(
                f"part of a {_NAMES.get(kind)} is missing: {missing} bytes more are announced", start, True
            )
        return WireError(f"a part reaches beyond the {_NAMES.get(kind)} it belongs to", start)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
