"""Quantised operators in float32, bit for bit: every sum of integers stays below 2^24, where float32 is exact.

Products whose sums could grow larger are cut into pieces along the summed axis, and the pieces added as int32.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

Array = np.ndarray[Any, Any]
FLOAT: Final = int(ir.DataType.FLOAT)
INT32: Final = int(ir.DataType.INT32)
EXACT: Final = 1 << 24  # integers up to here are exact in float32, and so is every partial sum
_LARGEST: Final = 255  # of an 8-bit operand less its zero point
_TARGETS: Final = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)
_SOURCES: Final = (*_TARGETS, ir.DataType.INT32)


def quantize_linear(e: Edit) -> None:
    """Round half to even of x / scale, plus the zero point, clipped to the target type."""
    target = e.node.outputs[0].dtype
    if target not in _TARGETS:
        raise Refusal(f"it quantises to {target}")
    if e.attr("block_size", 0):
        raise Refusal("it has block-wise scales")
    x, axis = e.input(0), e.attr("axis", 1)
    dtype = e.dtype(1)
    if e.dtype(0) != dtype:
        x = e.before("Cast", [x], {"to": int(dtype or FLOAT)})
    y = e.before("Round", [e.before("Div", [x, _along(e, 1, axis)])])
    if not _is_zero(e, 2):
        y = e.before("Add", [y, e.before("Cast", [_along(e, 2, axis)], {"to": int(dtype or FLOAT)})])
    limits, kind = np.iinfo(target.numpy()), (dtype or ir.DataType.FLOAT).numpy()
    y = e.before("Clip", [y, np.array(limits.min, kind), np.array(limits.max, kind)])
    e.rename("Cast", [y], {"to": int(target)})


def dequantize_linear(e: Edit) -> None:
    """(x - zero point) * scale; constants of 4-bit types and of blocks become floats."""
    target = e.node.outputs[0].dtype or e.dtype(1) or ir.DataType.FLOAT
    axis = e.attr("axis", 1)
    x, scale, zero = e.const(0), e.const(1), e.const(2)
    if e.dtype(0) not in _SOURCES or e.attr("block_size", 0):
        if x is None or scale is None or (e.input(2) is not None and zero is None):
            raise Refusal(f"it dequantises {e.dtype(0)} values, or blocks, that are not constant")
        size = e.attr("block_size", 0) or 1
        values = x.astype(np.float32)
        if zero is not None:
            values = values - _spread(zero.astype(np.float32), x.shape, axis, size)
        values = values * _spread(scale.astype(np.float32), x.shape, axis, size)
        e.rename("Identity", [values.astype(target.numpy())])
        return
    y = e.before("Cast", [e.input(0)], {"to": int(target)})
    if not _is_zero(e, 2):
        y = e.before("Sub", [y, e.before("Cast", [_along(e, 2, axis)], {"to": int(target)})])
    factor = _along(e, 1, axis)
    if e.dtype(1) != target:
        factor = e.before("Cast", [factor], {"to": int(target)})
    e.rename("Mul", [y, factor])


def matmul_integer(e: Edit) -> None:
    total = _matmul(e, 0, 1, 2, 3)
    e.rename("Identity", [total])


def conv_integer(e: Edit) -> None:
    total = _conv(e, 0, 1, 2, 3)
    e.rename("Identity", [total])


def qlinear_matmul(e: Edit) -> None:
    """Inputs: a, its scale and zero point, b likewise, scale and zero point of the result."""
    total = _matmul(e, 0, 3, 2, 5)
    _requantise(e, total, e.input(4), 6, 7)


def qlinear_conv(e: Edit) -> None:
    """The same with x and w, and an int32 bias (input 8)."""
    total = _conv(e, 0, 3, 2, 5)
    rank = e.rank(0, "the bias")
    column = np.array([1, -1] + [1] * (rank - 2), np.int64)
    if e.input(8) is not None:
        total = e.before("Add", [total, e.before("Reshape", [e.input(8), column])])
    factor = e.input(4)
    if e.shape(4) not in ((), (1,)):
        factor = e.before("Reshape", [factor, column])
    _requantise(e, total, factor, 6, 7)


def _requantise(e: Edit, total: ir.Value, factor: ir.Value | None, scale: int, zero: int) -> None:
    """round(total * (scale of a * scale of b / scale of y)) + zero point, clipped to its type."""
    target = e.dtype(zero)
    if target not in _TARGETS:
        raise Refusal(f"its result is {target}")
    ratio = e.before("Div", [e.before("Mul", [e.input(1), factor]), e.input(scale)])
    if e.dtype(1) != ir.DataType.FLOAT:
        ratio = e.before("Cast", [ratio], {"to": FLOAT})
    y = e.before("Mul", [e.before("Cast", [total], {"to": FLOAT}), ratio])
    y = e.before("Add", [e.before("Round", [y]), e.before("Cast", [e.input(zero)], {"to": FLOAT})])
    limits = np.iinfo(target.numpy())
    y = e.before("Clip", [y, np.array(limits.min, np.float32), np.array(limits.max, np.float32)])
    e.rename("Cast", [y], {"to": int(target)})


def _matmul(e: Edit, a: int, b: int, zero_a: int, zero_b: int) -> ir.Value:
    """int32 product of two 8-bit matrices less their zero points."""
    left = _centred(e, a, zero_a, column=True)
    weights = _constant_centred(e, b, zero_b, channel_axis=-1)
    shape = e.shape(b)
    depth = None if not shape else shape[0] if len(shape) == 1 else shape[-2]
    if depth is None:
        raise Refusal("the length of its summed axis is unknown; give --input-shape")
    if weights is None:
        right = _centred(e, b, zero_b, column=False)
        cuts = _cuts(np.full(depth, float(_LARGEST)))
        if len(cuts) > 2 and len(shape or ()) == 1:
            raise Refusal("it multiplies two long vectors")
        pieces: list[Any] = [(right if len(cuts) == 2 else _slice(e, right, i, j, -2)) for i, j in pairwise(cuts)]
    else:
        absolute = (
            np.abs(weights).reshape(depth, -1)
            if weights.ndim < 3
            else np.abs(weights).max(axis=tuple(range(weights.ndim - 2)))
        )
        cuts = _cuts(absolute)
        rows = weights if weights.ndim > 1 else weights[:, None]
        parts = [rows[..., i:j, :] for i, j in pairwise(cuts)]
        pieces = [p if weights.ndim > 1 else p[:, 0] for p in parts]
    lefts = [left] if len(cuts) == 2 else [_slice(e, left, i, j, -1) for i, j in pairwise(cuts)]
    return _sum(e, [e.before("MatMul", [x, w]) for x, w in zip(lefts, pieces, strict=True)])


def _conv(e: Edit, x: int, w: int, zero_x: int, zero_w: int) -> ir.Value:
    """int32 convolution of 8-bit operands less their zero points; padding is zero then."""
    source = _centred(e, x, zero_x, column=False)
    weights = _constant_centred(e, w, zero_w, channel_axis=0)
    if weights is None:
        raise Refusal("its weights are not constant")
    attrs = {name: a.value for name, a in e.node.attributes.items()}
    cuts = _cuts(np.abs(weights).sum(axis=tuple(range(2, weights.ndim))).T)
    if len(cuts) > 2 and attrs.get("group", 1) != 1:
        raise Refusal("its groups sum more than float32 can hold exactly")
    parts = []
    for i, j in pairwise(cuts):
        piece = source if len(cuts) == 2 else _slice(e, source, i, j, 1)
        parts.append(e.before("Conv", [piece, weights[:, i:j]], attrs))
    return _sum(e, parts)


def _cuts(absolute: Array) -> list[int]:
    """Where to cut the summed axis (axis 0 of the absolute weights) so that no sum can pass 2^24."""
    cuts, total = [0], np.zeros(absolute.shape[1:])
    for index, row in enumerate(absolute):
        total = total + row * _LARGEST
        if total.size and total.max() >= EXACT:
            cuts.append(index)
            total = row * float(_LARGEST)
    return [*cuts, len(absolute)]


def _sum(e: Edit, parts: list[ir.Value]) -> ir.Value:
    whole = [e.before("Cast", [part], {"to": INT32}) for part in parts]
    total = whole[0]
    for part in whole[1:]:
        total = e.before("Add", [total, part])
    return total


def _slice(e: Edit, value: ir.Value, start: int, stop: int, axis: int) -> ir.Value:
    return e.before("Slice", [value, *(np.array([n], np.int64) for n in (start, stop, axis))])


def _centred(e: Edit, index: int, zero: int, column: bool) -> ir.Value:
    """Input ``index`` as float32 less its zero point; one zero point per row (``column``) stands upright."""
    value = e.before("Cast", [e.input(index)], {"to": FLOAT})
    if _is_zero(e, zero):
        return value
    point = e.before("Cast", [e.input(zero)], {"to": FLOAT})
    shape = e.shape(zero)
    if column and shape is not None and len(shape) == 1 and shape[0] != 1:
        point = e.before("Reshape", [point, np.array([-1, 1], np.int64)])
    return e.before("Sub", [value, point])


def _constant_centred(e: Edit, index: int, zero: int, channel_axis: int) -> Array | None:
    """The same for constant weights, computed here; None when they are not constant."""
    weights, point = e.const(index), e.const(zero)
    if weights is None or (e.input(zero) is not None and point is None):
        return None
    made = weights.astype(np.float32)
    if point is None:
        return made
    if point.size > 1 and point.ndim == 1:
        shape = [1] * made.ndim
        shape[channel_axis] = point.size
        point = point.reshape(shape)
    return made - point.astype(np.float32) if point.size > 1 else made - np.float32(point.reshape(-1)[0])


def _is_zero(e: Edit, index: int) -> bool:
    known = e.const(index)
    return e.input(index) is None or (known is not None and not known.any())


def _along(e: Edit, index: int, axis: int) -> ir.Value | None:
    """A per-channel input in a shape that broadcasts along ``axis`` of input 0; a single number as it is."""
    shape = e.shape(index)
    if shape is None:
        raise Refusal("the shape of its scale is unknown")
    if len(shape) != 1 or shape[0] == 1:
        return e.input(index)
    rank = e.rank(0, "the axis of its scale")
    if rank == 1:
        return e.input(index)
    wide = [1] * rank
    wide[axis % rank] = -1
    return e.before("Reshape", [e.input(index), np.array(wide, np.int64)])


def _spread(array: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero point in the shape of the data: per tensor, per channel, or per block along ``axis``."""
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    if array.ndim == 1 and block == 1:
        wide = [1] * len(shape)
        wide[axis % len(shape)] = -1
        return np.broadcast_to(array.reshape(wide), shape)
    repeated = np.repeat(array, block, axis)
    made = np.take(repeated, range(shape[axis % len(shape)]), axis)
    if made.size != prod(shape):
        raise Refusal("its scales do not fit its data")
    return made


RULES = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
