"""Evaluation of one ONNX node on numpy arrays, for constant folding and for shape arithmetic.

``evaluate`` answers with arrays or with ``None`` ("not evaluated": the node stays in the graph). It refuses rather than
guesses: random operators, control flow, quantities that would overflow a C++ cast, out-of-range indices, and results or
work beyond the limits below, so that a hostile model costs neither memory nor time.

Limits: a result may be as large as the node's constant inputs together, or ``RESULT_BYTES`` if that is more; loops of
more than ``WORK`` multiply-adds, and more than ``REFERENCE_ELEMENTS`` result elements in operators that only the (slow)
reference implementation knows, are refused. Output shapes come from ``ops.infer`` and must be static.

Semantics: ONNX operator specification at ``CANONICAL_OPSET``; integer division truncates toward zero as in ONNX
Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]

RESULT_BYTES: Final = 16 << 20
WORK: Final = 4_000_000_000
REFERENCE_ELEMENTS: Final = 1 << 20

_RANDOM: Final = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"})
_NEVER: Final = _RANDOM | {
    "Bernoulli",
    "Dropout",
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "StringNormalizer",
    "TfIdfVectorizer",
    "ImageDecoder",
    # The reference implementations of these do not agree with the specification's own test data in all modes.
    "Attention",
    "GRU",
    "LSTM",
    "RNN",
    # The int8 constant stays the stored form: unpacking it would quadruple the model.
    "DequantizeLinear",
}
# Result shape depends on the data, but is bounded by the input's.
_BOUNDED_BY_INPUT: Final = frozenset({"NonZero", "Compress", "Unique"})


class _Refuse(Exception):
    """The node cannot be evaluated here; never leaves this module."""


class _Call:
    """Inputs and attributes of the node under evaluation."""

    __slots__ = ("node", "x")

    def __init__(self, node: ir.Node, x: Sequence[Array | None]) -> None:
        self.node = node
        self.x = x

    def __getitem__(self, index: int) -> Array:
        value = self.x[index] if index < len(self.x) else None
        if value is None:
            raise _Refuse
        return value

    def get(self, index: int) -> Array | None:
        return self.x[index] if index < len(self.x) else None

    def attr(self, name: str, default: Any = None) -> Any:
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def ints(self, index: int) -> list[int] | None:
        """Input ``index`` as a list of Python integers, None when absent."""
        value = self.get(index)
        return None if value is None else [int(v) for v in value.reshape(-1)]


Function = Callable[[_Call], "Array | Sequence[Array]"]


def evaluate(
    node: ir.Node, inputs: Sequence[Array | None], result_bytes: int = RESULT_BYTES
) -> tuple[Array, ...] | None:
    """Outputs of ``node`` for the given inputs (None marks an absent optional one), or None when it is not evaluated.

    ``node.outputs`` must carry the inferred dtype and, unless the result is bounded by the input, a static shape.
    The arrays may share memory with the inputs.
    """
    if node.domain or node.op_type in _NEVER or any(a.type in _GRAPH_ATTRS for a in node.attributes.values()):
        return None
    known = sum(x.nbytes for x in inputs if x is not None)
    if not _within_limits(node, inputs, max(known, result_bytes)):
        return None
    function = FUNCTIONS.get(node.op_type, _reference)
    try:
        with np.errstate(all="ignore"):
            result = function(_Call(node, inputs))
    except _Refuse:
        return None
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError, AttributeError):
        return None  # inconsistent constants: the runtime's own error message is the right one
    arrays = (np.asarray(result),) if isinstance(result, np.ndarray | np.generic) else tuple(result)
    return arrays if _as_declared(node, arrays) else None


def apply(node: ir.Node, inputs: Sequence[Array | None]) -> Array:
    """First output of an operator of ``FUNCTIONS``, without limits and checks (for trusted small inputs)."""
    result = FUNCTIONS[node.op_type](_Call(node, inputs))
    return np.asarray(result if isinstance(result, np.ndarray | np.generic) else result[0])


_GRAPH_ATTRS: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _within_limits(node: ir.Node, inputs: Sequence[Array | None], limit: int) -> bool:
    total = elements = 0
    for out in node.outputs:
        if not out.name and len(node.outputs) > 1:
            continue
        if out.shape is None or not out.shape.is_static():
            if node.op_type in _BOUNDED_BY_INPUT:
                continue
            return False
        count = math.prod(out.shape.numpy())
        elements += count
        total += count * (out.dtype.bitwidth + 7) // 8 if out.dtype is not None and out.dtype in _SIZED else count * 8
    if total > limit:
        return False
    if node.op_type in ("MatMul", "Gemm"):
        first = inputs[0]
        return first is not None and first.ndim > 0 and elements * max(first.shape) <= WORK
    return node.op_type in FUNCTIONS or elements <= REFERENCE_ELEMENTS


_SIZED: Final = frozenset(d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING"))


def _as_declared(node: ir.Node, arrays: tuple[Array, ...]) -> bool:
    """True when dtype and shape are what inference promised (a mismatch means this module is wrong: do not fold)."""
    if len(arrays) < len(node.outputs):
        return False
    for out, array in zip(node.outputs, arrays, strict=False):
        if out.dtype is not None and array.dtype != object and ir.DataType.from_numpy(array.dtype) != out.dtype:
            return False
        if out.shape is not None and out.shape.is_static() and tuple(out.shape.numpy()) != array.shape:
            return False
    return True


# --- arithmetic ------------------------------------------------------------------------------------------------------


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
        raise _Refuse
    quotient = a // b
    if a.dtype.kind == "i":
        quotient = quotient + ((a % b != 0) & ((a < 0) != (b < 0)))
    return np.asarray(quotient)


def _mod(c: _Call) -> Array:
    a, b = c[0], c[1]
    if a.dtype.kind in "iu" and not np.all(b):
        raise _Refuse
    return np.asarray(np.fmod(a, b) if c.attr("fmod", 0) else np.mod(a, b), dtype=a.dtype)


def _power(c: _Call) -> Array:
    base, exponent = c[0], c[1]
    if base.dtype.kind in "iu":
        if exponent.dtype.kind not in "iu" or np.any(exponent < 0):
            raise _Refuse
        return np.asarray(np.power(base, exponent), dtype=base.dtype)
    return np.asarray(np.power(base, exponent.astype(base.dtype)), dtype=base.dtype)


def _fold_inputs(function: Callable[[Array, Array], Array]) -> Function:
    def run(c: _Call) -> Array:
        result = c[0]
        for i in range(1, len(c.x)):
            result = function(result, c[i])
        return np.asarray(result)

    return run


def _clip(c: _Call) -> Array:
    result = c[0]
    low, high = c.get(1), c.get(2)
    if low is not None:
        result = np.maximum(result, low)
    if high is not None:
        result = np.minimum(result, high)
    return np.asarray(result, dtype=c[0].dtype)


def _erf(x: Array) -> Array:
    if x.size > 1 << 16:
        raise _Refuse
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), dtype=x.dtype)


def _sigmoid(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(1 / (1 + np.exp(-wide)))


def _cast(c: _Call) -> Array:
    x = c[0]
    to = ir.DataType(c.attr("to"))
    if to == ir.DataType.STRING or x.dtype.kind in "OSU" or to.bitwidth < 8:
        raise _Refuse
    dtype = to.numpy()
    kind = np.dtype(dtype).kind
    if x.dtype.kind == "f" and kind in "iu":
        limits = np.iinfo(dtype)
        wide = x.astype(np.float64)
        outside = ~np.isfinite(wide) | (np.trunc(wide) < limits.min) | (wide >= limits.max + 1.0)
        if np.any(outside):
            if to != ir.DataType.INT64:
                raise _Refuse
            # What the 64-bit conversion of x86 gives, which is what ONNX Runtime returns there.
            return np.asarray(np.where(outside, limits.min, np.where(outside, 0, wide).astype(np.int64)))
    if "FLOAT8" in to.name or "FLOAT4" in to.name:
        raise _Refuse  # saturation rules differ between implementations
    return np.asarray(x.astype(dtype))


def _matmul(c: _Call) -> Array:
    a, b = c[0], c[1]
    if a.dtype == np.float16:
        return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32))).astype(np.float16)
    return np.asarray(np.matmul(a, b))


def _reduce(function: Callable[..., Any]) -> Function:
    def run(c: _Call) -> Array:
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
        raise _Refuse
    return np.mean(x, axis=axis, keepdims=keepdims)


def _is_inf(c: _Call) -> Array:
    positive, negative = c.attr("detect_positive", 1), c.attr("detect_negative", 1)
    return np.asarray((np.isposinf(c[0]) & bool(positive)) | (np.isneginf(c[0]) & bool(negative)))


def _cumsum(c: _Call) -> Array:
    x, axis = c[0], int(c[1].reshape(-1)[0])
    if c.attr("reverse", 0) or c.attr("exclusive", 0):
        raise _Refuse
    return np.asarray(np.cumsum(x, axis=axis, dtype=x.dtype))


# --- shapes and movement ---------------------------------------------------------------------------------------------


def _shape(c: _Call) -> Array:
    return np.array(c[0].shape[c.attr("start", 0) : c.attr("end", None)], dtype=np.int64)


def _reshape(c: _Call) -> Array:
    x, target = c[0], c.ints(1) or []
    if not c.attr("allowzero", 0):
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


def _squeeze(c: _Call) -> Array:
    axes = c.ints(1)
    return np.squeeze(c[0], axis=None if axes is None else tuple(axes))


def _unsqueeze(c: _Call) -> Array:
    return np.expand_dims(c[0], tuple(c.ints(1) or []))


def _flatten(c: _Call) -> Array:
    x, axis = c[0], c.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), -1) if x.size else x.reshape(math.prod(x.shape[:axis]), 0)


def _transpose(c: _Call) -> Array:
    return np.ascontiguousarray(np.transpose(c[0], c.attr("perm", None)))


def _concat(c: _Call) -> Array:
    return np.concatenate([c[i] for i in range(len(c.x))], axis=c.attr("axis"))


def _split(c: _Call) -> list[Array]:
    x, axis, sizes = c[0], c.attr("axis", 0), c.ints(1)
    if sizes is None:
        count = c.attr("num_outputs", len(c.node.outputs))
        step = -(-x.shape[axis] // count)
        bounds = [min(step * (i + 1), x.shape[axis]) for i in range(count - 1)]
    else:
        bounds = list(np.cumsum(sizes)[:-1])
    return [np.ascontiguousarray(p) for p in np.split(x, bounds, axis=axis)]


def _slice(c: _Call) -> Array:
    x = c[0]
    starts, ends = c.ints(1) or [], c.ints(2) or []
    axes = c.ints(3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = c.ints(4) or [1] * len(starts)
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice_of(x.shape[axis], start, end, step)
    return np.ascontiguousarray(x[tuple(index)])


def slice_of(dim: int, start: int, end: int, step: int) -> slice:
    """The Python slice equal to ONNX Slice on an axis of length ``dim``."""
    if step == 0:
        raise _Refuse
    start = start + dim if start < 0 else start
    end = end + dim if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), dim), min(max(end, 0), dim), step)
    start, end = min(max(start, 0), dim - 1), min(max(end, -1), dim - 1)
    return slice(start, None if end < 0 else end, step)


def _gather(c: _Call) -> Array:
    x, index, axis = c[0], c[1], c.attr("axis", 0)
    if index.size and (index.max() >= x.shape[axis] or index.min() < -x.shape[axis]):
        raise _Refuse
    return np.take(x, index, axis=axis)


def _gather_elements(c: _Call) -> Array:
    x, index, axis = c[0], c[1], c.attr("axis", 0)
    if index.size and (index.max() >= x.shape[axis] or index.min() < -x.shape[axis]):
        raise _Refuse
    return np.take_along_axis(x, np.where(index < 0, index + x.shape[axis], index), axis=axis)


def _gather_nd(c: _Call) -> Array:
    x, index = c[0], c[1]
    if c.attr("batch_dims", 0):
        raise _Refuse
    return np.ascontiguousarray(x[tuple(np.moveaxis(index, -1, 0))])


def _scatter_nd(c: _Call) -> Array:
    if c.attr("reduction", "none") != "none":
        raise _Refuse
    result: Array = c[0].copy()
    result[tuple(np.moveaxis(c[1], -1, 0))] = c[2]
    return result


def _expand(c: _Call) -> Array:
    x = c[0]
    return np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(c.ints(1) or []))))


def _constant_of_shape(c: _Call) -> Array:
    value = c.attr("value")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return np.full(tuple(c.ints(0) or []), fill.reshape(-1)[0], dtype=fill.dtype)


def _range(c: _Call) -> Array:
    start, limit, delta = c[0].reshape(()), c[1].reshape(()), c[2].reshape(())
    count = range_length(start, limit, delta)
    return np.asarray(start + np.arange(count).astype(start.dtype) * delta, dtype=start.dtype)


def range_length(start: Array, limit: Array, delta: Array) -> int:
    """Number of elements of ONNX Range."""
    if not float(delta):
        raise _Refuse
    return int(max(math.ceil((limit.item() - start.item()) / delta.item()), 0))


def _pad(c: _Call) -> Array:
    x, pads = c[0], c.ints(1) or []
    axes = c.ints(3)
    axes = list(range(x.ndim)) if axes is None else axes
    if c.attr("mode", "constant") != "constant" or min(pads, default=0) < 0:
        raise _Refuse
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis] = (pads[i], pads[i + len(axes)])
    fill = c.get(2)
    return np.pad(x, widths, constant_values=x.dtype.type(0) if fill is None else fill.reshape(-1)[0])


def _one_hot(c: _Call) -> Array:
    index, depth, values, axis = c[0], int(c[1].reshape(-1)[0]), c[2], c.attr("axis", -1)
    hot = np.expand_dims(np.where(index < 0, index + depth, index), axis)
    shape = [1] * hot.ndim
    shape[axis] = depth
    return np.asarray(np.where(hot == np.arange(depth).reshape(shape), values[1], values[0]), dtype=values.dtype)


def _trilu(c: _Call) -> Array:
    shift = c.get(1)
    k = 0 if shift is None else int(shift.reshape(-1)[0])
    return np.triu(c[0], k) if c.attr("upper", 1) else np.tril(c[0], k)


def _reference(c: _Call) -> Sequence[Array]:
    """Fallback: onnx's own reference implementation of the operator."""
    from onnx.reference import ReferenceEvaluator

    names = [f"x{i}" if x is not None else "" for i, x in enumerate(c.x)]
    proto = ir.serde.serialize_node(c.node)
    proto.ClearField("input")
    proto.input.extend(names)
    feeds = {n: x for n, x in zip(names, c.x, strict=True) if n}
    try:
        results = ReferenceEvaluator(proto).run(None, feeds)
    except Exception as error:  # the reference code raises whatever it likes
        raise _Refuse from error
    return [np.asarray(r) for r in results]


FUNCTIONS: Final[dict[str, Function]] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "And": _compare(np.logical_and),
    "Cast": _cast,
    "CastLike": lambda c: c[0].astype(c[1].dtype) if c[0].dtype.kind == c[1].dtype.kind else _refuse(),
    "Ceil": _unary(np.ceil),
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Cos": _unary(np.cos),
    "CumSum": _cumsum,
    "Div": _binary(_divide),
    "Equal": _compare(np.equal),
    "Erf": _unary(_erf),
    "Exp": _unary(np.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _unary(np.floor),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Greater": _compare(np.greater),
    "GreaterOrEqual": _compare(np.greater_equal),
    "Identity": lambda c: c[0],
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
    "NonZero": lambda c: np.array(np.nonzero(c[0]), dtype=np.int64),
    "Not": lambda c: np.logical_not(c[0]),
    "OneHot": _one_hot,
    "Or": _compare(np.logical_or),
    "Pad": _pad,
    "Pow": _power,
    "Range": _range,
    "Reciprocal": _unary(lambda x: 1 / x),
    "ReduceL1": _reduce(lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims)),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(_integer_mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Relu": _unary(lambda x: np.maximum(x, x.dtype.type(0))),
    "Reshape": _reshape,
    "Round": _unary(np.round),
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Sigmoid": _unary(_sigmoid),
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Size": lambda c: np.array(c[0].size, dtype=np.int64),
    "Slice": _slice,
    "Split": _split,
    "Sqrt": _unary(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _binary(np.subtract),
    "Sum": _fold_inputs(np.add),
    "Tanh": _unary(np.tanh),
    "Tile": lambda c: np.tile(c[0], c.ints(1) or []),
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "Where": lambda c: np.where(c[0], c[1], c[2]),
    "Xor": _compare(np.logical_xor),
}


def _refuse() -> Array:
    raise _Refuse
