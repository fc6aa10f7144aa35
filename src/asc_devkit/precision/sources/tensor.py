"""A tensor that lies in a file: name, type, shape, and its elements in blocks or as one array."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem

Array = np.ndarray[Any, Any]
MAX_AXES: Final = 64
MAX_FREE: Final = 8
_FREE: list[Array] = []  # buffers of finished readers; list operations are atomic between threads
MAX_LOADED: Final = 8 << 30  # bytes of a tensor that cannot be streamed (compressed, strided, converted)


@dataclass(frozen=True)
class TensorRef:
    """``name`` is what it is matched by; the elements lie at ``offset`` of ``path`` in C order, little endian, unless
    ``load`` makes the array. ``facts`` says what is known beyond: op, op_type, side (input|output), index, stack..."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    path: Path
    offset: int = 0
    load: Callable[[], Array] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def array(self) -> Array:
        """All elements; memory-mapped and read-only where the file allows it."""
        if self.load is not None:
            return self.load()
        if not self.size:
            return np.empty(self.shape, self.dtype)
        raw: Array = np.memmap(self.path, np.uint8, "r", self.offset, (self.nbytes,))
        return raw.view(np.ndarray).view(self.dtype).reshape(self.shape)

    def blocks(self, elements: int) -> Iterator[Array]:
        """Flat pieces of ``elements`` elements; each is valid until the next is asked for."""
        if self.load is not None:
            flat = np.ascontiguousarray(self.load()).reshape(-1)
            for start in range(0, flat.size, elements):
                yield flat[start : start + elements]
            return
        wanted = min(elements, max(self.size, 1)) * self.dtype.itemsize
        buffer = _borrow(wanted)
        try:
            yield from self._read(buffer[:wanted])
        finally:
            if len(_FREE) < MAX_FREE:
                _FREE.append(buffer)

    def _read(self, buffer: Array) -> Iterator[Array]:
        left = self.nbytes
        with open(self.path, "rb", buffering=0) as handle:
            handle.seek(self.offset)
            while left:
                want = min(left, buffer.size)
                view = memoryview(buffer.data)[:want]
                while len(view):
                    got = handle.readinto(view)
                    if not got:
                        raise torn(self.path, f"{left} bytes of {self.name!r} are missing")
                    view = view[got:]
                left -= want
                yield buffer[:want].view(self.dtype)


def _borrow(size: int) -> Array:
    """A buffer of at least ``size`` bytes, used before where there is one: fresh pages cost more than the reading."""
    try:
        kept = _FREE.pop()
    except IndexError:
        return np.empty(size, np.uint8)
    return kept if kept.size >= size else np.empty(size, np.uint8)


def torn(path: Path, why: str) -> AscError:
    """The error for a file that is cut, damaged or not what its name says (ASC5102)."""
    return AscError(
        Problem(
            "ASC5102",
            f"{path} cannot be read: {why}.",
            cause="The file was cut off, damaged, or is of another kind.",
            fix="Write it again, or leave it out.",
            nodes=(str(path),),
        )
    )


def checked_shape(path: Path, shape: Any) -> tuple[int, ...]:
    """``shape`` as a tuple of sizes. Raises ``AscError`` (ASC5102) for anything no tensor has."""
    try:
        dims = tuple(shape)
    except TypeError:
        raise torn(path, f"its shape is {shape!r}"[:200]) from None
    if len(dims) > MAX_AXES or any(type(d) is not int or not 0 <= d < 1 << 48 for d in dims):
        raise torn(path, f"its shape is {list(dims)!r}"[:200])
    if math.prod(dims) >= 1 << 56:
        raise torn(path, f"its shape {list(dims)} is absurd"[:200])
    return dims


def bounded(path: Path, nbytes: int) -> None:
    """Raises ``AscError`` (ASC5103) for a tensor that would have to be held in memory whole and is too large."""
    if nbytes > MAX_LOADED:
        raise AscError(
            Problem(
                "ASC5103",
                f"{path} holds a tensor of {nbytes >> 20} MiB that cannot be read in pieces.",
                cause="It is compressed, strided, or in a device layout.",
                fix="Store it uncompressed, contiguous and in its origin layout (.npy).",
                nodes=(str(path),),
            )
        )


def problem_of(error: Exception) -> str:
    """One line of what the system or a parser said."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0][:200]
