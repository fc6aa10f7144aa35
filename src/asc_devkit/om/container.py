"""The `.om` file as bytes: 256-byte header, partition table, partitions. Nothing in it is trusted.

Layout: public facts about the format (header fields and partition types as seen in real files).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from asc_devkit.errors import AscError, Problem

MAGIC: Final = 0x444F4D49  # b"IMOD"
HEADER_BYTES: Final = 256
VERSION_2: Final = 0x20000000
_HEADER: Final = struct.Struct("<3I64sI4B32sI32s2I20sB3sQBB62s")
_ENTRY: Final = struct.Struct("<IIQQ")
_OLD_ENTRY: Final = struct.Struct("<III")
MAX_PARTITIONS: Final = 64
MAX_MODELS: Final = 4096


class Part(IntEnum):
    """Partition types."""

    MODEL_DEF = 0
    WEIGHTS_DATA = 1
    TASK_INFO = 2
    TBE_KERNELS = 3
    CUST_AICPU_KERNELS = 4
    SO_BINS = 5
    FLOW_MODEL = 6
    FLOW_SUBMODEL = 7
    MODEL_INOUT_INFO = 8
    STATIC_TASK_DESC = 9
    DYNAMIC_TASK_DESC = 10
    TASK_PARAM = 11
    TILING_DATA = 12
    PRE_MODEL_DESC = 20
    PRE_MODEL_SQE = 21
    PRE_KERNEL_ARGS = 22
    PRE_MODEL_DESC_EXTEND = 23
    BUNDLE_MODEL_INFO = 24
    BUNDLE_MODEL_VAR_INFO = 25
    CUSTOM_OPS = 26


BUNDLE: Final = 5  # model type of several models in one file, whose length field counts the header too


@dataclass(frozen=True)
class Header:
    """The fields that matter. ``model_length`` is the size of everything behind the header (0 in old files)."""

    version: int
    name: str
    model_num: int
    model_length: int
    length: int
    model_type: int
    is_encrypt: int
    is_unknow_model: int
    platform_version: str
    om_ir_version: int


@dataclass(frozen=True)
class Partition:
    """Where a partition lies in the file."""

    type: int
    offset: int
    size: int
    model: int = 0


def broken(
    what: str, cause: str = "The file is damaged or incomplete.", fix: str = "Convert the model again."
) -> AscError:
    """The one error for files that are not valid offline models."""
    return AscError(Problem("E10001", f"Invalid om file: {what}.", cause=cause, fix=fix, seed_class="EE1001"))


def read_header(data: memoryview, complete: bool = True) -> Header:
    """Parse and check the header; ``complete``: ``data`` is the whole file, whose length is checked too.

    Raises ``AscError`` for anything that is not a plain offline model.
    """
    head = bytes(data[:8])
    if head[:4] == b"PICO":
        raise broken("it is a PICO model", "HiSilicon SVP models have another format.", "Use the SVP tools for it.")
    if len(data) < HEADER_BYTES:
        raise broken(f"it has {len(data)} bytes, a header alone has {HEADER_BYTES}")
    fields = _HEADER.unpack(data[:HEADER_BYTES])
    (magic, _size, version, _sum, length, encrypt, _check, kind, _gen, name, _ops, _user, ir_version, num) = fields[:14]
    platform, _ptype, _pad, model_length, _need, unknown, _reserved = fields[14:]
    if magic != MAGIC:
        raise broken("it does not begin with the letters IMOD", "This is no offline model.", "Check the path.")
    if encrypt == 1:
        raise broken("it is encrypted", "Only the device can decrypt it.", "Use the unencrypted model.")
    if kind == BUNDLE:
        raise broken("it is a bundle of several models", "Bundles are not read.", "Open the single models.")
    if complete and model_length and model_length != len(data) - HEADER_BYTES:
        raise broken(f"its header promises {model_length} bytes of payload, it has {len(data) - HEADER_BYTES}")
    return Header(
        version=version,
        name=name.split(b"\0")[0].decode("utf-8", "replace"),
        model_num=num,
        model_length=model_length,
        length=length,
        model_type=kind,
        is_encrypt=encrypt,
        is_unknow_model=unknown,
        platform_version=platform.split(b"\0")[0].decode("utf-8", "replace"),
        om_ir_version=ir_version,
    )


def read_partitions(data: memoryview, header: Header) -> tuple[Partition, ...]:
    """All partitions of all models in the file, bounds checked; payloads are walked in order as the loader does."""
    models = header.model_num if header.version >= VERSION_2 and header.model_length else 1
    if not 1 <= models <= MAX_MODELS:
        raise broken(f"it claims to hold {models} models")
    found: list[Partition] = []
    position = HEADER_BYTES
    new = header.model_length != 0
    for model in range(models):
        count = _u32(data, position)
        if not 1 <= count <= MAX_PARTITIONS:
            raise broken(f"it claims to have {count} partitions")
        entry, start = (_ENTRY, position + 8) if new else (_OLD_ENTRY, position + 4)
        payload = start + count * entry.size
        if payload > len(data):
            raise broken("its partition table is cut off")
        for index in range(count):
            row = entry.unpack(data[start + index * entry.size : start + (index + 1) * entry.size])
            kind, size = row[0], row[-1]
            if Part.PRE_MODEL_DESC <= kind <= Part.PRE_MODEL_DESC_EXTEND:
                raise broken("it is an .exeom", "Such files hold tasks for one small chip, no graph.", "Use the .om.")
            if size > len(data) - payload:
                raise broken(f"partition {kind} should have {size} bytes, {len(data) - payload} are left")
            found.append(Partition(kind, payload, size, model))
            payload += size
        position = payload
    return tuple(found)


def _u32(data: memoryview, position: int) -> int:
    if position + 4 > len(data):
        raise broken("its partition table is cut off")
    return int(struct.unpack_from("<I", data, position)[0])


def header_bytes(name: str, payload: int) -> bytes:
    """A version-2 header for one model with ``payload`` bytes behind it; the name is cut between two characters."""
    short = name.encode("utf-8", "replace")[:31].decode("utf-8", "ignore").encode()
    return _HEADER.pack(
        MAGIC, HEADER_BYTES, VERSION_2, b"", 0, 0, 0, 0, 0, short, 0, b"", 2, 1,
        b"1.11.z.0", 1, b"", payload, 0, 0, b"",
    )  # fmt: skip


def renewed_header(head: bytes, payload: int) -> bytes:
    """An existing header for a payload of another size, as version 2 (whose tables ``table_bytes`` makes)."""
    fields = list(_HEADER.unpack(head))
    version, model_num = fields[2], fields[13]
    fields[2], fields[4], fields[17] = VERSION_2, 0, payload
    fields[13] = model_num if version >= VERSION_2 and model_num else 1
    return _HEADER.pack(*fields)


def table_bytes(parts: list[tuple[int, int]]) -> bytes:
    """The partition table for (type, size) pairs that follow it back to back."""
    out = struct.pack("<II", len(parts), 0)
    offset = 0
    for kind, size in parts:
        out += _ENTRY.pack(kind, 0, offset, size)
        offset += size
    return out
