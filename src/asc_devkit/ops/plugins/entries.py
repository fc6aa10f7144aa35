"""A declared operator as entries of the catalogue: conversion both ways, facts, shape inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import PLUGIN_ATTR, PLUGIN_DOMAIN, Emit, GeOp, OnnxOp, newer_opset
from asc_devkit.ops.declare import outputs_of
from asc_devkit.ops.infer.view import NodeView, Unknown, dims_of
from asc_devkit.ops.plugins import faults
from asc_devkit.ops.plugins.declare import REQUIRED, CustomOperator, DeclarationError, TensorType

#: Attributes of the lowered node carry this prefix: the evaluator turns them into Python attributes of an object.
PREFIX: Final = "attr_"

_declared: dict[str, CustomOperator] = {}


def custom(ge_type: str) -> CustomOperator | None:
    """The operator that a plugin declared under that GE type."""
    return _declared.get(ge_type)


def custom_onnx(domain: str, op_type: str) -> CustomOperator | None:
    """The operator that a plugin declared under that ONNX name."""
    entry = registry.lookup_onnx(op_type, domain)
    return None if entry is None or len(entry.ge_types) != 1 else _declared.get(entry.ge_types[0])


def standardise(model: ir.Model) -> set[str]:
    """Turn every custom node of an ONNX model into the lowered form (as ``_lower`` makes it), in place.

    Returns the names of the top-level nodes that are, or hold, one.
    """
    found: set[str] = set()
    for top in model.graph:
        bodies = [a.as_graph() for a in top.attributes.values() if a.type == ir.AttributeType.GRAPH]
        for node in (top, *(inner for body in bodies for inner in body.all_nodes())):
            op = custom_onnx(node.domain, node.op_type)
            if op is None:
                continue
            given = list(node.attributes.values())
            node.attributes.clear()
            for attribute in given:
                name = f"{PREFIX}{attribute.name}"
                node.attributes[name] = ir.Attr(name, attribute.type, attribute.value)
            node.domain, node.op_type = PLUGIN_DOMAIN, op.ge_type
            found.add(top.name or "")
    if found:
        model.graph.opset_imports[PLUGIN_DOMAIN] = 1
    return found


def all_custom() -> list[CustomOperator]:
    """All operators of plugins, by GE type."""
    return [_declared[name] for name in sorted(_declared)]


def register(op: CustomOperator) -> None:
    """Add ``op`` to the catalogue. Raises ``DeclarationError`` when its names are taken."""
    if op.domain in (GE_DOMAIN, PLUGIN_DOMAIN) or newer_opset(op.domain) is not None:
        raise DeclarationError(f"the domain {op.domain!r} is the toolkit's own; use another")
    if registry.lookup_onnx(op.name, op.domain) is not None:
        raise DeclarationError(f"{op.onnx_name} is in the catalogue already; a plugin cannot replace it")
    if registry.lookup(op.ge_type) is not None:
        raise DeclarationError(
            f"the GE operator {op.ge_type} is in the catalogue already; give this one another type with ge='...'"
        )
    registry.add_ge(
        GeOp(
            op.ge_type,
            tuple(f"{port.name}*" if port.variadic else port.name for port in op.inputs),
            op.outputs,
            lambda e: _lower(op, e),
            attrs={**{name: a.kind for name, a in op.attrs.items()}, PLUGIN_ATTR: "str"},
            defaults={name: a.default for name, a in op.attrs.items() if a.default is not REQUIRED},
            engine=op.engine,
            cost=op.cost,
            mix=op.mix,
            floats={"*": op.floats},
            exact=op.exact,
            bounds=op.bounds,
            source=f"plugin {Path(op.file).name}",
            plugin=op.file,
            flops=None if op.flops is None else lambda node: _flops(op, node),
        )
    )
    registry.add_onnx(OnnxOp(op.name, lambda e: _raise(op, e), (op.ge_type,), domain=op.domain))
    registry.add_infer(op.name, op.domain, lambda view: _infer(op, view))
    _declared[op.ge_type] = op


def withdraw(op: CustomOperator) -> None:
    """Take ``op`` out of the catalogue."""
    if _declared.get(op.ge_type) is op:
        del _declared[op.ge_type]
        registry.remove(op.ge_type, op.name, op.domain)


def _raise(op: CustomOperator, e: Emit) -> Sequence[ir.Value]:
    """The node as a GE node of the declared type."""
    place = f"{Path(op.file).name}, line {op.line}"
    given = {name: e.attr(name) for name in e.node.attributes}
    strange = sorted(set(given) - set(op.attrs))
    if strange:
        raise e.reject(f"its plugin declares no attribute {', '.join(strange)}", f"Add it to attrs ({place}).")
    missing = [n for n, a in op.attrs.items() if a.default is REQUIRED and n not in given]
    if missing:
        raise e.reject(f"it lacks the attribute {', '.join(missing)}", f"Give it a default in attrs ({place}).")
    least = sum(not (port.optional or port.variadic) for port in op.inputs)
    most = len(op.inputs) if not any(port.variadic for port in op.inputs) else None
    count = len(e.inputs)
    if count < least or (most is not None and count > most) or len(e.node.outputs) > len(op.outputs):
        raise e.reject(
            f"it has {count} inputs and {len(e.node.outputs)} outputs, its plugin declares others",
            f"Correct inputs and outputs ({place}).",
        )
    label = {PLUGIN_ATTR: Path(op.file).name}
    return outputs_of(e.op(op.ge_type, e.inputs, {**given, **label}, len(e.node.outputs)))


def _lower(op: CustomOperator, e: Emit) -> Sequence[ir.Value]:
    """A node that only the plugin's function can compute."""
    attrs = {f"{PREFIX}{name}": e.attr(name) for name in op.attrs}
    made = e.op(op.ge_type, e.inputs, attrs, len(e.node.outputs))
    node = made.producer()
    assert node is not None
    node.domain = PLUGIN_DOMAIN
    return node.outputs


def _types(node: ir.Node) -> list[TensorType | None] | None:
    """Types of the inputs; None when one is not known."""
    made: list[TensorType | None] = []
    for value in node.inputs:
        if value is None:
            made.append(None)
            continue
        dims = dims_of(value)
        if dims is None or value.dtype is None or not all(isinstance(d, int) for d in dims):
            return None
        made.append(TensorType(dims, value.dtype.numpy()))  # type: ignore[arg-type]
    return made


def _attributes(op: CustomOperator, node: ir.Node) -> dict[str, Any] | None:
    given = {name: attribute.value for name, attribute in node.attributes.items() if name in op.attrs}
    if any(a.default is REQUIRED and name not in given for name, a in op.attrs.items()):
        return None
    return op.attributes(given)


def _infer(op: CustomOperator, view: NodeView) -> None:
    inputs, attrs = _types(view.node), _attributes(op, view.node)
    if inputs is None or attrs is None:
        raise Unknown
    with faults.reported(op, view.node.name or "", "its shape inference"):
        found = op.output_types(inputs, attrs)
    for index, made in enumerate(found):
        view.out(ir.DataType.from_numpy(np.dtype(made.dtype)), made.shape, index)


def _flops(op: CustomOperator, node: ir.Node) -> float:
    inputs, attrs = _types(node), _attributes(op, node)
    if inputs is None or attrs is None or op.flops is None:
        return 0.0
    with faults.reported(op, node.name or "", "its flops"):
        return float(op.flops(*inputs, **attrs))
