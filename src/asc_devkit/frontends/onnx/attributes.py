"""Attribute messages as IR attributes, and ``Constant`` nodes as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.frontends.onnx.findings import text
from asc_devkit.frontends.onnx.tensors import BadTensor, TensorReader

_T = onnx.AttributeProto

# Which field tells the type in files older than the field `type` (IR version 1).
_UNTYPED: Final = (
    ("ints", _T.INTS),
    ("floats", _T.FLOATS),
    ("strings", _T.STRINGS),
    ("tensors", _T.TENSORS),
    ("graphs", _T.GRAPHS),
)
_UNTYPED_SINGLE: Final = (("i", _T.INT), ("f", _T.FLOAT), ("s", _T.STRING), ("t", _T.TENSOR), ("g", _T.GRAPH))

BuildGraph = Callable[[onnx.GraphProto, str], ir.Graph]


class BadAttribute(Exception):
    """An attribute message that has no meaning; the text says why."""


def attribute(proto: onnx.AttributeProto, reader: TensorReader, build: BuildGraph, label: str) -> ir.Attr | None:
    """The attribute as IR; ``label`` names its node. None when external data is missing (the reader has noted it).

    Raises ``BadAttribute`` and ``BadTensor``.
    """
    kind, name = proto.type or _guess(proto), text(proto.name)
    if proto.ref_attr_name:
        return ir.RefAttr(name, text(proto.ref_attr_name), ir.AttributeType(kind))
    if kind == _T.INT:
        return ir.AttrInt64(name, proto.i)
    if kind == _T.INTS:
        return ir.AttrInt64s(name, tuple(proto.ints))
    if kind == _T.FLOAT:
        return ir.AttrFloat32(name, proto.f)
    if kind == _T.FLOATS:
        return ir.AttrFloat32s(name, tuple(proto.floats))
    if kind == _T.STRING:
        return ir.AttrString(name, _text(proto.s))
    if kind == _T.STRINGS:
        return ir.AttrStrings(name, tuple(_text(s) for s in proto.strings))
    if kind == _T.TENSOR:
        if not proto.HasField("t"):
            raise BadAttribute("its tensor is missing")
        tensor = reader.read(proto.t, label)
        return None if tensor is None else ir.AttrTensor(name, tensor)
    if kind == _T.TENSORS:
        tensors = [reader.read(t, label) for t in proto.tensors]
        return ir.AttrTensors(name, [t for t in tensors if t is not None])
    if kind == _T.SPARSE_TENSOR:
        tensor = reader.read_sparse(proto.sparse_tensor, label)
        return None if tensor is None else ir.AttrTensor(name, tensor)
    if kind == _T.GRAPH:
        if not proto.HasField("g"):
            raise BadAttribute("its graph is missing")
        return ir.AttrGraph(name, build(proto.g, f"{label}/{name}"))
    if kind == _T.GRAPHS:
        return ir.AttrGraphs(name, [build(g, f"{label}/{name}_{i}") for i, g in enumerate(proto.graphs)])
    if kind in (_T.TYPE_PROTO, _T.TYPE_PROTOS):
        return ir.serde.deserialize_attribute(proto)
    raise BadAttribute(f"its type {kind} is unknown")


def constant(attributes: Mapping[str, ir.Attr], name: str) -> ir.TensorProtocol:
    """The tensor that a ``Constant`` node with these attributes makes. Raises ``BadAttribute``."""
    given = [a for key, a in attributes.items() if key == "sparse_value" or key.startswith("value")]
    if len(given) != 1 or len(attributes) != 1:
        raise BadAttribute(f"a Constant needs exactly one value, it has {len(given)}")
    key, value = given[0].name, given[0].value
    if key in ("value", "sparse_value") and given[0].type == ir.AttributeType.TENSOR:
        tensor: ir.TensorProtocol = value  # not as_tensor(): its check of the protocol costs more than all the rest
        tensor.name = name
        return tensor
    expected, dtype = _CONSTANT_FORMS.get(key, (None, None))
    if expected != given[0].type:
        raise BadAttribute(f"a Constant cannot be made from {key!r} of type {given[0].type.name}")
    if dtype is None:
        texts = [value] if isinstance(value, str) else list(value)
        shape = () if isinstance(value, str) else (len(texts),)
        return ir.StringTensor([t.encode() for t in texts], shape=ir.Shape(shape), name=name)
    return ir.Tensor(np.asarray(value, dtype), name=name)


_CONSTANT_FORMS: Final[Mapping[str, tuple[ir.AttributeType, Any]]] = {
    "value_int": (ir.AttributeType.INT, np.int64),
    "value_ints": (ir.AttributeType.INTS, np.int64),
    "value_float": (ir.AttributeType.FLOAT, np.float32),
    "value_floats": (ir.AttributeType.FLOATS, np.float32),
    "value_string": (ir.AttributeType.STRING, None),
    "value_strings": (ir.AttributeType.STRINGS, None),
}


def _guess(proto: onnx.AttributeProto) -> int:
    for field, kind in _UNTYPED:
        if len(getattr(proto, field)):
            return kind
    for field, kind in _UNTYPED_SINGLE:
        if proto.HasField(field):
            return kind
    raise BadAttribute("it has neither type nor value")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadAttribute(f"its text is not UTF-8: {data[:40]!r}") from error


__all__ = ["BadAttribute", "BadTensor", "attribute", "constant"]
