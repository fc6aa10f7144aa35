"""Quantise and dequantise. The real ATC parses neither of ONNX's pair; both have an exact form in GE.

QuantizeLinear is GE's Quantize (a division, unlike AscendQuant, which multiplies by the reciprocal); DequantizeLinear is
written out as Cast, Sub, Mul, because AscendAntiQuant takes int8 only.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Cost, Emit
from asc_devkit.ops.declare import Attr, ge, onnx
from asc_devkit.ops.families.steps import Shape, scalar_like, shape_of

_NAMES: Final = {ir.DataType.INT8: "torch.qint8", ir.DataType.UINT8: "torch.quint8", ir.DataType.INT32: "torch.qint32"}
_BY_NAME: Final = {name: dtype for dtype, name in _NAMES.items()}
_UNPACKED: Final = frozenset(
    getattr(ir.DataType, name) for name in ("INT8", "UINT8", "INT16", "UINT16", "INT32")
)  # 4-bit and 8-bit float types have no Cast on the device
_REWRITE: Final = "Convert the float model, or quantise per tensor or per channel to 8 bits."


def _refuse_blocks(e: Emit) -> None:
    if e.attr("block_size", 0):
        raise e.reject("block-wise scales", _REWRITE)


def _quantize(e: Emit) -> ir.Value:
    _refuse_blocks(e)
    dtype = e.out_dtype()
    name = None if dtype is None else _NAMES.get(dtype)
    if name is None:
        raise e.reject(f"quantising to {dtype}", _REWRITE)
    return e.op("Quantize", e.inputs, {"dtype": name, "axis": e.attr("axis", 1)})


def _lower_quantize(e: Emit) -> ir.Value:
    dtype = _BY_NAME.get(e.attr("dtype"))
    if dtype is None:
        raise e.reject(f"quantising to {e.attr('dtype')}")
    inputs: list[ir.Value | np.ndarray[Any, Any] | None] = list(e.inputs)
    if e.value(2) is None:
        scale = e.shape(1)
        if scale is None:
            raise e.reject("the scale's shape is unknown")
        inputs = [*inputs[:2], np.zeros(scale, dtype.numpy())]
    return e.op("QuantizeLinear", inputs, {"axis": e.attr("axis")}, dtype=dtype)


ge("Quantize", "x scales zero_points", _lower_quantize, [Attr("dtype", "str"), Attr("axis", "int", 1)], cost=Cost.QUANT,
   exact=True)  # fmt: skip
onnx("QuantizeLinear", _quantize, "Quantize", rewritten=True)


def _along(e: Emit, value: ir.Value, rank: int, axis: int) -> ir.Value:
    """A per-channel vector in a shape that broadcasts along ``axis``; a single number as it is."""
    shape = shape_of(value)
    if shape is None:
        raise e.reject("the scale's shape is unknown", _REWRITE)
    if len(shape) != 1 or (shape[0] == 1 and rank == 0):
        return value
    wide: Shape = tuple(shape[0] if i == axis % rank else 1 for i in range(rank))
    if value.const_value is not None:
        return e.reshaped(value, wide)
    return e.op("Reshape", [value, np.array(wide, np.int64)], shape=wide)


def _dequantize(e: Emit) -> ir.Value:
    _refuse_blocks(e)
    x, scale, zero = e.need(0), e.need(1), e.value(2)
    rank, shape = e.rank(0), e.shape(0)
    if x.dtype not in _UNPACKED or rank is None:
        raise e.reject(f"dequantising from {x.dtype}", _REWRITE)
    target = e.out_dtype() or scale.dtype or ir.DataType.FLOAT
    axis = e.attr("axis", 1)
    y = e.op("Cast", [x], {"dst_type": int(target)}, shape=shape, dtype=target)
    scale = _along(e, scale, rank, axis)
    if scale.dtype != target:
        scale = e.op("Cast", [scale], {"dst_type": int(target)}, shape=shape_of(scale), dtype=target)
    offsets = e.const(2)
    if zero is not None and (offsets is None or offsets.any()):
        zero = _along(e, zero, rank, axis)
        shift = e.op("Cast", [zero], {"dst_type": int(target)}, shape=shape_of(zero), dtype=target)
        y = e.op("Sub", [y, shift], shape=shape)
    return e.op("Mul", [y, scale])


onnx("DequantizeLinear", _dequantize, "Cast", "Sub", "Mul", rewritten=True)

# --- GE's own quantisation; comes in models compiled elsewhere --------------------------------------------------------


def _lower_ascend_quant(e: Emit) -> ir.Value:
    """Round to nearest even of x * scale + offset, clipped to the target type."""
    if e.attr("sqrt_mode") or e.attr("round_mode").lower() != "round":
        raise e.reject("sqrt_mode, or another rounding than to nearest")
    x, target = e.need(0), ir.DataType(e.attr("dst_type"))
    y = e.op("Mul", [x, scalar_like(x, e.attr("scale"))], shape=e.shape(0))
    y = e.op("Round", [e.op("Add", [y, scalar_like(x, e.attr("offset"))], shape=e.shape(0))], shape=e.shape(0))
    limits = np.iinfo(target.numpy())
    y = e.op("Clip", [y, scalar_like(x, limits.min), scalar_like(x, limits.max)], shape=e.shape(0))
    return e.op("Cast", [y], {"to": int(target)}, dtype=target)


def _lower_ascend_anti_quant(e: Emit) -> ir.Value:
    if e.attr("sqrt_mode"):
        raise e.reject("sqrt_mode")
    target = e.out_dtype() or ir.DataType.FLOAT
    y = e.op("Cast", [e.need(0)], {"to": int(target)}, shape=e.shape(0), dtype=target)
    y = e.op("Add", [y, scalar_like(y, e.attr("offset"))], shape=e.shape(0))
    return e.op("Mul", [y, scalar_like(y, e.attr("scale"))])


_FACTORS = [Attr("scale", "float", 1.0), Attr("offset", "float", 0.0), Attr("sqrt_mode", "bool", 0)]
ge("AscendQuant", "x", _lower_ascend_quant,
   [*_FACTORS, Attr("round_mode", "str", "Round"), Attr("dst_type", "dtype", int(ir.DataType.INT8))],
   cost=Cost.QUANT, exact=True)  # fmt: skip
ge("AscendAntiQuant", "x", _lower_ascend_anti_quant, [*_FACTORS, Attr("dtype", "dtype")], cost=Cost.QUANT)
