"""Inference rules: elementwise operators, casts, reductions, normalisations, quantisation."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.infer.view import Dim, NodeView, Rule, Unknown, axis_of, broadcast

BOOL = ir.DataType.BOOL
INT64 = ir.DataType.INT64


def same(c: NodeView) -> None:
    """Output like input 0."""
    c.out(c.dtype(0), c.dims_or_none(0))


def boolean(c: NodeView) -> None:
    """Unary predicate."""
    c.out(BOOL, c.dims_or_none(0))


def broadcasting(c: NodeView) -> None:
    """Variadic arithmetic with broadcasting; dtype of input 0."""
    dtype = c.dtype(0)
    c.out(dtype, None)
    c.out(dtype, broadcast([c.dims(i) for i in range(len(c.node.inputs))]))


def comparison(c: NodeView) -> None:
    c.out(BOOL, None)
    c.out(BOOL, broadcast([c.dims(0), c.dims(1)]))


def where(c: NodeView) -> None:
    c.out(c.dtype(1), None)
    c.out(c.dtype(1), broadcast([c.dims(0), c.dims(1), c.dims(2)]))


def cast(c: NodeView) -> None:
    c.out(ir.DataType(c.attr("to")), c.dims_or_none(0))


def cast_like(c: NodeView) -> None:
    c.out(c.dtype(1), c.dims_or_none(0))


def prelu(c: NodeView) -> None:
    c.out(c.dtype(0), c.dims_or_none(0))


def dropout(c: NodeView) -> None:
    same(c)
    c.out(BOOL, c.dims_or_none(0), 1)


def reduce(c: NodeView) -> None:
    dtype, keep = c.dtype(0), c.attr("keepdims", 1)
    c.out(dtype, None)
    x = c.dims(0)
    axes: list[int] | None = []
    if c.has(1):
        axes = c.static_ints(1)
        if axes is None:
            if keep:
                c.out(dtype, (None,) * len(x))
            return
    if not axes:
        if c.attr("noop_with_empty_axes", 0):
            c.out(dtype, x)
            return
        axes = list(range(len(x)))
    _reduced(c, dtype, x, {axis_of(a, len(x)) for a in axes}, keep)


def arg_reduce(c: NodeView) -> None:
    c.out(INT64, None)
    x = c.dims(0)
    _reduced(c, INT64, x, {axis_of(c.attr("axis", 0), len(x))}, c.attr("keepdims", 1))


def _reduced(c: NodeView, dtype: ir.DataType | None, x: tuple[Dim, ...], gone: set[int], keep: int) -> None:
    if keep:
        c.out(dtype, tuple(1 if i in gone else d for i, d in enumerate(x)))
    else:
        c.out(dtype, tuple(d for i, d in enumerate(x) if i not in gone))


def layer_norm(c: NodeView) -> None:
    same(c)
    if len(c.node.outputs) > 1:
        x = c.dims(0)
        axis = axis_of(c.attr("axis", -1), len(x))
        stats = (*x[:axis], *(1 for _ in x[axis:]))
        for i in (1, 2):
            c.out(ir.DataType(c.attr("stash_type", 1)), stats, i)


def batch_norm(c: NodeView) -> None:
    same(c)
    for i in (1, 2):
        c.out(c.dtype(3), c.dims_or_none(3), i)


def quantize(c: NodeView) -> None:
    explicit = c.attr("output_dtype", 0)
    if explicit:
        dtype: ir.DataType | None = ir.DataType(explicit)
    else:
        dtype = c.dtype(2) if c.has(2) else ir.DataType.UINT8
    c.out(dtype, c.dims_or_none(0))


def dequantize(c: NodeView) -> None:
    explicit = c.attr("output_dtype", 0)
    c.out(ir.DataType(explicit) if explicit else c.dtype(1), c.dims_or_none(0))


def dynamic_quantize(c: NodeView) -> None:
    c.out(ir.DataType.UINT8, c.dims_or_none(0))
    c.out(ir.DataType.FLOAT, (), 1)
    c.out(ir.DataType.UINT8, (), 2)


def random_like(c: NodeView) -> None:
    dtype = c.attr("dtype")
    c.out(ir.DataType(dtype) if dtype else c.dtype(0), c.dims_or_none(0))


def random(c: NodeView) -> None:
    shape = c.attr("shape")
    if shape is None:
        raise Unknown
    c.out(ir.DataType(c.attr("dtype", 1)), tuple(shape))


# fmt: off
_SAME = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "CumSum", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "Identity",
    "InstanceNormalization", "GroupNormalization", "LRN", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization",
    "MeanVarianceNormalization", "Mish", "Neg", "Not", "RMSNormalization", "Reciprocal", "Relu",
    "ReverseSequence", "Round", "ScatterElements", "ScatterND", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu",
    "TensorScatter",
)
_BROADCAST = (
    "Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul",
    "Pow", "Sub", "Sum",
)
# fmt: on
_COMPARE = ["And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"]
_REDUCE = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(_BROADCAST, broadcasting),
    **dict.fromkeys(_COMPARE, comparison),
    **{f"Reduce{name}": reduce for name in _REDUCE},
    "ArgMax": arg_reduce,
    "ArgMin": arg_reduce,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "CastLike": cast_like,
    "DequantizeLinear": dequantize,
    "Dropout": dropout,
    "DynamicQuantizeLinear": dynamic_quantize,
    "IsInf": boolean,
    "IsNaN": boolean,
    "LayerNormalization": layer_norm,
    "PRelu": prelu,
    "QuantizeLinear": quantize,
    "RandomNormal": random,
    "RandomNormalLike": random_like,
    "RandomUniform": random,
    "RandomUniformLike": random_like,
    "Where": where,
}
