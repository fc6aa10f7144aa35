"""Bounded walk over the protobuf wire format, for readers that know their fields by number (caffe, tensorflow)."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final

MAX_ENTRIES: Final = 4_000_000


class WireFault(Exception):
    """The bytes are not such a message; ``offset`` is where that shows, ``truncated`` when the file ends too early."""

    def __init__(self, what: str, offset: int, truncated: bool = False) -> None:
        self.what, self.offset, self.truncated = what, offset, truncated
        super().__init__(f"{what} at byte {offset}")


class Wire:
    """One file; all walks together see at most ``MAX_ENTRIES`` fields. Raises ``WireFault``."""

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
                raise WireFault(f"more than {MAX_ENTRIES} parts", at)
            tag, position = self.varint(position, end)
            number, kind = tag >> 3, tag & 7
            if not number:
                raise WireFault("field number 0", at)
            if kind == 0:
                value, position = self.varint(position, end)
                yield number, kind, value, 0
                continue
            if kind == 2:
                length, position = self.varint(position, end)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise WireFault(f"an impossible field (wire type {kind})", at)
            if length > end - position:
                raise WireFault("a part is missing", at, truncated=position + length > len(self.data))
            yield number, kind, position, position + length
            position += length

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """The number at ``position`` and the position behind it."""
        value, shift, start = 0, 0, position
        while position < end:
            byte = self.data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
            if shift > 63:
                raise WireFault("a number longer than ten bytes", start)
        raise WireFault("an incomplete number", start, truncated=end == len(self.data))
