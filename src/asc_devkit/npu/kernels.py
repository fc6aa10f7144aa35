"""Implementation modes in execution: inner steps of operators in fp16 (``high_performance``), operands in HF32.

Without a mode an operator computes all its inner steps in fp32 and rounds once. In the fast modes it takes the steps below
and every step is rounded to fp16; constants are fp16 too. Sums inside a step are added up wide and rounded once. The
formulas are the usual textbook ones; which steps a real kernel takes is not public, so the loss shown is of the right kind
and size, not that of a given kernel version.

HF32 (public Ascend C manual, SetHF32Mode and SetHF32): operands of the cube are rounded to 11 stored mantissa bits, to
nearest, ties to even; products are summed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge import impl_modes
from asc_devkit.ge.desc import IMPL_MODE, Engine
from asc_devkit.npu.numerics import Array, hf32
from asc_devkit.ops.catalogue import GeOp
from asc_devkit.ops.emit import Emitter, static_shape
from asc_devkit.ops.families.conv import by_end

Form = Callable[[Emitter], "ir.Value | Sequence[ir.Value] | None"]
_FAST: Final = frozenset({impl_modes.HIGH_PERFORMANCE, impl_modes.SUPER_PERFORMANCE, impl_modes.KEEP_FP16})
#: Steps whose result is an fp16 number whenever their operands are.
_EXACT: Final = frozenset({"Neg", "Abs", "Max", "Sign", "Clip", "ReduceMax", "Cast"})
#: Written here in two steps where the kernel takes one: a mean and its product with the area are the sum of a window.
_HALF_STEPS: Final = frozenset({"AveragePool"})


class Kernels:
    """Lowers operators by their implementation mode; ``steps`` collects the values to be rounded to fp16."""

    def __init__(self) -> None:
        self.steps: list[ir.Value] = []

    def __call__(self, spec: GeOp, e: Emitter) -> ir.Value | Sequence[ir.Value]:
        """The results of one operator (``ops.lowering.Kernel``)."""
        mode, outputs = e.node.meta.get(IMPL_MODE), e.node.outputs
        if mode in _FAST and spec.type in FORMS and outputs[0].dtype == ir.DataType.FLOAT16:
            made = FORMS[spec.type](e)
            if made is not None:
                results = {made} if isinstance(made, ir.Value) else set(made)
                inner = [
                    v for n in e.created if n.op_type not in _EXACT | _HALF_STEPS for v in n.outputs if v not in results
                ]
                self.steps += inner
                return made
        if mode == impl_modes.HI_FLOAT_32 and spec.engine is Engine.CUBE:
            for index, value in enumerate(e.node.inputs[:2]):
                if value is not None and value.dtype == ir.DataType.FLOAT:
                    e.inputs[index] = _hf32(e, e.inputs[index])
        return spec.lower(e)


def _hf32(e: Emitter, value: ir.Value | None) -> ir.Value | None:
    """``value`` rounded to HF32: Veltkamp's splitting keeps 24 - 12 bits, to nearest even (proved in the tests)."""
    if value is None:
        return None
    if value.const_value is not None and value.producer() is None:
        return e.constant(hf32(value.const_value.numpy()))
    shape = static_shape(value)

    def op(kind: str, *inputs: ir.Value | Array, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
        return e.op(kind, inputs, shape=shape, dtype=dtype)

    large = op("Mul", value, np.array(2**12 + 1, np.float32))
    high = op("Add", op("Sub", value, large), large)
    # beyond this the product overflows; such numbers, inf and NaN pass as they are
    small = op("Less", op("Abs", value), np.array(2.0**100, np.float32), dtype=ir.DataType.BOOL)
    return op("Where", small, high, value)


def _half(number: float) -> Array:
    """A constant as the fp16 kernel holds it."""
    return np.array(np.float16(number), np.float32)


def _operand(thing: ir.Value | float) -> ir.Value | Array:
    return thing if isinstance(thing, ir.Value) else _half(thing)


class _Steps:
    """The steps of one kernel, all of the shape of its first input."""

    def __init__(self, e: Emitter) -> None:
        self.e, self.x, self.shape = e, e.need(0), e.shape(0)

    def op(self, kind: str, *inputs: ir.Value | float, like: ir.Value | None = None) -> ir.Value:
        """One step; numbers become fp16 constants. ``like``: a value of the result's shape, if that is not the input's."""
        values = [_operand(v) for v in inputs]
        shape = self.shape if like is None else static_shape(like)
        return self.e.op(kind, values, shape=shape, dtype=ir.DataType.FLOAT)

    def reduce(self, kind: str, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        dims = None
        if self.shape is not None:
            ends = {a % len(self.shape) for a in axes}
            dims = [1 if i in ends else d for i, d in enumerate(self.shape)]
        inputs: list[ir.Value | Array] = [value, np.array(axes, np.int64)]
        return self.e.op(kind, inputs, {"keepdims": 1}, shape=dims, dtype=ir.DataType.FLOAT)

    def sigmoid(self, x: ir.Value) -> ir.Value:
        return self.op("Reciprocal", self.op("Add", self.op("Exp", self.op("Neg", x)), 1.0))

    def tanh(self, x: ir.Value) -> ir.Value:
        decay = self.op("Exp", self.op("Mul", self.op("Abs", x), -2.0))
        ratio = self.op("Div", self.op("Sub", 1.0, decay), self.op("Add", decay, 1.0))
        return self.op("Mul", ratio, self.op("Sign", x))

    def softplus(self, x: ir.Value) -> ir.Value:
        tail = self.op("Exp", self.op("Neg", self.op("Abs", x)))
        return self.op("Add", self.op("Max", x, 0.0), self.op("Log", self.op("Add", tail, 1.0)))


def _softmax(e: Emitter) -> ir.Value | None:
    axes = e.attr("axes")
    s = _Steps(e)
    power = s.op("Exp", s.op("Sub", s.x, s.reduce("ReduceMax", s.x, axes)))
    return s.op("Div", power, s.reduce("ReduceSum", power, axes))


def _log_softmax(e: Emitter) -> ir.Value | None:
    axes = e.attr("axes")
    s = _Steps(e)
    below = s.op("Sub", s.x, s.reduce("ReduceMax", s.x, axes))
    total = s.reduce("ReduceSum", s.op("Exp", below), axes)
    return s.op("Sub", below, s.op("Log", total, like=total))


def _swish(e: Emitter) -> ir.Value:
    s, scale = _Steps(e), e.attr("scale")
    return s.op("Mul", s.x, s.sigmoid(s.x if scale == 1.0 else s.op("Mul", s.x, scale)))


def _gelu(e: Emitter) -> ir.Value:
    """x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), the tanh form; ``super_performance`` takes x * sigmoid(1.702 x)."""
    if e.node.meta.get(IMPL_MODE) == impl_modes.SUPER_PERFORMANCE:
        return _fast_gelu(e)
    s = _Steps(e)
    cube = s.op("Mul", s.op("Mul", s.x, s.x), s.x)
    inner = s.op("Add", s.op("Mul", cube, 0.044715), s.x)
    return s.op("Mul", s.x, s.sigmoid(s.op("Mul", inner, 1.5957691216)))


def _fast_gelu(e: Emitter) -> ir.Value:
    s = _Steps(e)
    return s.op("Mul", s.x, s.sigmoid(s.op("Mul", s.x, 1.702)))


def _erf(e: Emitter) -> ir.Value:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26."""
    s = _Steps(e)
    size = s.op("Abs", s.x)
    t = s.op("Reciprocal", s.op("Add", s.op("Mul", size, 0.3275911), 1.0))
    series: ir.Value | float = 1.061405429
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = s.op("Add", s.op("Mul", t, series), factor)
    tail = s.op("Exp", s.op("Neg", s.op("Mul", size, size)))
    rest = s.op("Mul", s.op("Mul", series, t), tail)
    return s.op("Mul", s.op("Sub", 1.0, rest), s.op("Sign", s.x))


def _layer_norm(e: Emitter) -> Sequence[ir.Value] | None:
    rank, begin = e.rank(0), e.attr("begin_norm_axis", -1)
    if rank is None or e.used(1) or e.used(2):
        return None
    axes = list(range(begin % rank, rank))
    s = _Steps(e)
    centred = s.op("Sub", s.x, s.reduce("ReduceMean", s.x, axes))
    variance = s.reduce("ReduceMean", s.op("Mul", centred, centred), axes)
    spread = s.op("Sqrt", s.op("Add", variance, e.attr("epsilon", 1e-5), like=variance), like=variance)
    normal = s.op("Mul", centred, s.op("Reciprocal", spread, like=variance))
    scaled = s.op("Mul", normal, e.need(1))
    shift = e.value(2)
    return [scaled if shift is None else s.op("Add", scaled, shift)]


def _pow(e: Emitter) -> ir.Value | None:
    """exp(p log|x|) with the sign of an odd power; squares and cubes are products. The exponent must be one constant."""
    constant = e.const(1)
    if constant is None or constant.size != 1 or e.out_shape() != e.shape(0):
        return None
    s, power = _Steps(e), float(constant.reshape(()))
    if power in (2.0, 3.0):
        square = s.op("Mul", s.x, s.x)
        return square if power == 2.0 else s.op("Mul", square, s.x)
    if power == 0.0:
        return None
    whole = power.is_integer()
    made = s.op("Exp", s.op("Mul", s.op("Log", s.op("Abs", s.x) if whole else s.x), power))
    return s.op("Mul", made, s.op("Sign", s.x)) if whole and power % 2 else made


def _real_div(e: Emitter) -> ir.Value:
    divisor = e.need(1)
    inverse = e.op("Reciprocal", [divisor], shape=e.shape(1), dtype=ir.DataType.FLOAT)
    return e.op("Mul", [e.need(0), inverse], shape=e.out_shape(), dtype=ir.DataType.FLOAT)


def _hard_swish(e: Emitter) -> ir.Value:
    s = _Steps(e)
    gate = s.op("Clip", s.op("Add", s.x, 3.0), 0.0, 6.0)
    return s.op("Mul", s.op("Mul", s.x, gate), 1 / 6)


def _average(e: Emitter) -> ir.Value | None:
    """Sum of the window times 1 / area; only where every window has the same area."""
    padded = e.attr("padding_mode") == "SAME" or any(e.attr("pads") or ())
    if e.attr("global_pooling") or e.attr("divisor_override") or e.attr("ceil_mode"):
        return None
    window = e.attr("ksize")[2:]
    if padded and e.attr("exclusive"):
        return None
    area = int(np.prod(window))
    attrs = {
        "kernel_shape": window,
        "strides": e.attr("strides")[2:],
        "pads": by_end(e.attr("pads")) if e.attr("padding_mode") == "CALCULATED" else None,
        "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}.get(e.attr("padding_mode")),
        "dilations": e.attr("_dilations"),
        "count_include_pad": 1,
    }
    shape = e.out_shape()
    mean = e.op("AveragePool", [e.need(0)], attrs, shape=shape, dtype=ir.DataType.FLOAT)
    total = e.op("Mul", [mean, np.array(area, np.float32)], shape=shape, dtype=ir.DataType.FLOAT)
    return e.op("Mul", [total, _half(1 / area)], shape=shape, dtype=ir.DataType.FLOAT)


def _over_x(form: str) -> Form:
    def lower(e: Emitter) -> ir.Value:
        s = _Steps(e)
        made: ir.Value = getattr(s, form)(s.x)
        return made

    return lower


def _mish(e: Emitter) -> ir.Value:
    s = _Steps(e)
    return s.op("Mul", s.x, s.tanh(s.softplus(s.x)))


def _rsqrt(e: Emitter) -> ir.Value:
    s = _Steps(e)
    return s.op("Reciprocal", s.op("Sqrt", s.x))


#: The fp16 forms by GE type; ``ge.impl_modes.TWO_FORMS`` names the same types for the conversion.
FORMS: Final[dict[str, Form]] = {
    "SoftmaxV2": _softmax,
    "LogSoftmaxV2": _log_softmax,
    "Sigmoid": _over_x("sigmoid"),
    "Tanh": _over_x("tanh"),
    "Softplus": _over_x("softplus"),
    "Mish": _mish,
    "Swish": _swish,
    "Gelu": _gelu,
    "GeluV2": _gelu,
    "FastGelu": _fast_gelu,
    "Erf": _erf,
    "LayerNormV3": _layer_norm,
    "Pow": _pow,
    "Rsqrt": _rsqrt,
    "RealDiv": _real_div,
    "HardSwish": _hard_swish,
    "AvgPoolV2": _average,
}
