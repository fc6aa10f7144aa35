"""Activation functions spelled out in elementary operators."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.patterns import clip_range, close, closed, is_float, plus_constant, product, product_of


class HardSigmoidFusion(NodePass):
    """clip(a x + b, 0, m) / m -> HardSigmoid(alpha = a/m, beta = b/m); usually clip(x + 3, 0, 6) / 6."""

    name = "HardSigmoidFusionPass"
    own = True
    ops = ("Mul", "Div")
    numerics = "x/6 + 1/2 instead of (x + 3)/6: one rounding less"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        out = node.outputs[0]
        if not is_float(out):
            return Outcome.NONE
        found = product(node, ed)
        if len(found.factors) != 1 or found.factors[0] is out:
            return Outcome.NONE
        clip = ed.sole_producer(found.factors[0], "Clip")
        if clip is None:
            return Outcome.NONE
        low_high = clip_range(clip, ed)
        if low_high is None or low_high[0] != 0 or not math.isfinite(low_high[1]) or low_high[1] <= 0:
            return Outcome.NONE
        if not close(found.coefficient, 1.0 / low_high[1], out):
            return Outcome.NONE
        line = plus_constant(clip.inputs[0], ed)
        if line is None or not closed((clip, line[2], *found.nodes), node):
            return Outcome.MATCHED
        x, shift, _ = line
        attrs = {"alpha": 1.0 / low_high[1], "beta": shift / low_high[1]}
        ed.replace(out, ed.op("HardSigmoid", [x], attrs, name=node.name or ""))
        return Outcome.CHANGED


class HardSwishFusion(NodePass):
    """x * clip(x + 3, 0, 6) / 6, in any order, or x * HardSigmoid(x, 1/6, 1/2) -> HardSwish(x)."""

    name = "HardSwishFusionPass"
    own = True
    ops = ("Mul", "Div")
    numerics = "reordered products"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        out = node.outputs[0]
        if not is_float(out):
            return Outcome.NONE
        found = product(node, ed)
        if len(found.factors) != 2:
            return Outcome.NONE
        for gate, x in (found.factors, found.factors[::-1]):
            inner = self._gate(gate, x, found.coefficient, ed)
            if inner is None:
                continue
            if not closed((*inner, *found.nodes), node):
                return Outcome.MATCHED
            ed.replace(out, ed.op("HardSwish", [x], name=node.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE

    @staticmethod
    def _gate(gate: ir.Value, x: ir.Value, coefficient: float, ed: Editor) -> tuple[ir.Node, ...] | None:
        """Nodes of the gate when it is the one of hard swish of x."""
        node = ed.producer(gate, "HardSigmoid", "Clip")
        if node is None:
            return None
        if node.op_type == "HardSigmoid":
            alpha, beta = ed.attr(node, "alpha", 0.2), ed.attr(node, "beta", 0.5)
            fits = close(coefficient, 1.0, x) and close(alpha, 1 / 6, x) and close(beta, 0.5, x)
            return (node,) if fits and node.inputs[0] is x else None
        line = plus_constant(node.inputs[0], ed)
        if line is None or line[0] is not x or line[1] != 3.0 or clip_range(node, ed) != (0.0, 6.0):
            return None
        return (node, line[2]) if close(coefficient, 1 / 6, x) else None


class GeluFusion(NodePass):
    """x/2 * (1 + erf(x / sqrt 2)) -> Gelu(x); x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) -> Gelu(x, tanh)."""

    name = "GeluFusionPass"
    ops = ("Mul", "Div")
    numerics = "reordered products"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        out = node.outputs[0]
        if not is_float(out):
            return Outcome.NONE
        found = product(node, ed)
        if len(found.factors) != 2 or not close(found.coefficient, 0.5, out):
            return Outcome.NONE
        for gate, x in (found.factors, found.factors[::-1]):
            line = plus_constant(gate, ed)
            if line is None or line[1] != 1.0:
                continue
            curve = ed.producer(line[0], "Erf", "Tanh")
            if curve is None or curve.inputs[0] is None:
                continue
            matches = self._erf if curve.op_type == "Erf" else self._tanh
            inner = matches(curve.inputs[0], x, ed)
            if inner is None:
                continue
            if not closed((curve, line[2], *inner, *found.nodes), node):
                return Outcome.MATCHED
            attrs = {} if curve.op_type == "Erf" else {"approximate": "tanh"}
            ed.replace(out, ed.op("Gelu", [x], attrs, name=node.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE

    @staticmethod
    def _erf(value: ir.Value, x: ir.Value, ed: Editor) -> tuple[ir.Node, ...] | None:
        found = product_of(value, ed)
        return found.nodes if found.factors == (x,) and close(found.coefficient, math.sqrt(0.5), x) else None

    @staticmethod
    def _tanh(value: ir.Value, x: ir.Value, ed: Editor) -> tuple[ir.Node, ...] | None:
        outer = product_of(value, ed)
        if not close(outer.coefficient, math.sqrt(2 / math.pi), x):
            return None
        if len(outer.factors) == 1:  # x + 0.044715 x^3
            total = ed.producer(outer.factors[0], "Add")
            if total is None or x not in total.inputs:
                return None
            cubic = total.inputs[1] if total.inputs[0] is x else total.inputs[0]
            found = None if cubic is None else product_of(cubic, ed)
            if found is None or found.factors != (x, x, x) or not close(found.coefficient, 0.044715, x):
                return None
            return (*outer.nodes, total, *found.nodes)
        if len(outer.factors) == 2 and x in outer.factors:  # x * (1 + 0.044715 x^2)
            line = plus_constant(outer.factors[1] if outer.factors[0] is x else outer.factors[0], ed)
            if line is None or line[1] != 1.0:
                return None
            found = product_of(line[0], ed)
            if found.factors != (x, x) or not close(found.coefficient, 0.044715, x):
                return None
            return (*outer.nodes, line[2], *found.nodes)
        return None


class SoftplusFusion(NodePass):
    """log(exp(x) + 1) -> Softplus(x)."""

    name = "SoftplusFusionPass"
    own = True
    ops = ("Log",)
    numerics = "no overflow for large x"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        line = plus_constant(node.inputs[0], ed)
        if line is None or line[1] != 1.0 or not is_float(node.outputs[0]):
            return Outcome.NONE
        exp = ed.producer(line[0], "Exp")
        if exp is None:
            return Outcome.NONE
        if not closed((exp, line[2]), node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], ed.op("Softplus", [exp.inputs[0]], name=node.name or ""))
        return Outcome.CHANGED


class MishFusion(NodePass):
    """x * tanh(softplus(x)) -> Mish(x)."""

    name = "MishFusionPass"
    own = True
    ops = ("Mul",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for gate, x in (node.inputs, node.inputs[::-1]):
            tanh = ed.producer(gate, "Tanh")
            soft = None if tanh is None else ed.producer(tanh.inputs[0], "Softplus")
            if tanh is None or soft is None or soft.inputs[0] is not x or not is_float(x):
                continue
            if not closed((tanh, soft), node):
                return Outcome.MATCHED
            ed.replace(node.outputs[0], ed.op("Mish", [x], name=node.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE


class ClipFusion(NodePass):
    """Max(x, c), Min(x, c) -> Clip(x); a chain of Clip and Relu -> one of them with the intersection of the ranges."""

    name = "ClipFusionPass"
    own = True
    ops = ("Max", "Min", "Clip", "Relu")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if not is_float(node.outputs[0]):
            return Outcome.NONE
        if node.op_type in ("Max", "Min"):
            return self._bound(node, ed)
        inner = ed.sole_producer(node.inputs[0], "Clip", "Relu")
        outer_range = clip_range(node, ed)
        if inner is None or outer_range is None:
            return Outcome.NONE
        inner_range = clip_range(inner, ed)
        if inner_range is None or inner_range[0] > inner_range[1] or outer_range[0] > outer_range[1]:
            return Outcome.MATCHED
        low = min(max(inner_range[0], outer_range[0]), outer_range[1])
        high = max(min(inner_range[1], outer_range[1]), outer_range[0])
        if inner.inputs[0] is None or inner.inputs[0].dtype is None or not ed.dominates(inner.inputs[0], node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], _clip(ed, inner.inputs[0], low, high, node))
        return Outcome.CHANGED

    @staticmethod
    def _bound(node: ir.Node, ed: Editor) -> Outcome:
        if len(node.inputs) != 2:
            return Outcome.NONE
        for i in (0, 1):
            bound, x = ed.scalar(node.inputs[i]), node.inputs[1 - i]
            if bound is None or x is None or ed.is_const(x) or ed.dims(x) != ed.dims(node.outputs[0]):
                continue
            if math.isnan(bound) or ed.dims(x) is None or x.dtype is None:
                return Outcome.MATCHED
            inf = float("inf")
            low, high = (bound, inf) if node.op_type == "Max" else (-inf, bound)
            ed.replace(node.outputs[0], _clip(ed, x, low, high, node))
            return Outcome.CHANGED
        return Outcome.NONE


def _clip(ed: Editor, x: ir.Value, low: float, high: float, node: ir.Node) -> ir.Value:
    """Clip of x; Relu where it is one."""
    name = node.name or ""
    if low == 0 and high == float("inf"):
        return ed.op("Relu", [x], name=name)
    assert x.dtype is not None
    dtype = x.dtype.numpy()
    bounds = [None if math.isinf(b) else np.array(b, dtype=dtype) for b in (low, high)]
    return ed.op("Clip", [x, *bounds] if bounds[1] is not None else [x, bounds[0]], name=name)
