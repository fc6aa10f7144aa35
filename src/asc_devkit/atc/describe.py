"""A compiled operator as plain data: types, shapes, formats, engine, attributes, members. For debug_dir and reports."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from asc_devkit.ge.desc import DESC, ENGINE, IMPL_MODE, MEMBERS, ORIGIN_OPS, PASSES, Engine, TensorDesc


def describe(node: ir.Node) -> dict[str, Any]:
    """JSON-able description of one GE (or host) operator; constant inputs are described, not dumped."""
    engine = node.meta.get(ENGINE)
    made: dict[str, Any] = {
        "name": node.name,
        "type": node.op_type,
        "engine": engine.value if isinstance(engine, Engine) else None,
        "impl_mode": node.meta.get(IMPL_MODE),
        "origin_ops": [{"name": name, "type": kind} for name, kind in node.meta.get(ORIGIN_OPS, ())],
        "passes": list(node.meta.get(PASSES, ())),
        "inputs": [None if v is None else tensor(v) for v in node.inputs],
        "outputs": [tensor(v) for v in node.outputs],
        "attributes": {
            a.name: a.value for a in node.attributes.values() if isinstance(a.value, (int, float, str, list, tuple))
        },
    }
    if MEMBERS in node.attributes:
        made["members"] = [describe(member) for member in node.attributes[MEMBERS].as_graph()]
    return made


def tensor(value: ir.Value) -> dict[str, Any]:
    """Name, dtype, shape, device format and storage shape of a value."""
    desc = value.meta.get(DESC)
    return {
        "name": value.name,
        "dtype": None if value.dtype is None else value.dtype.name,
        "shape": None if value.shape is None else [d if isinstance(d, int) else str(d) for d in value.shape],
        "constant": value.const_value is not None,
        "format": desc.format if isinstance(desc, TensorDesc) else None,
        "storage_shape": list(desc.storage_shape) if isinstance(desc, TensorDesc) else None,
    }
