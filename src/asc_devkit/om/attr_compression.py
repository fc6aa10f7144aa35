"""Attribute compression of real `.om` files, both directions.

Compressed: attribute names become ``\\0`` + base-127 digits (lowest first, each plus one) that index the ModelDef list
``attr_name_enum``; string values of the names flagged in ``attrs_use_string_value`` become indices into
``attr_value_enum``. It covers attributes of operators and of their tensor descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.container import broken

VERSION: Final = "om_compress_version"
NAMES: Final = "attr_name_enum"
VALUES: Final = "attr_value_enum"
FLAGS: Final = "attrs_use_string_value"
FREE_BYTES: Final = 64 << 20  # what a definition may grow by in any case when it is decompressed,
GROWTH: Final = 20  # and by how many times its size besides (real ones grow by a tenth)
MAX_DIGITS: Final = 5  # more than 2**32 names
_V: Final = pb.AttrDef.ListValue


def is_compressed(model: pb.ModelDef) -> bool:
    """True when attribute names are numbers."""
    return VERSION in model.attr and model.attr[VERSION].i == 1


def decompress(model: pb.ModelDef) -> None:
    """Restore names and strings in place; does nothing to a plain model. Raises ``AscError`` on bad indices."""
    if not is_compressed(model):
        return
    names = [raw.decode("utf-8", "replace") for raw in model.attr[NAMES].list.s]
    values = list(model.attr[VALUES].list.s)
    flags = list(model.attr[FLAGS].list.b)
    left = FREE_BYTES + GROWTH * model.ByteSize()
    for attrs in _attribute_maps(model):
        for key in list(attrs):
            if not key.startswith("\0"):
                continue
            index = _number(key)
            if not 0 <= index < len(names):
                raise broken(f"attribute number {index} ({key!r}) is not in its name table of {len(names)}")
            value = pb.AttrDef()
            value.CopyFrom(attrs[key])
            if index < len(flags) and flags[index]:
                left -= _strings_back(value, values)
            left -= len(names[index])
            if left < 0:
                raise broken("its attributes grow too much when decompressed")
            del attrs[key]
            attrs[names[index]].CopyFrom(value)
    for key in (VERSION, NAMES, VALUES, FLAGS):
        if key in model.attr:
            del model.attr[key]


def compress(model: pb.ModelDef) -> None:
    """Replace attribute names and string values by numbers in place; does nothing to a compressed model."""
    if is_compressed(model):
        return
    names: dict[str, int] = {}
    values: dict[bytes, int] = {}
    flags: list[bool] = []
    for attrs in _attribute_maps(model):
        for key in sorted(attrs):
            value = pb.AttrDef()
            value.CopyFrom(attrs[key])
            stringy = _is_string(value)
            index = names.setdefault(key, len(names))
            if index == len(flags):
                flags.append(stringy)
            if flags[index] and stringy:
                _strings_away(value, values)
            elif flags[index] != stringy:  # a name used with two kinds keeps its readable form
                continue
            del attrs[key]
            attrs[_digits(index)].CopyFrom(value)
    model.attr[VERSION].i = 1
    model.attr[NAMES].list.s.extend(n.encode() for n in names)
    model.attr[NAMES].list.val_type = _V.VT_LIST_STRING
    model.attr[VALUES].list.s.extend(values)
    model.attr[VALUES].list.val_type = _V.VT_LIST_STRING
    model.attr[FLAGS].list.b.extend(flags)
    model.attr[FLAGS].list.val_type = _V.VT_LIST_BOOL


def _attribute_maps(model: pb.ModelDef) -> Iterator[MutableMapping[str, Any]]:
    for graph in model.graph:
        for op in graph.op:
            yield op.attr
            for desc in (*op.input_desc, *op.output_desc):
                yield desc.attr


def _digits(index: int) -> str:
    text = "\0"
    while True:
        text += chr(index % 127 + 1)
        index //= 127
        if not index:
            return text


def _number(key: str) -> int:
    """The index that a compressed name stands for; -1 when it is not written in base 127."""
    digits = [ord(char) - 1 for char in key[1:]]
    if not 1 <= len(digits) <= MAX_DIGITS or not all(0 <= d < 127 for d in digits):
        return -1
    return sum(digit * 127**power for power, digit in enumerate(digits))


def _is_string(value: pb.AttrDef) -> bool:
    kind = value.WhichOneof("value")
    return kind == "s" or (kind == "list" and bool(value.list.s))


def _strings_away(value: pb.AttrDef, table: dict[bytes, int]) -> None:
    if value.WhichOneof("value") == "s":
        value.i = table.setdefault(value.s, len(table))
        return
    numbers = [table.setdefault(s, len(table)) for s in value.list.s]
    del value.list.s[:]
    value.list.i.extend(numbers)
    value.list.val_type = _V.VT_LIST_INT


def _strings_back(value: pb.AttrDef, table: list[bytes]) -> int:
    """Replace numbers by strings; returns how many bytes the strings have."""

    def text(index: int) -> bytes:
        if not 0 <= index < len(table):
            raise broken(f"string number {index} is not in its value table of {len(table)}")
        return table[index]

    kind = value.WhichOneof("value")
    if kind == "i":
        value.s = text(value.i)
        return len(value.s)
    if kind == "list" and value.list.i:
        strings = [text(i) for i in value.list.i]
        total = sum(map(len, strings))
        if total > FREE_BYTES:
            raise broken(f"a list of its strings has {total} bytes")
        del value.list.i[:]
        value.list.s.extend(strings)
        value.list.val_type = _V.VT_LIST_STRING
        return total
    return 0
