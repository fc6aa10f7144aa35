"""Arithmetic, logic, casts and reductions on numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.evaluate.call import Array, Call, Function, Refuse


def _unary(function: Callable[[Array], Any]) -> Function:
    return lambda c: np.asarray(function(c[0]), dtype=c[0].dtype)


def _binary(function: Callable[[Array, Array], Any]) -> Function:
    return lambda c: np.asarray(function(c[0], c[1]), dtype=c[0].dtype)


def _compare(function: Callable[[Array, Array], Any]) -> Function:
    return lambda c: np.asarray(function(c[0], c[1]), dtype=np.bool_)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if not np.all(b):
        raise Refuse
    quotient = a // b
    if a.dtype.kind == "i":
        quotient = quotient + ((a % b != 0) & ((a < 0) != (b < 0)))
    return np.asarray(quotient)


def _mod(c: Call) -> Array:
    a, b = c[0], c[1]
    if a.dtype.kind in "iu" and not np.all(b):
        raise Refuse
    return np.asarray(np.fmod(a, b) if c.attr("fmod", 0) else np.mod(a, b), dtype=a.dtype)


def _power(c: Call) -> Array:
    base, exponent = c[0], c[1]
    if base.dtype.kind in "iu":
        if exponent.dtype.kind not in "iu" or np.any(exponent < 0):
            raise Refuse
        return np.asarray(np.power(base, exponent), dtype=base.dtype)
    return np.asarray(np.power(base, exponent.astype(base.dtype)), dtype=base.dtype)


def _fold_inputs(function: Callable[[Array, Array], Array]) -> Function:
    def run(c: Call) -> Array:
        result = c[0]
        for i in range(1, len(c.x)):
            result = function(result, c[i])
        return np.asarray(result)

    return run


def _clip(c: Call) -> Array:
    result = c[0]
    low, high = c.get(1), c.get(2)
    if low is not None:
        result = np.maximum(result, low)
    if high is not None:
        result = np.minimum(result, high)
    return np.asarray(result, dtype=c[0].dtype)


def _erf(x: Array) -> Array:
    if x.size > 1 << 16:
        raise Refuse
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), dtype=x.dtype)


def _sigmoid(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(1 / (1 + np.exp(-wide)))


def _cast(c: Call) -> Array:
    x = c[0]
    to = ir.DataType(c.attr("to"))
    if to == ir.DataType.STRING or x.dtype.kind in "OSU" or to.bitwidth < 8:
        raise Refuse
    dtype = to.numpy()
    kind = np.dtype(dtype).kind
    if x.dtype.kind == "f" and kind in "iu":
        limits = np.iinfo(dtype)
        wide = x.astype(np.float64)
        outside = ~np.isfinite(wide) | (np.trunc(wide) < limits.min) | (wide >= limits.max + 1.0)
        if np.any(outside):
            if to != ir.DataType.INT64:
                raise Refuse
            # What the 64-bit conversion of x86 gives, which is what ONNX Runtime returns there.
            return np.asarray(np.where(outside, limits.min, np.where(outside, 0, wide).astype(np.int64)))
    if "FLOAT8" in to.name or "FLOAT4" in to.name:
        raise Refuse  # saturation rules differ between implementations
    return np.asarray(x.astype(dtype))


def _matmul(c: Call) -> Array:
    a, b = c[0], c[1]
    if a.dtype == np.float16:
        return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32))).astype(np.float16)
    return np.asarray(np.matmul(a, b))


def _reduce(function: Callable[..., Any]) -> Function:
    def run(c: Call) -> Array:
        x, axes = c[0], c.ints(1)
        keep = bool(c.attr("keepdims", 1))
        if not axes:
            if c.attr("noop_with_empty_axes", 0):
                return x
            axes = list(range(x.ndim))
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return np.asarray(function(wide, axis=tuple(axes), keepdims=keep)).astype(x.dtype)

    return run


def _integer_mean(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.dtype.kind in "iu":
        raise Refuse
    return np.mean(x, axis=axis, keepdims=keepdims)


def _is_inf(c: Call) -> Array:
    positive, negative = c.attr("detect_positive", 1), c.attr("detect_negative", 1)
    return np.asarray((np.isposinf(c[0]) & bool(positive)) | (np.isneginf(c[0]) & bool(negative)))


def _cumsum(c: Call) -> Array:
    x, axis = c[0], int(c[1].reshape(-1)[0])
    if c.attr("reverse", 0) or c.attr("exclusive", 0):
        raise Refuse
    return np.asarray(np.cumsum(x, axis=axis, dtype=x.dtype))


def _cast_like(c: Call) -> Array:
    if c[0].dtype.kind != c[1].dtype.kind:
        raise Refuse
    return np.asarray(c[0].astype(c[1].dtype))


FUNCTIONS: Final[dict[str, Function]] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "And": _compare(np.logical_and),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _unary(np.ceil),
    "Clip": _clip,
    "Cos": _unary(np.cos),
    "CumSum": _cumsum,
    "Div": _binary(_divide),
    "Equal": _compare(np.equal),
    "Erf": _unary(_erf),
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Greater": _compare(np.greater),
    "GreaterOrEqual": _compare(np.greater_equal),
    "IsInf": _is_inf,
    "IsNaN": lambda c: np.isnan(c[0]),
    "Less": _compare(np.less),
    "LessOrEqual": _compare(np.less_equal),
    "Log": _unary(np.log),
    "MatMul": _matmul,
    "Max": _fold_inputs(np.maximum),
    "Mean": lambda c: np.asarray(sum(c[i] for i in range(len(c.x))) / len(c.x), dtype=c[0].dtype),
    "Min": _fold_inputs(np.minimum),
    "Mod": _mod,
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Not": lambda c: np.logical_not(c[0]),
    "Or": _compare(np.logical_or),
    "Pow": _power,
    "Reciprocal": _unary(lambda x: 1 / x),
    "ReduceL1": _reduce(lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims)),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(_integer_mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Relu": _unary(lambda x: np.maximum(x, x.dtype.type(0))),
    "Round": _unary(np.round),
    "Sigmoid": _unary(_sigmoid),
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Sqrt": _unary(np.sqrt),
    "Sub": _binary(np.subtract),
    "Sum": _fold_inputs(np.add),
    "Tanh": _unary(np.tanh),
    "Xor": _compare(np.logical_xor),
}
