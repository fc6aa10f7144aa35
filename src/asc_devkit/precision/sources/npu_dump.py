"""Dump files of the NPU runtime: header length, ``DumpData``, then the raw tensors in the order output, input, buffer, space.

Names are ``{op_type}.{op_name}.{task_id}[.{stream_id}].{timestamp}``. The tensors are handed over in their origin layout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.sources import npu_types
from asc_devkit.precision.sources.tensor import Array, TensorRef, bounded, checked_shape, problem_of, torn

MAX_HEADER: Final = 64 << 20
NANO_MAGIC: Final = 0x5A5A5A5A
_NAME: Final = re.compile(
    r"^(?P<type>[A-Za-z0-9_]+)\.(?P<op>.+?)\.(?P<task>\d+)(?:\.(?P<stream>\d+))?\.(?P<time>\d{10,})$"
)


@dataclass(frozen=True)
class DumpTensor:
    """A tensor to write: ``array`` in the device layout ``fmt``; ``origin_shape`` when the layout is not plain."""

    array: Array
    data_type: int
    fmt: str = "ND"
    origin_shape: tuple[int, ...] = ()


def looks_like(path: Path) -> bool:
    """Whether the file has the name and the first bytes of a dump."""
    if not _NAME.match(path.name):
        return False
    try:
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
        return 0 < length <= MAX_HEADER or (length & 0xFFFFFFFF) == NANO_MAGIC
    except OSError:
        return False


def open_dump(path: Path) -> list[TensorRef]:
    """All inputs and outputs in the file. Raises ``AscError``: ASC5102 when torn, ASC5106 for types it cannot hold."""
    from asc_devkit.ge.proto import dump_data_pb2

    size = path.stat().st_size
    data = dump_data_pb2.DumpData()
    try:
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if length & 0xFFFFFFFF == NANO_MAGIC:
                raise torn(path, "it is a dump of a Nano chip, whose layout is not read")
            if not 0 < length <= min(MAX_HEADER, size - 8):
                raise torn(path, f"its header should have {length} bytes")
            data.ParseFromString(handle.read(length))
    except AscError:
        raise
    except Exception as error:  # protobuf raises its own kinds
        raise torn(path, f"its header is damaged ({problem_of(error)})") from error
    offset = 8 + length
    name = _NAME.match(path.name)
    op = data.op_name or (name["op"] if name else path.name)
    facts = {"op": op, "op_type": name["type"] if name else "", "version": data.version}
    found: list[TensorRef] = []
    sides: tuple[tuple[str, Any], ...] = (("output", data.output), ("input", data.input))
    for side, rows in sides:
        for index, row in enumerate(rows):
            found.append(_ref(path, row, offset, {**facts, "side": side, "index": index}))
            offset += row.size
    expected = offset + sum(r.size for r in data.buffer) + sum(r.size for r in data.space)
    if expected != size:
        raise torn(path, f"its header declares {expected} bytes in all, {size} are there")
    return found


def _ref(path: Path, row: Any, offset: int, facts: dict[str, Any]) -> TensorRef:
    kind = npu_types.TYPES.get(row.data_type)
    if kind is None:
        raise AscError(
            Problem(
                "ASC5106",
                f"{path} holds a tensor of element type {row.data_type}, which is not known.",
                nodes=(str(path),),
            )
        )
    fmt = npu_types.FORMATS.get(row.format, "ND")
    stored = checked_shape(path, [int(d) for d in row.shape.dim])
    origin = checked_shape(path, [int(d) for d in row.original_shape.dim])
    count = math.prod(stored)
    if not npu_types.stored_bytes(kind, count) <= row.size <= max(count * 16, 64) + 512:
        raise torn(path, f"{row.size} bytes are no {kind.name} tensor of shape {list(stored)}")
    name = f"{facts['op']}.{facts['side']}.{facts['index']}"
    facts = {**facts, "format": fmt, "storage_shape": stored, "data_type": kind.name}
    shape = (origin or _plain_shape(fmt, stored)) if fmt in npu_types.DEVICE else stored
    if fmt not in npu_types.DEVICE and not kind.table:
        return TensorRef(name, kind.numpy, stored, path, offset, None, facts)
    bounded(path, count * max(kind.numpy.itemsize, 1))
    nbytes = int(row.size)

    def load() -> Array:
        with open(path, "rb") as handle:
            handle.seek(offset)
            raw = np.frombuffer(handle.read(nbytes), np.uint8)
        if raw.size != nbytes:
            raise torn(path, f"the elements of {name!r} are cut off")
        array = npu_types.unpack(raw, kind, count).reshape(stored)
        if fmt not in npu_types.DEVICE:
            return array
        try:
            return npu_types.to_origin(array, fmt, origin)
        except ValueError as error:
            raise torn(path, f"{fmt} of shape {list(stored)} is no {list(origin)} ({problem_of(error)})") from error

    return TensorRef(name, kind.numpy, shape, path, offset, load, facts)


def _plain_shape(fmt: str, stored: Sequence[int]) -> tuple[int, ...]:
    empty = np.empty(tuple(0 if d == 0 else 1 for d in stored))
    if empty.size == 0 or len(stored) < 4:
        return tuple(stored)
    if fmt == "NC1HWC0" and len(stored) == 5:
        n, c1, h, w, c0 = stored
        return n, c1 * c0, h, w
    if fmt == "NDC1HWC0" and len(stored) == 6:
        n, d, c1, h, w, c0 = stored
        return n, c1 * c0, d, h, w
    if fmt == "FRACTAL_NZ":
        *head, columns, rows, n0, c0 = stored
        return *head, rows * n0, columns * c0
    blocks, no, ni, c0 = stored[-4:]
    return no * ni, blocks * c0


def write(
    path: Path, op: str, outputs: Sequence[DumpTensor], inputs: Sequence[DumpTensor] = (), time_us: int = 0
) -> None:
    """Write a dump file in the runtime's form (atomically)."""
    from asc_devkit.ge.proto import dump_data_pb2

    numbers = {name: number for number, name in npu_types.FORMATS.items()}
    data = dump_data_pb2.DumpData(version="2.0", dump_time=time_us, op_name=op)
    bodies: list[bytes] = []
    for rows, target in ((outputs, data.output), (inputs, data.input)):
        for tensor in rows:
            body = npu_types.pack(tensor.array, npu_types.TYPES[tensor.data_type])
            row: Any = target.add(data_type=tensor.data_type, format=numbers[tensor.fmt], size=len(body))
            row.shape.dim.extend(tensor.array.shape)
            row.original_shape.dim.extend(tensor.origin_shape or tensor.array.shape)
            bodies.append(body)
    head = data.SerializeToString()
    with files.atomic_writer(path) as handle:
        handle.write(len(head).to_bytes(8, "little") + head)
        for body in bodies:
            handle.write(body)
