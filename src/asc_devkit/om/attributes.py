"""IR attributes <-> AttrDef. The kind (bool, dtype, int, ...) comes from the attribute itself when it was read from a
file, else from the catalogue's declaration of the operator, else from its IR type."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import isfinite, prod
from typing import Any, Final

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError

from asc_devkit import ops
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.container import broken

TYPE: Final = "onnx.TypeProto"  # name of the function attribute that holds a type
KIND: Final = "om.kind"  # key in Attr.meta: the kind the attribute had in the file
_T: Final = ir.AttributeType
_L: Final = pb.AttrDef.ListValue
MAX_RANK: Final = 32  # of arrays in numpy 1
_HEAD: Final = struct.Struct("<qq")  # of each string: offset from the beginning of the data, length


def elements(shape: Sequence[int], what: str) -> int:
    """Number of elements of a tensor read from a file. Raises ``AscError`` for shapes no array can have."""
    if any(d < 0 for d in shape) or len(shape) > MAX_RANK or prod(max(d, 1) for d in shape) >= 1 << 58:
        raise broken(f"{what} has the shape {list(shape[: MAX_RANK + 1])}")
    return prod(shape)


def encode(node: ir.Node, into: Any) -> None:
    """Write all attributes of ``node`` except graphs into the AttrDef map ``into``.

    Raises ``AscError`` (E10055) for kinds Ascend files have no place for (sparse tensors).
    """
    spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
    kinds: Mapping[str, str] = spec.attrs if spec is not None else {}
    for attribute in node.attributes.values():
        if attribute.type not in (_T.GRAPH, _T.GRAPHS):
            kind = attribute.meta.get(KIND) or kinds.get(attribute.name, "")
            _encode_one(node, attribute, kind, into[attribute.name])


def _encode_one(node: ir.Node, attribute: ir.Attr, kind: str, out: pb.AttrDef) -> None:
    value: Any = attribute.value
    match attribute.type:
        case _T.INT if kind == "bool":
            out.b = bool(value)
        case _T.INT if kind == "dtype":
            out.dt = dtypes.of_ir(ir.DataType(value)).acl
        case _T.INT if kind == "float":
            out.f = value
        case _T.INT:
            out.i = value
        case _T.FLOAT:
            out.f = value
        case _T.STRING:
            out.s = _bytes(value)
        case _T.INTS if kind == "bools":
            out.list.b.extend(bool(v) for v in value)
            out.list.val_type = _L.VT_LIST_BOOL
        case _T.INTS:
            out.list.i.extend(value)
            out.list.val_type = _L.VT_LIST_INT
        case _T.FLOATS:
            out.list.f.extend(value)
            out.list.val_type = _L.VT_LIST_FLOAT
        case _T.STRINGS:
            out.list.s.extend(_bytes(v) for v in value)
            out.list.val_type = _L.VT_LIST_STRING
        case _T.TENSOR:
            tensor(value, out.t)
        case _T.TYPE_PROTO:
            out.func.name = TYPE
            out.func.attr["type"].bt = type_bytes(value.type)
        case _:
            raise AscError(
                Problem(
                    "E10055",
                    f"Attribute {attribute.name} of {node.name} ({attribute.type.name}) has no place in an .om file.",
                    fix="Replace the operator, for example by its dense form.",
                    nodes=(node.name or "",),
                    seed_class="EE1055",
                )
            )


def type_bytes(kind: ir.TypeProtocol) -> bytes:
    """A type that Ascend's vocabulary lacks (sequence, optional), as ONNX stores it."""
    made: bytes = ir.serde.serialize_type(kind).SerializeToString(deterministic=True)
    return made


def type_from(raw: bytes) -> ir.TypeProtocol:
    """The inverse of ``type_bytes``. Raises ``AscError`` when ``raw`` is no such type."""
    import onnx

    try:
        kind = ir.serde.deserialize_type_proto_for_type(onnx.TypeProto.FromString(raw))
    except (DecodeError, ValueError, NotImplementedError) as error:
        raise broken("it holds a type that cannot be parsed") from error
    if kind is None:
        raise broken("it holds an empty type")
    return kind


def tensor(value: ir.TensorProtocol, out: pb.TensorDef) -> None:
    """Store a small tensor inline."""
    row = dtypes.of_ir(value.dtype)
    out.desc.dtype = row.proto  # type: ignore[assignment]
    out.desc.shape.dim.extend(int(d) for d in value.shape.numpy())
    out.desc.layout = "ND"
    if value.dtype == ir.DataType.STRING:
        out.data = _pack_strings([_bytes(v) for v in np.asarray(value.numpy()).ravel()])
    else:
        out.data = np.ascontiguousarray(value.numpy()).tobytes()


def foreign(value: ir.TensorProtocol, out: pb.TensorDef) -> None:
    """Store a tensor of an element type that Ascend files lack: its bytes as ONNX packs them (the type stands beside)."""
    out.desc.shape.dim.extend(int(d) for d in value.shape.numpy())
    out.desc.layout = "ND"
    out.data = value.tobytes()


def foreign_from(value: pb.TensorDef, dtype: ir.DataType) -> ir.TensorProtocol:
    """The inverse of ``foreign``. Raises ``AscError`` when the bytes do not fit the shape."""
    import onnx

    shape = tuple(value.desc.shape.dim)
    if len(value.data) != dtypes.nbytes(elements(shape, "a tensor in its attributes"), dtype):
        raise broken(f"a {dtype.name} tensor of shape {list(shape)} has {len(value.data)} bytes")
    proto = onnx.TensorProto(dims=shape, data_type=int(dtype), raw_data=value.data)
    return ir.Tensor(ir.TensorProtoTensor(proto).numpy(), dtype=dtype)


def _pack_strings(texts: Sequence[bytes]) -> bytes:
    """The device's layout of a string tensor: a head per string, then the strings, each with a closing zero."""
    heads, offset = [], _HEAD.size * len(texts)
    for text in texts:
        heads.append(_HEAD.pack(offset, len(text)))
        offset += len(text) + 1
    return b"".join(heads) + b"".join(text + b"\0" for text in texts)


def _unpack_strings(data: bytes, count: int) -> list[bytes]:
    if count > len(data) // _HEAD.size:
        raise broken(f"a tensor of {count} strings has {len(data)} bytes")
    texts, left = [], len(data)
    for offset, size in _HEAD.iter_unpack(data[: count * _HEAD.size]):
        left -= size  # strings that overlap could ask for far more memory than the file has
        if offset < 0 or size < 0 or offset + size > len(data) or left < 0:
            raise broken(f"a string of {size} bytes at {offset} is outside its tensor of {len(data)} bytes")
        texts.append(data[offset : offset + size])
    return texts


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


def decode(name: str, value: pb.AttrDef) -> ir.Attr | None:
    """An IR attribute that remembers its kind, or None for kinds that only the vendor's compiler uses."""
    made = _decode(name, value)
    if made is None:
        return None
    attribute, kind = made
    if kind:
        attribute.meta[KIND] = kind
    return attribute


def _decode(name: str, value: pb.AttrDef) -> tuple[ir.Attr, str] | None:
    match value.WhichOneof("value"):
        case "i":
            return ir.AttrInt64(name, value.i), ""
        case "b":
            return ir.AttrInt64(name, int(value.b)), "bool"
        case "dt":
            row = dtypes.of_acl(value.dt)
            known = row is not None and row.ir is not None
            return (ir.AttrInt64(name, int(row.ir)), "dtype") if known else None  # type: ignore[arg-type, union-attr]
        case "f":
            return ir.AttrFloat32(name, value.f), ""
        case "s":
            return ir.AttrString(name, value.s.decode("utf-8", "surrogateescape")), ""
        case "list":
            return _decode_list(name, value.list)
        case "t":
            array = inline(value.t)
            return None if array is None else (ir.AttrTensor(name, array), "")
        case "func" if value.func.name == TYPE and "type" in value.func.attr:
            return ir.AttrTypeProto(name, ir.TypeAndShape(type_from(value.func.attr["type"].bt), None)), ""
    return None


def _decode_list(name: str, value: pb.AttrDef.ListValue) -> tuple[ir.Attr, str] | None:
    kind = value.val_type
    if value.s or kind == _L.VT_LIST_STRING:
        return ir.AttrStrings(name, [s.decode("utf-8", "surrogateescape") for s in value.s]), ""
    if value.f or kind == _L.VT_LIST_FLOAT:
        return ir.AttrFloat32s(name, list(value.f)), ""
    if value.b or kind == _L.VT_LIST_BOOL:
        return ir.AttrInt64s(name, [int(b) for b in value.b]), "bools"
    if value.i or kind == _L.VT_LIST_INT:
        return ir.AttrInt64s(name, list(value.i)), ""
    return None


def inline(value: pb.TensorDef) -> ir.TensorProtocol | None:
    """The tensor stored in ``value`` itself, None when its element type is unknown or the data are elsewhere.

    Raises ``AscError`` when the data do not fit the description.
    """
    row = dtypes.of_proto(value.desc.dtype)
    if row is None or row.ir is None:
        return None
    shape = tuple(value.desc.shape.dim)
    count = elements(shape, "a tensor in its attributes")
    if count and not value.data:
        return None
    if row.ir == ir.DataType.STRING:
        return ir.StringTensor(
            np.array(_unpack_strings(value.data, count), dtype=object).reshape(shape), shape=ir.Shape(shape)
        )
    size = np.dtype(row.numpy).itemsize
    if len(value.data) != count * size:
        raise broken(f"a tensor of shape {list(shape)} in its attributes has {len(value.data)} bytes")
    return ir.Tensor(np.frombuffer(value.data, dtype=row.numpy).reshape(shape), dtype=row.ir)


def python_value(value: pb.AttrDef) -> Any:
    """AttrDef as plain Python data, for reports and JSON; contents of tensors and graphs are left out."""
    match value.WhichOneof("value"):
        case "s" | "bt" as field:
            return getattr(value, field).decode("utf-8", "replace")
        case "i" | "f" | "b" | "dt" | "expression" as field:
            return _json(getattr(value, field))
        case "list":
            for field in ("s", "i", "f", "b", "bt", "dt"):
                items = list(getattr(value.list, field))
                if items:
                    return [_json(v) for v in items]
            return []
        case "list_list_int":
            return [list(row.list_i) for row in value.list_list_int.list_list_i]
        case None:
            return None
        case field:
            return f"<{field}>"


def _json(value: Any) -> Any:
    """``value`` as JSON can hold it: text for bytes, and for numbers that are not finite."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, float) and not isfinite(value) else value
