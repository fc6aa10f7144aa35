"""The in/out description (partition MODEL_INOUT_INFO): what a program can ask of a model without loading it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from asc_devkit.ge import dtypes
from asc_devkit.om.container import broken

_BLOCK: Final = struct.Struct("<II")
_TENSOR: Final = struct.Struct("<Qii4I")
MAX_TENSORS: Final = 65536
INPUTS, OUTPUTS, BATCH, IMAGE, DIMS, OUT_SHAPE, USER_ORDER = range(7)


@dataclass(frozen=True)
class TensorInfo:
    """One input or output: ``size`` in bytes as a program has to supply it, ``acl_dtype``/``format`` runtime numbers."""

    name: str
    shape: tuple[int, ...]
    acl_dtype: int
    format: int
    size: int
    dims_v2: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def dtype(self) -> str:
        """Name of the element type without ``DT_``."""
        row = dtypes.of_acl(self.acl_dtype)
        return "undefined" if row is None else row.name.removeprefix("DT_").lower()


@dataclass(frozen=True)
class InOut:
    """The whole description; gears are empty for static models."""

    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    batch_gears: tuple[int, ...] = ()
    image_gears: tuple[tuple[int, ...], ...] = ()
    dim_gears: tuple[tuple[int, ...], ...] = ()
    output_shapes: tuple[str, ...] = ()
    user_order: tuple[str, ...] = ()
    unknown: tuple[tuple[int, bytes], ...] = field(default=())


def encode(info: InOut) -> bytes:
    """TLV bytes; empty blocks are left out."""
    blocks: list[tuple[int, bytes]] = []
    if info.inputs:
        blocks.append((INPUTS, _tensors(info.inputs)))
    if info.outputs:
        blocks.append((OUTPUTS, _tensors(info.outputs)))
    if info.batch_gears:
        blocks.append((BATCH, struct.pack(f"<I{len(info.batch_gears)}Q", len(info.batch_gears), *info.batch_gears)))
    for kind, gears in ((IMAGE, info.image_gears), (DIMS, info.dim_gears)):
        if gears:
            flat = [v for gear in gears for v in gear]
            body = struct.pack(f"<I{len(gears)}I", len(gears), *(len(g) for g in gears))
            blocks.append((kind, body + struct.pack(f"<{len(flat)}Q", *flat)))
    for kind, texts in ((OUT_SHAPE, info.output_shapes), (USER_ORDER, info.user_order)):
        if texts:
            raw = [t.encode() for t in texts]
            body = struct.pack(f"<I{len(raw)}I", len(raw), *(len(r) for r in raw))
            blocks.append((kind, body + b"".join(raw)))
    blocks += info.unknown
    return b"".join(_BLOCK.pack(kind, len(body)) + body for kind, body in blocks)


def _tensors(tensors: Sequence[TensorInfo]) -> bytes:
    out = [struct.pack("<I", len(tensors))]
    for t in tensors:
        name = t.name.encode()
        dims = struct.pack(f"<{len(t.shape)}q", *t.shape)
        dims_v2 = struct.pack(f"<{len(t.dims_v2)}q", *t.dims_v2)
        ranges = b"".join(struct.pack("<qq", *pair) for pair in t.ranges)
        out.append(_TENSOR.pack(t.size, t.format, t.acl_dtype, len(name), len(dims), len(dims_v2), len(ranges)))
        out.append(name + dims + dims_v2 + ranges)
    return b"".join(out)


def decode(data: memoryview) -> InOut:
    """Parse TLV bytes. Raises ``AscError`` for lengths that do not fit."""
    cursor = _Cursor(data)
    values: dict[int, object] = {}
    unknown: list[tuple[int, bytes]] = []
    while cursor.left:
        kind, size = cursor.take(_BLOCK)
        block = _Cursor(cursor.bytes(size))
        if kind in (INPUTS, OUTPUTS):
            values[kind] = _read_tensors(block)
        elif kind == BATCH:
            values[kind] = block.numbers("Q", block.count())
        elif kind in (IMAGE, DIMS):
            lengths = block.numbers("I", block.count())
            values[kind] = tuple(block.numbers("Q", n) for n in lengths)
        elif kind in (OUT_SHAPE, USER_ORDER):
            lengths = block.numbers("I", block.count())
            values[kind] = tuple(bytes(block.bytes(n)).decode("utf-8", "replace") for n in lengths)
        else:
            unknown.append((kind, bytes(block.bytes(block.left))))
    names = ("inputs", "outputs", "batch_gears", "image_gears", "dim_gears", "output_shapes", "user_order")
    found = {names[kind]: value for kind, value in values.items()}
    return InOut(**found, unknown=tuple(unknown))  # type: ignore[arg-type]


def _read_tensors(block: _Cursor) -> tuple[TensorInfo, ...]:
    tensors = []
    for _ in range(block.count()):
        size, fmt, dtype, name_len, dims_len, v2_len, range_len = block.take(_TENSOR)
        if dims_len % 8 or v2_len % 8 or range_len % 16:
            raise broken("a dimension list of the in/out description has a crooked length")
        name = bytes(block.bytes(name_len)).decode("utf-8", "replace")
        dims, dims_v2 = block.numbers("q", dims_len // 8), block.numbers("q", v2_len // 8)
        flat = block.numbers("q", range_len // 8)
        ranges = tuple(zip(flat[::2], flat[1::2], strict=True))
        tensors.append(TensorInfo(name, dims, dtype, fmt, size, dims_v2, ranges))
    return tuple(tensors)


class _Cursor:
    """Bounds-checked reading of a memory view."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.position = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def bytes(self, size: int) -> memoryview:
        if size > self.left:
            raise broken(f"the in/out description wants {size} bytes where {self.left} are left")
        piece = self.data[self.position : self.position + size]
        self.position += size
        return piece

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.bytes(layout.size))

    def count(self) -> int:
        (count,) = struct.unpack("<I", self.bytes(4))
        if count > MAX_TENSORS:
            raise broken(f"the in/out description claims {count} entries")
        return int(count)

    def numbers(self, code: str, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}{code}", self.bytes(count * struct.calcsize(f"<{code}")))
