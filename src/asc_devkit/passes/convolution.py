"""Constants around convolutions and matrix products move into their weights and biases."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import along_axis, channel_affine, is_float
from asc_devkit.passes.reshapes import RESHAPES, reshape
from asc_devkit.passes.transposes import axis_sources

HALF_MAX = 65504.0  # largest finite fp16 number


def _fold_behind(node: ir.Node, ed: Editor, kinds: tuple[str, ...]) -> Outcome:
    """Fold y * scale + shift (per channel) computed by ``node`` into the convolution or product that makes y."""
    for x in node.inputs:
        main = ed.sole_producer(x, *kinds)
        if main is None or x is None or not is_float(x):
            continue
        weight = ed.const(ed.input(main, 1))
        dims = ed.dims(node.outputs[0])
        if weight is None or not dims or dims != ed.dims(x):  # no dims: the product of two vectors
            return Outcome.MATCHED
        axis = 1 if main.op_type in ("Conv", "ConvTranspose") else len(dims) - 1
        affine = channel_affine(node, x, dims[axis], len(dims), axis, ed)
        if affine is None:
            return Outcome.MATCHED
        scale, shift = affine
        if main.op_type == "MatMul" and (shift.any() or weight.ndim != 2):
            return Outcome.MATCHED
        bias_value = ed.input(main, 2)
        bias = np.zeros(dims[axis]) if bias_value is None else ed.const(bias_value)
        if bias is None or bias.size not in (1, dims[axis]):
            return Outcome.MATCHED
        factor = float(ed.attr(main, "beta", 1.0)) if main.op_type == "Gemm" else 1.0
        new_bias = np.broadcast_to(bias.reshape(-1).astype(np.float64) * factor, scale.shape) * scale + shift
        new_weight = _scaled(main, weight, scale, ed)
        if not _in_range(new_bias, bias) or (isinstance(new_weight, np.ndarray) and not _in_range(new_weight, weight)):
            return Outcome.MATCHED
        inputs: list[ir.Value | Array | None] = [main.inputs[0], new_weight]
        if bias_value is not None or new_bias.any():
            inputs.append(new_bias.astype(weight.dtype))
        attrs = {k: v for k, v in main.attributes.items() if not (main.op_type == "Gemm" and k == "beta")}
        ed.replace(node.outputs[0], ed.op(main.op_type, inputs, attrs, name=main.name or ""))
        return Outcome.CHANGED
    return Outcome.NONE


def _scaled(main: ir.Node, weight: Array, scale: Array, ed: Editor) -> ir.Value | Array:
    """The weight with output channels multiplied by ``scale``."""
    if np.all(scale == 1):
        value = main.inputs[1]
        assert value is not None
        return value
    wide = weight.astype(np.float64) if weight.size < 1 << 20 else weight.astype(np.float32)
    scale = scale.astype(wide.dtype)
    if main.op_type == "Conv":
        shape = (-1,) + (1,) * (weight.ndim - 1)
    elif main.op_type == "ConvTranspose":
        group = int(ed.attr(main, "group", 1))
        grouped = wide.reshape(group, weight.shape[0] // group, *weight.shape[1:])
        scale = scale.reshape(group, 1, weight.shape[1], *(1,) * (weight.ndim - 2))
        return np.asarray((grouped * scale).reshape(weight.shape), dtype=weight.dtype)
    else:
        transposed = main.op_type == "Gemm" and ed.attr(main, "transB", 0)
        shape = (-1, 1) if transposed else (1, -1)
    return np.asarray(wide * scale.reshape(shape), dtype=weight.dtype)


def _in_range(new: Array, old: Array) -> bool:
    """False when folding takes weights or biases out of the range of fp16 that were inside it before."""
    return bool(np.all(np.isfinite(new))) and _peak(new) <= max(HALF_MAX, _peak(old))


def _peak(array: Array) -> float:
    return float(np.max(np.abs(array), initial=0.0))


class ConvBatchnormFusion(NodePass):
    """BatchNorm(Conv(x, w, b)) -> Conv(x, w g/s, (b - m) g/s + beta), s = sqrt(var + eps)."""

    name = "ConvBatchnormFusionPass"
    ops = ("BatchNormalization",)
    numerics = "the scale is applied to the weights instead of the sums"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        return _fold_behind(node, ed, ("Conv",))


class ConvTransposeBatchnormFusion(NodePass):
    """BatchNorm(ConvTranspose or Gemm) -> ConvTranspose or Gemm with scaled weights."""

    name = "Conv2DTransposeBatchnormFusionPass"
    ops = ("BatchNormalization",)
    numerics = "the scale is applied to the weights instead of the sums"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        return _fold_behind(node, ed, ("ConvTranspose", "Gemm"))


class ConvScaleFusion(NodePass):
    """Conv(x, w, b) * c, / c or - per channel -> Conv(x, w c, b c); the same for ConvTranspose, Gemm and MatMul."""

    name = "ConvScaleFusionPass"
    ops = ("Mul", "Div", "Neg")
    numerics = "the scale is applied to the weights instead of the sums"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        return _fold_behind(node, ed, ("Conv", "ConvTranspose", "Gemm", "MatMul"))


class BiasaddConvFusion(NodePass):
    """Conv(x, w, b) + c or c - Conv per channel -> Conv(x, +-w, +-b + c); the same for ConvTranspose and Gemm."""

    name = "AABiasaddConvFusion"
    ops = ("Add", "Sub")
    numerics = "the bias is added in the accumulator"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        return _fold_behind(node, ed, ("Conv", "ConvTranspose", "Gemm"))


class ConvReshapeBiasaddFusion(NodePass):
    """reshape(Conv) + c, - c, * c or / c per channel -> reshape(Conv'), the reshape moving dimensions of length 1 only."""

    name = "Conv2DSqueezeBiasaddFusionPass"
    ops = ("Add", "Sub", "Mul", "Div")
    numerics = "as for a constant directly behind the convolution"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position, x in enumerate(node.inputs):
            between = ed.sole_producer(x, *RESHAPES)
            main = None if between is None else ed.sole_producer(between.inputs[0], "Conv", "ConvTranspose")
            if between is None or main is None or not ed.is_const(node.inputs[1 - position]):
                continue
            sources, before, after = axis_sources(between, ed), ed.dims(main.outputs[0]), ed.dims(x)
            constant = ed.const(node.inputs[1 - position])
            if sources is None or before is None or after is None or 1 not in sources or constant is None:
                return Outcome.NONE
            if ed.dims(node.outputs[0]) != after:
                return Outcome.MATCHED
            row = along_axis(constant, before[1], len(after), sources.index(1))
            if row is None:
                return Outcome.MATCHED
            moved = row.astype(constant.dtype).reshape(-1, *(1,) * (len(before) - 2))
            inputs: list[ir.Value | Array | None] = [main.outputs[0], main.outputs[0]]
            inputs[1 - position] = moved
            ed.replace(node.outputs[0], reshape(ed, ed.op(node.op_type, inputs, of=(main, node)), after, between))
            return Outcome.CHANGED
        return Outcome.NONE


class InputScaleConvFusion(NodePass):
    """Conv(x * s + t, w, b) -> Conv(x, w s, b + sum(w t)): per input channel; t only where nothing is padded."""

    name = "HostBNFusionPass"
    ops = ("Conv",)
    numerics = "the scale is applied to the weights instead of the input"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        affine_node = ed.sole_producer(node.inputs[0], "Mul", "Div", "Add", "Sub", "BatchNormalization")
        weight, dims = ed.const(node.inputs[1]), ed.dims(node.inputs[0])
        if affine_node is None or weight is None or dims is None or not is_float(node.inputs[0]):
            return Outcome.NONE
        if any(o.uses() for o in affine_node.outputs[1:]):
            return Outcome.NONE
        group, channels = int(ed.attr(node, "group", 1)), dims[1]
        for x in affine_node.inputs[:2]:
            if x is None or ed.is_const(x) or ed.dims(x) != dims or not ed.dominates(x, node):
                continue
            affine = channel_affine(affine_node, x, channels, len(dims), 1, ed)
            if affine is None:
                return Outcome.NONE
            scale, shift = affine
            if shift.any() and not self._unpadded(node, ed):
                return Outcome.MATCHED
            bias_value = ed.input(node, 2)
            bias = np.zeros(weight.shape[0]) if bias_value is None else ed.const(bias_value)
            if bias is None:
                return Outcome.MATCHED
            wide = weight.astype(np.float64).reshape(group, weight.shape[0] // group, *weight.shape[1:])
            per_group = (group, 1, channels // group, *(1,) * (weight.ndim - 2))
            added = (wide * shift.reshape(per_group)).sum(axis=tuple(range(2, wide.ndim))).reshape(-1)
            new_weight = (wide * scale.reshape(per_group)).reshape(weight.shape).astype(weight.dtype)
            if not _in_range(new_weight, weight) or not _in_range(added, bias):
                return Outcome.MATCHED
            inputs: list[ir.Value | Array | None] = [x, new_weight]
            if bias_value is not None or added.any():
                inputs.append((bias.astype(np.float64) + added).astype(weight.dtype))
            ed.replace(node.outputs[0], ed.op("Conv", inputs, dict(node.attributes), name=node.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE

    @staticmethod
    def _unpadded(node: ir.Node, ed: Editor) -> bool:
        return ed.attr(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID") and not any(ed.attr(node, "pads", ()))
