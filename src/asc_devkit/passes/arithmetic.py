"""Chains of additions or multiplications with constants."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import is_float

_MAX_ELEMENTS = 1 << 20


class ConstChainFusion(NodePass):
    """(x + a) + b -> x + (a + b), with Sub as well; (x * a) * b -> x * (a b), with Div as well."""

    name = "ConstChainFusionPass"
    own = True
    ops = ("Add", "Sub", "Mul", "Div")
    numerics = "the constants are combined first (in float64)"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        outer = _split(node, ed)
        if outer is None or not is_float(node.outputs[0]):
            return Outcome.NONE
        additive = node.op_type in ("Add", "Sub")
        inner_node = ed.sole_producer(outer[0], *(("Add", "Sub") if additive else ("Mul", "Div")))
        inner = None if inner_node is None else _split(inner_node, ed)
        if inner is None or not ed.dominates(inner[0], node):
            return Outcome.NONE
        # outer: s1 * y + c1 (or y * c1), inner: s2 * x + c2
        x, s2, c2 = inner
        _, s1, c1 = outer
        combined = c1 + s1 * c2 if additive else c1 * c2
        if combined.size > max(c1.size, c2.size) or not np.all(np.isfinite(combined)):
            return Outcome.MATCHED
        if ed.dims(node.outputs[0]) is None:
            return Outcome.MATCHED
        sign = s1 * s2
        assert x.dtype is not None
        constant = combined.astype(x.dtype.numpy())
        if not np.all(np.isfinite(constant)):
            return Outcome.MATCHED
        kind = ("Add" if sign > 0 else "Sub") if additive else "Mul"
        inputs: list[ir.Value | Array] = [constant, x] if kind == "Sub" else [x, constant]
        ed.replace(node.outputs[0], ed.op(kind, inputs, name=node.name or ""))
        return Outcome.CHANGED


def _split(node: ir.Node, ed: Editor) -> tuple[ir.Value, int, Array] | None:
    """(x, sign, c) of sign * x + c for Add and Sub, (x, 1, c) of x * c for Mul and Div; c in float64."""
    a, b = node.inputs[0], node.inputs[1]
    if a is None or b is None:
        return None
    left, right = ed.is_const(a), ed.is_const(b)
    if left == right:
        return None
    x, constant = (b, a) if left else (a, b)
    if constant.const_value is None or constant.const_value.size > _MAX_ELEMENTS:
        return None
    array = ed.const(constant)
    assert array is not None
    wide = array.astype(np.float64)
    if node.op_type == "Add" or node.op_type == "Mul":
        return x, 1, wide
    if node.op_type == "Sub":
        return (x, -1, wide) if left else (x, 1, -wide)
    return None if left or not np.all(wide) else (x, 1, 1.0 / wide)
