"""Element-wise layers: activations, powers, thresholds and Eltwise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value


def _unary(kind: str) -> Callable[[Site], list[Value]]:
    """A layer that is one ONNX operator without parameters."""
    return lambda s: [s.op(kind, [s.x], s.x.shape)]


def relu(s: Site) -> list[Value]:
    """max(x, 0) + negative_slope * min(x, 0)."""
    slope = s.param("relu_param").number("negative_slope")
    if slope:
        return [s.op("LeakyRelu", [s.x], s.x.shape, alpha=slope)]
    return [s.op("Relu", [s.x], s.x.shape)]


def relu6(s: Site) -> list[Value]:
    """min(max(x, 0), 6)."""
    return [s.op("Clip", [s.x, s.number(0, "min"), s.number(6, "max")], s.x.shape)]


def prelu(s: Site) -> list[Value]:
    """max(x, 0) + a_c * min(x, 0) with one a per channel, or one for all."""
    s.param("prelu_param").flag("channel_shared")
    slope = s.weight(0, "slopes").reshape(-1).astype(np.float32)
    channels = s.x.shape[1] if len(s.x.shape) > 1 else 1
    if slope.size not in (1, channels):
        raise LayerError(f"it has {slope.size} slopes for {channels} channels")
    if slope.size != 1:
        slope = slope.reshape(-1, *[1] * (len(s.x.shape) - 2))
    return [s.op("PRelu", [s.x, s.constant(slope, "slope")], s.x.shape)]


def elu(s: Site) -> list[Value]:
    """x for x > 0, else alpha * (exp(x) - 1)."""
    return [s.op("Elu", [s.x], s.x.shape, alpha=s.param("elu_param").number("alpha", 1.0))]


def swish(s: Site) -> list[Value]:
    """x * sigmoid(beta * x)."""
    beta = s.param("swish_param").number("beta", 1.0)
    inner = s.x if beta == 1 else s.op("Mul", [s.x, s.number(beta, "beta")], s.x.shape)
    return [s.op("Mul", [s.x, s.op("Sigmoid", [inner], s.x.shape)], s.x.shape)]


def _affine(s: Site, value: Value, scale: float, shift: float) -> Value:
    if scale != 1:
        value = s.op("Mul", [value, s.number(scale, "scale")], value.shape)
    if shift != 0:
        value = s.op("Add", [value, s.number(shift, "shift")], value.shape)
    return value


def power(s: Site) -> list[Value]:
    """(shift + scale * x) ^ power."""
    p = s.param("power_param")
    value = _affine(s, s.x, p.number("scale", 1.0), p.number("shift"))
    exponent = p.number("power", 1.0)
    if exponent != 1:
        value = s.op("Pow", [value, s.number(exponent, "power")], value.shape)
    return [value]


def exp(s: Site) -> list[Value]:
    """base ^ (shift + scale * x); base -1 stands for e."""
    p = s.param("exp_param")
    base = p.number("base", -1.0)
    if base != -1 and base <= 0:
        raise LayerError(f"its base {base} is not positive")
    factor = 1.0 if base == -1 else math.log(base)
    value = _affine(s, s.x, p.number("scale", 1.0) * factor, p.number("shift") * factor)
    return [s.op("Exp", [value], value.shape)]


def log(s: Site) -> list[Value]:
    """log(shift + scale * x) to the given base; base -1 stands for e."""
    p = s.param("log_param")
    base = p.number("base", -1.0)
    if base != -1 and (base <= 0 or base == 1):
        raise LayerError(f"{base} is no base of a logarithm")
    value = s.op("Log", [_affine(s, s.x, p.number("scale", 1.0), p.number("shift"))], s.x.shape)
    return [value if base == -1 else s.op("Mul", [value, s.number(1 / math.log(base), "base")], value.shape)]


def threshold(s: Site) -> list[Value]:
    """1 where x > threshold, else 0."""
    limit = s.number(s.param("threshold_param").number("threshold"), "threshold")
    return [s.op("Cast", [s.op("Greater", [s.x, limit], s.x.shape)], s.x.shape, to=1)]


def clip(s: Site) -> list[Value]:
    """min(max(x, min), max)."""
    p = s.param("clip_param")
    low, high = s.number(p.number("min"), "min"), s.number(p.number("max"), "max")
    return [s.op("Clip", [s.x, low, high], s.x.shape)]


def dropout(s: Site) -> list[Value]:
    """x: dropout does nothing after training (forks with scale_train false multiply by 1 - ratio)."""
    p = s.param("dropout_param")
    ratio = p.number("dropout_ratio", 0.5)
    if p.flag("scale_train", True):
        return [s.op("Identity", [s.x], s.x.shape)]
    return [s.op("Mul", [s.x, s.number(1 - ratio, "keep")], s.x.shape)]


def eltwise(s: Site) -> list[Value]:
    """Product, weighted sum or maximum of inputs of one shape."""
    p = s.param("eltwise_param")
    kind = p.enum("operation", ("PROD", "SUM", "MAX"), "SUM")
    factors = p.numbers("coeff")
    p.flag("stable_prod_grad")
    values = list(s.inputs)
    if len(values) < 2:
        raise LayerError(f"it needs two bottoms or more and has {len(values)}")
    shapes = {v.shape for v in values}
    if len(shapes) > 1:
        raise LayerError(f"its bottoms have different shapes: {', '.join(str(list(v.shape)) for v in values)}")
    if factors and (kind != "SUM" or len(factors) != len(values)):
        raise LayerError(f"it has {len(factors)} coeff for {len(values)} bottoms; only SUM takes them, one per bottom")
    if kind == "MAX":
        return [s.op("Max", values, s.x.shape)]
    for index, factor in enumerate(factors):
        if factor != 1:
            values[index] = s.op("Mul", [values[index], s.number(factor, f"coeff{index}")], s.x.shape)
    result = values[0]
    for value in values[1:]:
        result = s.op("Add" if kind == "SUM" else "Mul", [result, value], s.x.shape)
    return [result]


def axpy(s: Site) -> list[Value]:
    """a * x + y with one a per sample and channel (squeeze-and-excitation nets)."""
    a, x, y = s.input(0), s.input(1), s.input(2)
    if x.shape != y.shape or a.shape[:2] != x.shape[:2] or math.prod(a.shape[2:]) != 1:
        raise LayerError(f"shapes {list(a.shape)}, {list(x.shape)} and {list(y.shape)} do not fit together")
    a = s.reshape(a, (*x.shape[:2], *[1] * (len(x.shape) - 2)))
    return [s.op("Add", [s.op("Mul", [a, x], x.shape), y], x.shape)]


HANDLERS = {
    "AbsVal": _unary("Abs"),
    "Axpy": axpy,
    "BNLL": _unary("Softplus"),  # log(1 + exp(x))
    "Clip": clip,
    "Dropout": dropout,
    "ELU": elu,
    "Eltwise": eltwise,
    "Exp": exp,
    "HardSwish": _unary("HardSwish"),
    "Log": log,
    "Mish": _unary("Mish"),
    "PReLU": prelu,
    "Power": power,
    "ReLU": relu,
    "ReLU6": relu6,
    "Sigmoid": _unary("Sigmoid"),
    "Swish": swish,
    "TanH": _unary("Tanh"),
    "Threshold": threshold,
}
