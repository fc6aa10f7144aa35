"""Arithmetic, element by element, and type conversion."""

from __future__ import annotations

from math import pi

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Emit, Mix
from asc_devkit.ops.declare import FREE, Attr, ge, lower_as, onnx, outputs_of, raise_as, rename
from asc_devkit.ops.families.steps import chain, scalar_like

UNIT = (-1.0, 1.0)
PAIR = "x1 x2"

# --- one operand ------------------------------------------------------------------------------------------------------
rename("Identity", **FREE)
rename("Abs", exact=True)
rename("Neg", exact=True)
rename("Ceil", exact=True)
rename("Floor", exact=True)
rename("Round", exact=True)
rename("Sign", exact=True, bounds=UNIT)
rename("Sqrt")
rename("Reciprocal")
rename("Exp", mix=Mix.BLACK)
rename("Log")
rename("Erf", bounds=UNIT)
rename("Sin", bounds=UNIT)
rename("Cos", bounds=UNIT)
rename("Tan")
rename("Asin", bounds=(-pi / 2, pi / 2))
rename("Acos", bounds=(0.0, pi))
rename("Atan", bounds=(-pi / 2, pi / 2))
rename("Sinh")
rename("Cosh")
rename("Asinh")
rename("Acosh")
rename("Atanh")

# --- two operands -----------------------------------------------------------------------------------------------------
rename("Add", inputs=PAIR)
rename("Sub", inputs=PAIR)
rename("Mul", inputs=PAIR)
rename("Pow", inputs=PAIR, mix=Mix.BLACK)
ge("RealDiv", PAIR, lower_as("Div"))
ge("Div", PAIR, lower_as("Div"))
ge("Maximum", PAIR, lower_as("Max"), exact=True)
ge("Minimum", PAIR, lower_as("Min"), exact=True)
ge("FloorMod", PAIR, lower_as("Mod"))
ge("Mod", PAIR, lambda e: e.op("Mod", e.inputs, {"fmod": 1}))


def _is_float(dtype: ir.DataType | None) -> bool:
    return dtype is None or dtype.is_floating_point()


# Integers: ONNX truncates, which is GE's Div.
onnx("Div", lambda e: e.op("RealDiv" if _is_float(e.dtype(0)) else "Div", e.inputs), "RealDiv", "Div")
onnx("Mod", lambda e: e.op("Mod" if e.attr("fmod", 0) else "FloorMod", e.inputs), "FloorMod", "Mod")

# --- any number of operands -------------------------------------------------------------------------------------------


def _operands(e: Emit) -> list[ir.Value]:
    return [e.need(i) for i in range(len(e.inputs))]


def _sum(e: Emit) -> ir.Value:
    shapes = {e.shape(i) for i in range(len(e.inputs))}
    if len(e.inputs) > 2 and len(shapes) == 1 and None not in shapes:
        return e.op("AccumulateNV2", e.inputs, {"N": len(e.inputs)}, shape=e.shape(0))
    return chain(e, "Add", _operands(e))


def _mean(e: Emit) -> ir.Value:
    if len(e.inputs) == 1:
        return e.need(0)
    return e.op("RealDiv", [_sum(e), scalar_like(e.need(0), len(e.inputs))])


ge("AccumulateNV2", "x*", lower_as("Sum"), [Attr("N", "int", onnx="")])
ge("AddN", "x*", lower_as("Sum"), [Attr("N", "int", onnx="")])
onnx("Max", lambda e: chain(e, "Maximum", _operands(e)), "Maximum")
onnx("Min", lambda e: chain(e, "Minimum", _operands(e)), "Minimum")
onnx("Sum", _sum, "Add", "AccumulateNV2")
onnx("Mean", _mean, "Add", "AccumulateNV2", "RealDiv")

# --- Clip -------------------------------------------------------------------------------------------------------------


def _clip(e: Emit) -> ir.Value:
    """One bound alone is a Maximum or Minimum; ReLU6 has a kernel of its own."""
    low, high = e.value(1), e.value(2)
    if low is None and high is None:
        return e.need(0)
    if low is None:
        return e.op("Minimum", [e.need(0), high])
    if high is None:
        return e.op("Maximum", [e.need(0), low])
    bounds = [None if a is None or a.size != 1 else float(a.reshape(-1)[0]) for a in (e.const(1), e.const(2))]
    if bounds == [0.0, 6.0] and _is_float(e.dtype(0)):
        return e.op("Relu6", [e.need(0)])
    return e.op("ClipByValueV2", e.inputs)


def _relu6(e: Emit) -> ir.Value:
    x = e.need(0)
    return e.op("Clip", [x, scalar_like(x, 0), scalar_like(x, 6)])


ge("ClipByValueV2", "x clip_value_min clip_value_max", lower_as("Clip"), exact=True)
ge("ClipByValue", "x clip_value_min clip_value_max", lower_as("Clip"), exact=True)
ge("Relu6", "x", _relu6, exact=True, bounds=(0.0, 6.0))
onnx("Clip", _clip, "ClipByValueV2", "Relu6", "Maximum", "Minimum")

# --- Cast -------------------------------------------------------------------------------------------------------------
_SATURATE = Attr("_saturate", "bool", 1, onnx="saturate")


def _cast_like(e: Emit) -> ir.Value:
    dtype = e.out_dtype()
    if dtype is None:
        raise e.reject("the target type is unknown", "Use Cast with a fixed type.")
    return e.op("Cast", [e.need(0)], {"dst_type": int(dtype), "_saturate": e.attr("saturate", 1)}, dtype=dtype)


def _lower_cast(e: Emit) -> ir.Value:
    target = ir.DataType(e.attr("dst_type"))
    narrow = target in _FLOAT8  # only there `saturate` means something, and only there ONNX Runtime accepts it
    saturate = e.attr("_saturate") if narrow else None
    return e.op("Cast", [e.need(0)], {"to": int(target), "saturate": saturate}, dtype=target)


_FLOAT8 = frozenset(d for d in ir.DataType if d.name.startswith("FLOAT8"))
_CAST = (Attr("dst_type", "dtype", onnx="to"), _SATURATE)

ge("Cast", "x", _lower_cast, _CAST)
onnx("Cast", raise_as("Cast", _CAST), "Cast")
onnx("CastLike", _cast_like, "Cast")

# --- GE operators that ONNX spells with several; they come in models compiled elsewhere -------------------------------


def _scalar(e: Emit, onnx_type: str) -> ir.Value:
    return e.op(onnx_type, [e.need(0), scalar_like(e.need(0), e.attr("value"))])


_VALUE = [Attr("value", "float", onnx="")]
ge("Muls", "x", lambda e: _scalar(e, "Mul"), _VALUE)
ge("Adds", "x", lambda e: _scalar(e, "Add"), _VALUE)
ge("Rsqrt", "x", lambda e: e.op("Reciprocal", [e.op("Sqrt", [e.need(0)], shape=e.shape(0))]))
ge("Square", "x", lambda e: e.op("Mul", [e.need(0), e.need(0)]))
ge("BiasAdd", "x bias", lambda e: _bias_add(e), [Attr("data_format", "str", "NCHW", onnx="")])


def _bias_add(e: Emit) -> ir.Value:
    rank = e.rank(0)
    if e.attr("data_format") != "NCHW" or rank is None or rank < 2:
        return e.op("Add", e.inputs)
    shape = np.array([-1] + [1] * (rank - 2), np.int64)
    return outputs_of(e.op("Add", [e.need(0), e.op("Reshape", [e.need(1), shape])]))[0]
