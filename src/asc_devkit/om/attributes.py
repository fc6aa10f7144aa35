"""IR attributes <-> AttrDef. The kind (bool, dtype, int, ...) comes from the attribute itself when it was read from a
file, else from the catalogue's declaration of the operator, else from its IR type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.ge.proto import ge_ir_pb2 as pb

KIND: Final = "om.kind"  # key in Attr.meta: the kind the attribute had in the file
_T: Final = ir.AttributeType
_L: Final = pb.AttrDef.ListValue
MAX_TENSOR_BYTES: Final = 1 << 31


def encode(node: ir.Node, into: Any) -> None:
    """Write all attributes of ``node`` except graphs into the AttrDef map ``into``."""
    spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
    kinds: Mapping[str, str] = spec.attrs if spec is not None else {}
    for attribute in node.attributes.values():
        if attribute.type not in (_T.GRAPH, _T.GRAPHS):
            kind = attribute.meta.get(KIND) or kinds.get(attribute.name, "")
            _encode_one(attribute, kind, into[attribute.name])


def _encode_one(attribute: ir.Attr, kind: str, out: pb.AttrDef) -> None:
    value: Any = attribute.value
    match attribute.type:
        case _T.INT if kind == "bool":
            out.b = bool(value)
        case _T.INT if kind == "dtype":
            out.dt = dtypes.of_ir(ir.DataType(value)).acl
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
        case _:
            out.expression = f"{attribute.type.name} attributes are not stored"


def tensor(value: ir.TensorProtocol, out: pb.TensorDef) -> None:
    """Store a small tensor inline."""
    row = dtypes.of_ir(value.dtype)
    out.desc.dtype = row.proto  # type: ignore[assignment]
    out.desc.shape.dim.extend(int(d) for d in value.shape.numpy())
    out.desc.layout = "ND"
    if value.dtype == ir.DataType.STRING:
        out.data = b"\0".join(_bytes(v) for v in np.asarray(value.numpy()).ravel())
    else:
        out.data = np.ascontiguousarray(value.numpy()).tobytes()


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
            array = _inline(value.t)
            return None if array is None else (ir.AttrTensor(name, array), "")
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


def _inline(value: pb.TensorDef) -> ir.TensorProtocol | None:
    row = dtypes.of_proto(value.desc.dtype)
    if row is None or row.ir is None:
        return None
    shape = tuple(value.desc.shape.dim)
    if row.ir == ir.DataType.STRING:
        texts = value.data.split(b"\0") if value.data else []
        return ir.StringTensor(texts, shape=ir.Shape([len(texts)])) if len(shape) == 1 else None
    if any(d < 0 for d in shape) or row.numpy is None:
        return None
    count = 1
    for d in shape:
        count *= d
    array = np.frombuffer(value.data, dtype=row.numpy) if len(value.data) < MAX_TENSOR_BYTES else None
    if array is None or array.size != count:
        return None
    return ir.Tensor(array.reshape(shape), dtype=row.ir)


def python_value(value: pb.AttrDef) -> Any:
    """AttrDef as plain Python data, for reports and JSON."""
    match value.WhichOneof("value"):
        case "s" | "bt" as field:
            return getattr(value, field).decode("utf-8", "replace")
        case "i" | "f" | "b" | "dt" | "expression" as field:
            return getattr(value, field)
        case "list":
            for field in ("s", "i", "f", "b", "bt", "dt"):
                items = list(getattr(value.list, field))
                if items:
                    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in items]
            return []
        case "list_list_int":
            return [list(row.list_i) for row in value.list_list_int.list_list_i]
        case None:
            return None
        case field:
            return f"<{field}>"
