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
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.evaluate import arithmetic, movement
from asc_devkit.ops.evaluate.call import Array, Call, Function, Refuse

FUNCTIONS: Final[dict[str, Function]] = {**arithmetic.FUNCTIONS, **movement.FUNCTIONS}

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
            result = function(Call(node, inputs))
    except Refuse:
        return None
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError, AttributeError):
        return None  # inconsistent constants: the runtime's own error message is the right one
    arrays = (np.asarray(result),) if isinstance(result, np.ndarray | np.generic) else tuple(result)
    return arrays if _as_declared(node, arrays) else None


def apply(node: ir.Node, inputs: Sequence[Array | None]) -> Array:
    """First output of an operator of ``FUNCTIONS``, without limits and checks (for trusted small inputs)."""
    result = FUNCTIONS[node.op_type](Call(node, inputs))
    return np.asarray(result if isinstance(result, np.ndarray | np.generic) else result[0])


_GRAPH_ATTRS: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _within_limits(node: ir.Node, inputs: Sequence[Array | None], limit: int) -> bool:
    total = elements = 0
    for out in node.outputs:
        if not out.name and len(node.outputs) > 1:
            continue
        if out.shape is None or not out.shape.is_static():
            if node.op_type in _BOUNDED_BY_INPUT and sum(x.size for x in inputs if x is not None) <= REFERENCE_ELEMENTS:
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


def _reference(c: Call) -> Sequence[Array]:
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
        raise Refuse from error
    return [np.asarray(r) for r in results]
