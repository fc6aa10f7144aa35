"""Constants around convolutions and matrix products move into their weights and biases."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import along_axis, channel_affine, is_float
from asc_devkit.passes.reshapes import RESHAPES, reshape
from asc_devkit.passes.transposes import perm_of

HALF_MAX = 65504.0  # largest finite fp16 number


def _fold_behind(node: ir.Node, ed: Editor, kinds: tuple[str, ...]) -> Outcome:
    """Fold y * scale + shift (per channel) computed by ``node`` into the convolution or product that makes y."""
    for x in node.inputs:
        main = ed.sole_producer(x, *kinds)
        if main is None or x is None or not is_float(x):
            continue
        weight = ed.const(ed.input(main, 1))
        dims = ed.dims(node.outputs[0])
        if weight is None or dims is None or dims != ed.dims(x):
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
            sources, before, after = _axis_sources(between, ed), ed.dims(main.outputs[0]), ed.dims(x)
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


_NON_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt", "Softplus")


class PadConv2dFusion(NodePass):
    """Conv(Pad(x, 0)) -> Conv with larger pads; the same for AveragePool that counts its padding."""

    name = "PadConv2dFusionPass"
    ops = ("Conv", "AveragePool")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        found = _padded(node.inputs[0], ed)
        if found is None:
            return Outcome.NONE
        pad, between = found
        pads = _spatial_pads(pad, between, ed)
        if pads is None or pad.inputs[0] is None or not ed.dominates(pad.inputs[0], node):
            return Outcome.MATCHED
        old = _window_pads(node, len(pads) // 2, ed)
        if old is None:
            return Outcome.MATCHED
        attrs = {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad")}
        extra: dict[str, object] = {"pads": [a + b for a, b in zip(old, pads, strict=True)]}
        if node.op_type == "AveragePool":
            if (any(old) and not ed.attr(node, "count_include_pad", 0)) or ed.attr(node, "ceil_mode", 0):
                return Outcome.MATCHED
            attrs.pop("count_include_pad", None)
            extra["count_include_pad"] = 1
            kernel = ed.attr(node, "kernel_shape")
            if any(p >= k for p, k in zip(extra["pads"], [*kernel, *kernel], strict=True)):  # type: ignore[call-overload]
                return Outcome.MATCHED
        x = pad.inputs[0]
        if between is not None:
            x = _unpadded(x, between, pads, ed)
        inputs = [x, *node.inputs[1:]]
        ed.replace(node.outputs[0], ed.op(node.op_type, inputs, {**attrs, **extra}, name=node.name or ""))
        return Outcome.CHANGED


class PadMaxPoolFusion(NodePass):
    """MaxPool(Pad(x, 0)) with x >= 0, or padded with -inf -> MaxPool with larger pads."""

    name = "PadMaxPoolFusionPass"
    ops = ("MaxPool",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        pad = ed.producer(node.inputs[0], "Pad")
        if pad is None:
            return Outcome.NONE
        lowest = ed.scalar(ed.input(pad, 2)) if ed.input(pad, 2) is not None else 0.0
        positive = lowest == 0.0 and self._non_negative(pad.inputs[0], ed)
        pads = _spatial_pads(pad, None, ed, any_value=True)
        if pads is None or not (positive or lowest == float("-inf")) or len(node.outputs) > 1:
            return Outcome.MATCHED
        old, kernel = _window_pads(node, len(pads) // 2, ed), ed.attr(node, "kernel_shape")
        if old is None or ed.attr(node, "ceil_mode", 0) or not ed.dominates(pad.inputs[0], node):  # type: ignore[arg-type]
            return Outcome.MATCHED
        total = [a + b for a, b in zip(old, pads, strict=True)]
        if any(p >= k for p, k in zip(total, [*kernel, *kernel], strict=True)):
            return Outcome.MATCHED
        attrs = {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad")}
        ed.replace(node.outputs[0], ed.op("MaxPool", [pad.inputs[0]], {**attrs, "pads": total}, name=node.name or ""))
        return Outcome.CHANGED

    @staticmethod
    def _non_negative(value: ir.Value | None, ed: Editor) -> bool:
        node = ed.producer(value, *_NON_NEGATIVE, "Transpose", "Clip", "MaxPool")
        for _ in range(8):
            if node is None or node.op_type not in ("Transpose", "MaxPool"):
                break
            node = ed.producer(node.inputs[0], *_NON_NEGATIVE, "Transpose", "Clip", "MaxPool")
        if node is None or node.op_type in ("Transpose", "MaxPool"):
            return False
        low = ed.scalar(ed.input(node, 1)) if node.op_type == "Clip" else 0.0
        return low is not None and low >= 0


def _padded(value: ir.Value | None, ed: Editor) -> tuple[ir.Node, ir.Node | None] | None:
    """(Pad, node between) when ``value`` is a Pad's result, or that moved by one Transpose or Reshape only it feeds."""
    pad = ed.producer(value, "Pad")
    if pad is not None:
        return pad, None
    between = ed.sole_producer(value, "Transpose", *RESHAPES)
    pad = None if between is None else ed.sole_producer(between.inputs[0], "Pad")
    return None if pad is None else (pad, between)


def _unpadded(x: ir.Value, between: ir.Node, pads: list[int], ed: Editor) -> ir.Value:
    """``x``, which was padded, moved by ``between`` without its padding."""
    if between.op_type == "Transpose":
        return ed.op("Transpose", [x], dict(between.attributes), name=between.name or "")
    dims = ed.dims(between.outputs[0])
    assert dims is not None
    half = len(pads) // 2
    spatial = [d - pads[i] - pads[i + half] for i, d in enumerate(dims[2:])]
    return reshape(ed, x, (*dims[:2], *spatial), between)


def _spatial_pads(pad: ir.Node, between: ir.Node | None, ed: Editor, any_value: bool = False) -> list[int] | None:
    """Begin and end pads of the spatial axes behind ``between``.

    None unless the Pad pads only those, by non-negative amounts, with zeros (or with ``any_value``).
    """
    rank, pads = ed.rank(pad.inputs[0]), ed.ints(ed.input(pad, 1))
    if rank is None or pads is None or ed.attr(pad, "mode", "constant") != "constant":
        return None
    if not any_value and ed.input(pad, 2) is not None and ed.scalar(ed.input(pad, 2)) != 0.0:
        return None
    axes = ed.ints(ed.input(pad, 3)) if ed.input(pad, 3) is not None else list(range(rank))
    if axes is None or min(pads, default=0) < 0:
        return None
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis % rank] = pads[i]
        full[axis % rank + rank] = pads[i + len(axes)]
    begin, end = full[:rank], full[rank:]
    if between is not None:
        source = _axis_sources(between, ed)
        if source is None or any((begin[i] or end[i]) and i not in source for i in range(rank)):
            return None
        begin = [0 if s is None else begin[s] for s in source]
        end = [0 if s is None else end[s] for s in source]
    if len(begin) < 3 or any((*begin[:2], *end[:2])):
        return None
    return [*begin[2:], *end[2:]]


def _axis_sources(between: ir.Node, ed: Editor) -> list[int | None] | None:
    """Axis of the input each axis of the output of ``between`` comes from (None: a new one of length 1)."""
    if between.op_type == "Transpose":
        perm = perm_of(between, ed)
        return None if perm is None else list(perm)
    before, after = ed.dims(between.inputs[0]), ed.dims(between.outputs[0])
    if before is None or after is None:
        return None
    long = [i for i, d in enumerate(before) if d != 1]
    if [before[i] for i in long] != [d for d in after if d != 1]:
        return None
    rest = iter(long)
    return [None if d == 1 else next(rest) for d in after]


def _window_pads(node: ir.Node, spatial: int, ed: Editor) -> list[int] | None:
    """Explicit pads of a sliding window, None when they depend on the shape."""
    auto = ed.attr(node, "auto_pad", "NOTSET")
    if auto == "VALID":
        return [0] * (2 * spatial)
    return list(ed.attr(node, "pads", None) or [0] * (2 * spatial)) if auto == "NOTSET" else None


class MatMulBiasAddFusion(NodePass):
    """MatMul(a, b) + c of matrices, c one row -> Gemm(a, b, c)."""

    name = "MatMulBiasAddFusionPass"
    ops = ("Add",)
    numerics = "the bias is added in the accumulator"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position in (0, 1):
            main = ed.sole_producer(node.inputs[position], "MatMul")
            bias = node.inputs[1 - position]
            if main is None or bias is None or not is_float(bias):
                continue
            a, b, out = ed.dims(main.inputs[0]), ed.dims(main.inputs[1]), ed.dims(node.outputs[0])
            shape = ed.dims(bias)
            if a is None or b is None or out is None or shape is None or len(a) != 2 or len(b) != 2:
                return Outcome.NONE
            if shape not in ((out[1],), (1, out[1]), (), (1,)) or out != (a[0], b[1]):
                return Outcome.MATCHED
            if not ed.is_const(bias) and len(shape) != 1:
                return Outcome.MATCHED
            array = ed.const(bias)
            row: ir.Value | Array = bias
            if array is not None and shape != (out[1],):
                row = np.array(np.broadcast_to(array.reshape(-1), (out[1],)))
            inputs = [main.inputs[0], main.inputs[1], row]
            ed.replace(node.outputs[0], ed.op("Gemm", inputs, name=main.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE


class GemmTransFusion(NodePass):
    """Gemm or 2-D MatMul of Transpose(a) -> Gemm with transA; of Transpose(b) -> with transB."""

    name = "GemmTransFusionPass"
    ops = ("Gemm", "MatMul")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inputs, flags, found = list(node.inputs), {}, False
        if ed.rank(inputs[0]) != 2 or ed.rank(inputs[1]) != 2 or not is_float(inputs[0]):
            return Outcome.NONE
        for i, flag in ((0, "transA"), (1, "transB")):
            flags[flag] = int(ed.attr(node, flag, 0))
            swap = ed.sole_producer(inputs[i], "Transpose")
            if swap is not None and list(ed.attr(swap, "perm", (1, 0))) == [1, 0]:
                inputs[i], flags[flag], found = swap.inputs[0], 1 - flags[flag], True
        if not found:
            return Outcome.NONE
        attrs = {k: v for k, v in node.attributes.items() if k not in flags}
        ed.replace(node.outputs[0], ed.op("Gemm", inputs, {**attrs, **flags}, name=node.name or ""))
        return Outcome.CHANGED
