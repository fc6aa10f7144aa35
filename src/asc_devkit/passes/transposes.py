"""Transposes that cancel, merge, or move only dimensions of length 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.reshapes import RESHAPES, reshape


def perm_of(node: ir.Node, ed: Editor) -> list[int] | None:
    """Permutation of a Transpose (the default reverses all axes), None when the rank is unknown."""
    perm = ed.attr(node, "perm")
    if perm is not None:
        return list(perm)
    rank = ed.rank(node.inputs[0])
    return None if rank is None else list(range(rank - 1, -1, -1))


def inverse(perm: list[int]) -> list[int]:
    result = [0] * len(perm)
    for i, p in enumerate(perm):
        result[p] = i
    return result


class TransOpSymmetryElimination(NodePass):
    """Transpose(Transpose(x, p), q) -> Transpose(x, p[q]), or x when p[q] is the identity."""

    name = "TransOpSymmetryEliminationPass"
    ops = ("Transpose",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner = ed.producer(node.inputs[0], "Transpose")
        if inner is None:
            return Outcome.NONE
        source, first, second = inner.inputs[0], perm_of(inner, ed), perm_of(node, ed)
        if source is None or first is None or second is None or len(first) != len(second):
            return Outcome.MATCHED
        if not ed.dominates(source, node):
            return Outcome.MATCHED
        perm = [first[p] for p in second]
        if perm == list(range(len(perm))):
            ed.alias(node.outputs[0], source)
        else:
            ed.replace(node.outputs[0], ed.op("Transpose", [source], {"perm": perm}, name=node.name or ""))
        return Outcome.CHANGED


class Dim1TransposeToSqueeze(NodePass):
    """Transpose that keeps the order of all dimensions longer than 1 -> Reshape (no data moves)."""

    name = "Dim1TransposeToSqueezePass"
    ops = ("Transpose",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        dims, perm = ed.dims(node.inputs[0]), perm_of(node, ed)
        if dims is None or perm is None or node.inputs[0] is None:
            return Outcome.NONE
        moved = [p for p in perm if dims[p] != 1]
        if moved != sorted(moved) or perm == sorted(perm):
            return Outcome.NONE
        after = tuple(dims[p] for p in perm)
        ed.replace(node.outputs[0], reshape(ed, node.inputs[0], after, node))
        return Outcome.CHANGED


class TransposeReshapeFusion(NodePass):
    """Reshape(Transpose(x, p)) of the same rank that only moves dimensions of length 1 -> Transpose(x, q)."""

    name = "TransposeReshapeFusionPass"
    ops = RESHAPES

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner = ed.sole_producer(node.inputs[0], "Transpose")
        if inner is None or inner.inputs[0] is None or not ed.dominates(inner.inputs[0], node):
            return Outcome.NONE
        perm, middle, after = perm_of(inner, ed), ed.dims(node.inputs[0]), ed.dims(node.outputs[0])
        moves = None if middle is None or after is None else unit_moves(middle, after)
        if perm is None or moves is None:
            return Outcome.NONE
        perm = [perm[m] for m in moves]
        ed.replace(node.outputs[0], ed.op("Transpose", [inner.inputs[0]], {"perm": perm}, name=inner.name or ""))
        return Outcome.CHANGED


class ReshapeTransposeFusion(NodePass):
    """Transpose(Reshape(x), p), the Reshape keeping rank and only moving dimensions of length 1 -> Transpose(x, q)."""

    name = "ReshapeTransposeFusionPass"
    ops = ("Transpose",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner = ed.sole_producer(node.inputs[0], *RESHAPES)
        if inner is None or inner.inputs[0] is None or not ed.dominates(inner.inputs[0], node):
            return Outcome.NONE
        perm, before, middle = perm_of(node, ed), ed.dims(inner.inputs[0]), ed.dims(node.inputs[0])
        moves = None if before is None or middle is None else unit_moves(before, middle)
        if perm is None or moves is None:
            return Outcome.NONE
        perm = [moves[p] for p in perm]
        ed.replace(node.outputs[0], ed.op("Transpose", [inner.inputs[0]], {"perm": perm}, name=node.name or ""))
        return Outcome.CHANGED


class TransposeReduceFusion(NodePass):
    """Reduce(Transpose(x, p)) without kept axes -> Reduce(x) when the remaining axes are in the order of x."""

    name = "TransposeReduceFusionPass"
    own = True
    ops = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")
    numerics = "none beyond the order of the sum"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner = ed.producer(node.inputs[0], "Transpose")
        perm = None if inner is None else perm_of(inner, ed)
        axes = ed.ints(ed.input(node, 1))
        if inner is None or perm is None or not axes or ed.attr(node, "keepdims", 1):
            return Outcome.NONE
        gone = {a % len(perm) for a in axes}
        kept = [p for i, p in enumerate(perm) if i not in gone]
        if kept != sorted(kept) or inner.inputs[0] is None or not ed.dominates(inner.inputs[0], node):
            return Outcome.MATCHED
        new_axes = np.array(sorted(perm[a] for a in gone), dtype=np.int64)
        made = ed.op(node.op_type, [inner.inputs[0], new_axes], dict(node.attributes), name=node.name or "")
        ed.replace(node.outputs[0], made)
        return Outcome.CHANGED


def unit_moves(before: tuple[int, ...], after: tuple[int, ...]) -> list[int] | None:
    """The permutation a Reshape between these shapes is, None when it is none."""
    if len(before) != len(after) or 0 in before:
        return None
    long = [i for i, d in enumerate(before) if d != 1]
    if [before[i] for i in long] != [d for d in after if d != 1]:
        return None
    units, longs = iter([i for i, d in enumerate(before) if d == 1]), iter(long)
    return [next(units) if d == 1 else next(longs) for d in after]


def axis_sources(between: ir.Node, ed: Editor) -> list[int | None] | None:
    """Axis of the input each axis of the output of ``between`` comes from (None: a new one of length 1)."""
    if between.op_type == "Transpose":
        perm = perm_of(between, ed)
        return None if perm is None else list(perm)
    before, after = ed.dims(between.inputs[0]), ed.dims(between.outputs[0])
    if before is None or after is None:
        return None
    long = [i for i, d in enumerate(before) if d != 1]
    if [before[i] for i in long] != [d for d in after if d != 1]:
        return None
    rest = iter(long)
    return [None if d == 1 else next(rest) for d in after]
