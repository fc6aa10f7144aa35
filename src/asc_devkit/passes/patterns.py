"""Reading expressions out of a graph: products, sums with a constant, means, roots, per-channel constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.editor import FLOATS, Array, Editor

_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Product:
    """coefficient * factor_0 * factor_1 * ...; ``nodes`` are the inner nodes that multiply."""

    coefficient: float
    factors: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...] = ()


def product(node: ir.Node, ed: Editor) -> Product:
    """The product a Mul or Div node computes, through the Mul, Div-by-constant and small Pow nodes only it uses."""
    coefficient = 1.0
    factors: list[ir.Value] = []
    nodes: list[ir.Node] = []

    def expand(node: ir.Node, depth: int) -> bool:
        nonlocal coefficient
        a, b = node.inputs[0], node.inputs[1]
        if a is None or b is None:
            return False
        if node.op_type == "Mul":
            visit(a, depth)
            visit(b, depth)
            return True
        number = ed.scalar(b)
        if number is None or number == 0:
            return False
        if node.op_type == "Div":
            coefficient /= number
            visit(a, depth)
            return True
        if number in (2.0, 3.0):
            for _ in range(int(number)):
                factors.append(a)
            return True
        return False

    def visit(value: ir.Value, depth: int) -> None:
        nonlocal coefficient
        number = ed.scalar(value)
        if number is not None:
            coefficient *= number
            return
        inner = ed.sole_producer(value, "Mul", "Div", "Pow") if depth < _DEPTH else None
        if inner is not None:
            saved = coefficient
            if expand(inner, depth + 1):
                nodes.append(inner)
                return
            coefficient = saved
        factors.append(value)

    if not expand(node, 0):
        factors.append(node.outputs[0])
    return Product(coefficient, tuple(factors), tuple(nodes))


def product_of(value: ir.Value, ed: Editor) -> Product:
    """Like ``product`` for a value: itself when its producer does not multiply."""
    node = ed.producer(value, "Mul", "Div", "Pow")
    if node is None:
        return Product(1.0, (value,))
    if node.op_type == "Pow":
        number, base = ed.scalar(node.inputs[1]), node.inputs[0]
        if number in (2.0, 3.0) and base is not None:
            return Product(1.0, (base,) * int(number), (node,))
        return Product(1.0, (value,))
    found = product(node, ed)
    return Product(found.coefficient, found.factors, (*found.nodes, node))


def plus_constant(value: ir.Value | None, ed: Editor) -> tuple[ir.Value, float, ir.Node] | None:
    """(x, c, node) when ``value`` is x + c or x - c with a number c."""
    node = ed.producer(value, "Add", "Sub")
    if node is None:
        return None
    a, b = node.inputs[0], node.inputs[1]
    number = ed.scalar(b)
    if number is not None and a is not None:
        return a, -number if node.op_type == "Sub" else number, node
    number = ed.scalar(a)
    if number is not None and b is not None and node.op_type == "Add":
        return b, number, node
    return None


def close(a: float | None, b: float, value: ir.Value) -> bool:
    """Equality of a constant with its ideal value, at the precision of ``value``'s dtype."""
    tolerance = 1e-5 if value.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else 4e-3
    return a is not None and abs(a - b) <= tolerance * max(abs(b), 1e-30)


def clip_range(node: ir.Node, ed: Editor) -> tuple[float, float] | None:
    """(low, high) of a Clip or Relu with constant bounds; infinities where open."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    bounds = [float("-inf"), float("inf")]
    for i in (1, 2):
        value = ed.input(node, i)
        if value is not None:
            number = ed.scalar(value)
            if number is None:
                return None
            bounds[i - 1] = number
    return bounds[0], bounds[1]


def reduced_axes(node: ir.Node, ed: Editor) -> list[int] | None:
    """Axes (counted from the front, sorted) of a Reduce node with constant axes, None when not known."""
    rank = ed.rank(node.inputs[0])
    if rank is None:
        return None
    axes_input = ed.input(node, 1)
    axes = ed.ints(axes_input) if axes_input is not None else []
    if axes is None or (not axes and ed.attr(node, "noop_with_empty_axes", 0)):
        return None
    return sorted(a % rank for a in axes) if axes else list(range(rank))


def closed(inner: Iterable[ir.Node], root: ir.Node) -> bool:
    """True when nothing outside the pattern reads what ``inner`` nodes compute."""
    members = {*inner, root}
    for node in members:
        if node is root:
            continue
        for out in node.outputs:
            if out.is_graph_output() or any(u.node not in members for u in out.uses()):
                return False
    return True


def is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in FLOATS


def along_axis(array: Array, length: int, rank: int, axis: int) -> Array | None:
    """``array`` as float64 vector along ``axis`` of a tensor of ``rank`` dimensions; None when it varies elsewhere."""
    if array.ndim > rank:
        if any(d != 1 for d in array.shape[: array.ndim - rank]):
            return None
        array = array.reshape(array.shape[array.ndim - rank :])
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(d != 1 for i, d in enumerate(shape) if i != axis) or shape[axis] not in (1, length):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (length,))


def channel_affine(
    node: ir.Node, x: ir.Value, length: int, rank: int, axis: int, ed: Editor
) -> tuple[Array, Array] | None:
    """(scale, shift), float64 vectors, when ``node`` computes x * scale + shift per channel with constants."""
    one, zero = np.ones(length), np.zeros(length)
    if node.op_type == "BatchNormalization":
        if node.inputs[0] is not x or axis != 1 or ed.attr(node, "training_mode", 0):
            return None
        gathered = [ed.const(ed.input(node, i)) for i in range(1, 5)]
        parameters = [p.astype(np.float64).reshape(-1) for p in gathered if p is not None]
        if len(parameters) != 4 or any(p.size != length for p in parameters):
            return None
        gamma, beta, mean, variance = parameters
        root = np.sqrt(variance + float(ed.attr(node, "epsilon", 1e-5)))
        if not np.all(root > 0):
            return None
        return gamma / root, beta - mean * gamma / root
    if node.op_type == "Neg":
        return -one, zero
    a, b = node.inputs[0], node.inputs[1]
    other = b if a is x else a
    if other is x or not ed.is_const(other):
        return None
    array = ed.const(other)
    vector = None if array is None or array.size > length else along_axis(array, length, rank, axis)
    if vector is None:
        return None
    if node.op_type == "Mul":
        return vector, zero
    if node.op_type == "Div":
        return (1.0 / vector, zero) if a is x and np.all(vector) else None
    if node.op_type == "Add":
        return one, vector
    if node.op_type == "Sub":
        return (one, -vector) if a is x else (-one, vector)
    return None
