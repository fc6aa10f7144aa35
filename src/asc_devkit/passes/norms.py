"""Normalisations and softmax spelled out in elementary operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import clip_range, closed, is_float, plus_constant, reduced_axes


def square_of(value: ir.Value | None, ed: Editor) -> tuple[ir.Value, ir.Node] | None:
    """(x, node) when ``value`` is x * x or x ** 2."""
    node = ed.producer(value, "Mul", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    if node.op_type == "Mul":
        return (node.inputs[0], node) if node.inputs[0] is node.inputs[1] else None
    return (node.inputs[0], node) if ed.scalar(node.inputs[1]) == 2.0 else None


def mean_square(value: ir.Value | None, ed: Editor) -> tuple[ir.Value, list[int], list[ir.Node]] | None:
    """(x, axes, nodes) when ``value`` is the mean of x^2 over the trailing axes, kept."""
    node = ed.producer(value, "ReduceMean")
    if node is None or not ed.attr(node, "keepdims", 1):
        return None
    square, axes, rank = square_of(node.inputs[0], ed), reduced_axes(node, ed), ed.rank(node.inputs[0])
    if square is None or axes is None or rank is None or axes != list(range(axes[0], rank)):
        return None
    return square[0], axes, [node, square[1]]


def over_root(node: ir.Node, ed: Editor) -> tuple[ir.Value, ir.Value, float, list[ir.Node]] | None:
    """(d, v, eps, nodes) when a Div or Mul node computes d / sqrt(v + eps) in one of its spellings."""
    a, b = node.inputs[0], node.inputs[1]
    sides: list[tuple[ir.Value | None, ir.Value | None, list[ir.Node]]] = []
    if node.op_type == "Div":
        sides.append((a, b, []))
    else:
        for d, r in ((a, b), (b, a)):
            inverse = ed.producer(r, "Reciprocal", "Div")
            if inverse is None:
                continue
            if inverse.op_type == "Reciprocal":
                sides.append((d, inverse.inputs[0], [inverse]))
            elif ed.scalar(inverse.inputs[0]) == 1.0:
                sides.append((d, inverse.inputs[1], [inverse]))
    for d, root, nodes in sides:
        sqrt = ed.producer(root, "Sqrt", "Pow")
        if d is None or sqrt is None or (sqrt.op_type == "Pow" and ed.scalar(sqrt.inputs[1]) != 0.5):
            continue
        line = plus_constant(sqrt.inputs[0], ed)
        if line is not None and line[1] >= 0:
            return d, line[0], line[1], [*nodes, sqrt, line[2]]
    return None


class LayerNormONNXFusion(NodePass):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) over trailing axes -> LayerNormalization(x, 1)."""

    name = "LayerNormONNXFusionPass"
    ops = ("Div", "Mul")
    numerics = "mean and variance are summed in another order"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if not is_float(node.outputs[0]):
            return Outcome.NONE
        found = over_root(node, ed)
        if found is None:
            return Outcome.NONE
        centred, variance, eps, nodes = found
        square = mean_square(variance, ed)
        if square is None:
            return Outcome.NONE
        inner_centred, axes, square_nodes = square
        subtract, other = ed.producer(centred, "Sub"), ed.producer(inner_centred, "Sub")
        if subtract is None or other is None or list(subtract.inputs) != list(other.inputs):
            return Outcome.NONE
        x = subtract.inputs[0]
        mean = ed.producer(subtract.inputs[1], "ReduceMean")
        if x is None or mean is None or mean.inputs[0] is not x or not ed.attr(mean, "keepdims", 1):
            return Outcome.NONE
        dims = ed.dims(x)
        if reduced_axes(mean, ed) != axes or dims is None:
            return Outcome.MATCHED
        if not closed((*nodes, *square_nodes, subtract, other, mean), node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], _normalise("LayerNormalization", x, dims, axes[0], eps, node, ed))
        return Outcome.CHANGED


class RmsNormFusion(NodePass):
    """x / sqrt(mean(x^2) + eps) over trailing axes -> RMSNormalization(x, 1)."""

    name = "RmsNormFusionPass"
    own = True
    ops = ("Div", "Mul")
    numerics = "the mean square is summed in another order"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if not is_float(node.outputs[0]):
            return Outcome.NONE
        found = over_root(node, ed)
        if found is None:
            return Outcome.NONE
        x, variance, eps, nodes = found
        square = mean_square(variance, ed)
        dims = ed.dims(x)
        if square is None or square[0] is not x or dims is None:
            return Outcome.NONE
        if not closed((*nodes, *square[2]), node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], _normalise("RMSNormalization", x, dims, square[1][0], eps, node, ed))
        return Outcome.CHANGED


def _normalise(
    op_type: str, x: ir.Value, dims: tuple[int, ...], axis: int, eps: float, node: ir.Node, ed: Editor
) -> ir.Value:
    assert x.dtype is not None
    scale = np.ones(dims[axis:], dtype=x.dtype.numpy())
    return ed.op(op_type, [x, scale], {"axis": axis - len(dims), "epsilon": eps}, name=node.name or "")


class LayerNormAffineFusion(NodePass):
    """LayerNormalization(x, s, b) * g + c -> LayerNormalization(x, s g, b g + c); RMSNormalization takes g only."""

    name = "LayerNormFusionPass"
    ops = ("Mul", "Add")
    numerics = "products of constants are rounded once more"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position in (0, 1):
            kinds = ("LayerNormalization", "RMSNormalization") if node.op_type == "Mul" else ("LayerNormalization",)
            norm = ed.sole_producer(node.inputs[position], *kinds)
            other = node.inputs[1 - position]
            if norm is None or other is None or len(norm.outputs) > 1:
                continue
            arrays = self._combined(node.op_type, norm, other, ed)
            if arrays is None or ed.dims(node.outputs[0]) != ed.dims(norm.outputs[0]):
                return Outcome.MATCHED
            inputs = [norm.inputs[0], *arrays]
            ed.replace(node.outputs[0], ed.op(norm.op_type, inputs, dict(norm.attributes), name=norm.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE

    @staticmethod
    def _combined(kind: str, norm: ir.Node, other: ir.Value, ed: Editor) -> list[Array | ir.Value] | None:
        """Scale (and bias) after the constant or vector ``other`` is applied."""
        scale, bias = ed.const(norm.inputs[1]), ed.const(ed.input(norm, 2))
        if scale is None or (ed.input(norm, 2) is not None and bias is None):
            return None
        array = ed.const(other)
        if array is None:
            fits = ed.dims(other) == scale.shape and kind == "Mul" and bias is None and bool((scale == 1).all())
            return [other] if fits else None
        excess = max(array.ndim - scale.ndim, 0)
        if any(d != 1 for d in array.shape[:excess]):
            return None
        try:
            vector = np.broadcast_to(array.reshape(array.shape[excess:]), scale.shape)
        except ValueError:
            return None
        if kind == "Mul":
            return [scale * vector] if bias is None else [scale * vector, bias * vector]
        return [scale, np.array(vector) if bias is None else bias + vector]


class NormalizeFusion(NodePass):
    """x / max(|x|, eps) with the L2 norm over one axis and a tiny eps -> LpNormalization(x, p = 2)."""

    name = "NormalizeFusionPass"
    ops = ("Div",)
    numerics = "rows shorter than eps (at most 1e-10) are normalised instead of divided by eps"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        x, divisor = node.inputs[0], node.inputs[1]
        if not is_float(x) or x is None:
            return Outcome.NONE
        nodes: list[ir.Node] = []
        expand = ed.producer(divisor, "Expand")
        if expand is not None:
            nodes.append(expand)
            divisor = expand.inputs[0]
        clip = ed.producer(divisor, "Clip")
        if clip is None:
            return Outcome.NONE
        bounds = clip_range(clip, ed)
        if bounds is None or not 0 <= bounds[0] <= 1e-10 or bounds[1] != float("inf"):
            return Outcome.NONE
        norm = ed.producer(clip.inputs[0], "ReduceL2")
        if norm is None or norm.inputs[0] is not x or not ed.attr(norm, "keepdims", 1):
            return Outcome.NONE
        axes = reduced_axes(norm, ed)
        if axes is None or len(axes) != 1 or not closed((*nodes, clip, norm), node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], ed.op("LpNormalization", [x], {"axis": axes[0], "p": 2}, name=node.name or ""))
        return Outcome.CHANGED


class ReduceL2Fusion(NodePass):
    """sqrt(sum(x^2)) -> ReduceL2(x)."""

    name = "ReduceL2FusionPass"
    own = True
    ops = ("Sqrt",)
    numerics = "none beyond the order of the sum"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        total = ed.producer(node.inputs[0], "ReduceSum")
        square = None if total is None else square_of(total.inputs[0], ed)
        if total is None or square is None or not is_float(node.outputs[0]):
            return Outcome.NONE
        if not closed((total, square[1]), node):
            return Outcome.MATCHED
        inputs = [square[0], ed.input(total, 1)] if ed.input(total, 1) is not None else [square[0]]
        ed.replace(node.outputs[0], ed.op("ReduceL2", inputs, dict(total.attributes), name=node.name or ""))
        return Outcome.CHANGED


class SoftmaxFusion(NodePass):
    """exp(x - max(x)) / sum(exp(x - max(x))) over one axis, with or without the max -> Softmax(x)."""

    name = "SoftmaxFusionPass"
    ops = ("Div",)
    numerics = "without the subtraction in the model, large inputs no longer overflow"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        exp, total = ed.producer(node.inputs[0], "Exp"), ed.producer(node.inputs[1], "ReduceSum")
        if exp is None or total is None or total.inputs[0] is not exp.outputs[0] or not ed.attr(total, "keepdims", 1):
            return Outcome.NONE
        axes, rank = reduced_axes(total, ed), ed.rank(exp.inputs[0])
        if axes is None or len(axes) != 1 or rank is None or not is_float(node.outputs[0]):
            return Outcome.MATCHED
        x, nodes = exp.inputs[0], [exp, total]
        shift = ed.producer(x, "Sub")
        top = None if shift is None else ed.producer(shift.inputs[1], "ReduceMax")
        if shift is not None and top is not None and top.inputs[0] is shift.inputs[0]:
            fits = reduced_axes(top, ed) == axes and ed.attr(top, "keepdims", 1)
            x, nodes = (shift.inputs[0], [*nodes, shift, top]) if fits else (x, nodes)
        if not closed(nodes, node):
            return Outcome.MATCHED
        ed.replace(node.outputs[0], ed.op("Softmax", [x], {"axis": axes[0]}, name=node.name or ""))
        return Outcome.CHANGED


class Globalavgpool(NodePass):
    """ReduceMean over height and width of a 4-D tensor, kept -> GlobalAveragePool."""

    name = "Globalavgpoolpass"
    ops = ("ReduceMean",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if ed.rank(node.inputs[0]) != 4 or not ed.attr(node, "keepdims", 1) or not is_float(node.inputs[0]):
            return Outcome.NONE
        if reduced_axes(node, ed) != [2, 3]:
            return Outcome.NONE
        ed.replace(node.outputs[0], ed.op("GlobalAveragePool", [node.inputs[0]], name=node.name or ""))
        return Outcome.CHANGED
