"""Normalisations and softmax spelled out in elementary operators."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import along_axis, clip_range, closed, is_float, plus_constant, reduced_axes


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


class ReduceMeanFusion(NodePass):
    """sum(x) * (1/n) or / n over n elements -> ReduceMean(x)."""

    name = "ReduceMeanFusionPass"
    own = True
    ops = ("Mul", "Div")
    numerics = "the division is rounded once"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position in (0, 1) if node.op_type == "Mul" else (0,):
            total = ed.sole_producer(node.inputs[position], "ReduceSum")
            number = ed.scalar(node.inputs[1 - position])
            if total is None or number is None or not is_float(node.outputs[0]):
                continue
            axes, dims = reduced_axes(total, ed), ed.dims(total.inputs[0])
            if axes is None or dims is None or ed.dims(total.outputs[0]) != ed.dims(node.outputs[0]):
                return Outcome.NONE
            count = math.prod(dims[a] for a in axes)
            factor = number if node.op_type == "Mul" else (1 / number if number else 0.0)
            if not count or abs(factor * count - 1) > 1e-6:
                return Outcome.NONE
            made = ed.op("ReduceMean", list(total.inputs), dict(total.attributes), name=total.name or "")
            ed.replace(node.outputs[0], made)
            return Outcome.CHANGED
        return Outcome.NONE


class MomentsLayerNormFusion(NodePass):
    """x * r + (b - mean(x) * r), r = g / sqrt(mean((x - mean(x))^2) + eps), last axis -> LayerNormalization(x, g, b)."""

    name = "LayerNormFusionPass"
    ops = ("Add",)
    numerics = "mean and variance are summed in another order"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for scaled, shifted in (node.inputs, node.inputs[::-1]):
            left, right = ed.sole_producer(scaled, "Mul"), ed.sole_producer(shifted, "Sub")
            product = None if right is None else ed.sole_producer(right.inputs[1], "Mul")
            if left is None or right is None or product is None or not is_float(node.outputs[0]):
                continue
            rate = next((v for v in left.inputs if v in product.inputs and v is not None), None)
            if rate is None:
                continue
            x, mean = _other(left, rate), _other(product, rate)
            done = self._match(node, x, mean, rate, [left, right, product], ed)
            if done is not Outcome.NONE:
                return done
        return Outcome.NONE

    @staticmethod
    def _match(
        node: ir.Node, x: ir.Value | None, mean: ir.Value | None, rate: ir.Value, nodes: list[ir.Node], ed: Editor
    ) -> Outcome:
        right, scale = nodes[1], ed.producer(rate, "Mul")
        average = ed.producer(mean, "ReduceMean")
        dims = ed.dims(x)
        if average is None or average.inputs[0] is not x or x is None or dims is None or not dims:
            return Outcome.NONE
        root, gamma = (rate, None) if scale is None else (scale.inputs[0], scale.inputs[1])
        if scale is not None and ed.is_const(root):
            root, gamma = gamma, root
        inverse = ed.producer(root, "Reciprocal")
        sqrt = None if inverse is None else ed.producer(inverse.inputs[0], "Sqrt")
        line = None if sqrt is None else plus_constant(sqrt.inputs[0], ed)
        square = None if line is None else mean_square(line[0], ed)
        if inverse is None or sqrt is None or line is None or square is None:
            return Outcome.NONE
        centred = ed.producer(square[0], "Sub")
        if centred is None or list(centred.inputs) != [x, mean]:
            return Outcome.NONE
        g, b = (np.ones(1, np.float32) if gamma is None else ed.const(gamma)), ed.const(right.inputs[0])
        axes = [len(dims) - 1]
        if reduced_axes(average, ed) != axes or square[1] != axes or g is None or b is None:
            return Outcome.MATCHED
        rows = [along_axis(a, dims[-1], len(dims), len(dims) - 1) for a in (g, b)]
        inner = [*nodes, average, inverse, sqrt, line[2], *square[2], centred, *([scale] if scale is not None else [])]
        if rows[0] is None or rows[1] is None or not closed(inner, node):
            return Outcome.MATCHED
        assert x.dtype is not None
        dtype = x.dtype.numpy()
        inputs: list[ir.Value | Array] = [x, rows[0].astype(dtype), rows[1].astype(dtype)]
        attrs = {"axis": -1, "epsilon": line[1]}
        ed.replace(node.outputs[0], ed.op("LayerNormalization", inputs, attrs, name=node.name or ""))
        return Outcome.CHANGED


def _other(node: ir.Node, value: ir.Value) -> ir.Value | None:
    """The factor of a Mul that is not ``value``."""
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


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
