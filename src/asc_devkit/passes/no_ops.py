"""Operators that return their input unchanged."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor

_TO_THE_END = 1 << 31


def bypass(node: ir.Node, ed: Editor) -> Outcome:
    """Let readers of output 0 read input 0; a graph output that cannot be given to the input keeps the node."""
    source, out = node.inputs[0], node.outputs[0]
    if source is None or not ed.can_replace(out, source):
        return Outcome.MATCHED
    ed.replace(out, source)
    return Outcome.CHANGED


class Identity(NodePass):
    """Identity(x) -> x. One that only gives a graph input or a second graph output its name stays."""

    name = "IdentityPass"
    level = 1
    ops = ("Identity",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        return bypass(node, ed)


class DropOut(NodePass):
    """Dropout in inference -> x (its mask must be unused)."""

    name = "DropOutPass"
    level = 1
    ops = ("Dropout",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        training = ed.input(node, 2)
        if training is not None and ed.scalar(training) != 0:
            return Outcome.NONE
        if any(o.uses() or o.is_graph_output() for o in node.outputs[1:]):
            return Outcome.MATCHED
        return bypass(node, ed)


class NoUseReshapeRemove(NodePass):
    """Reshape, Flatten, Squeeze, Unsqueeze, Expand or Tile to the shape the input already has -> x."""

    name = "NoUseReshapeRemovePass"
    level = 1
    ops = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        before, after = ed.dims(node.inputs[0]), ed.dims(node.outputs[0])
        if before is None or before != after:
            return Outcome.NONE
        return bypass(node, ed)


class BroadcastExpand(NodePass):
    """op(Expand(x), y) -> op(x, y) where the operator broadcasts to the same shape by itself."""

    name = "BroadcastExpandFusionPass"
    own = True
    ops = ("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less", "And", "Or", "Where")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        out = ed.dims(node.outputs[0])
        shapes = [ed.dims(v) for v in node.inputs]
        if out is None or None in shapes:
            return Outcome.NONE
        for i, value in enumerate(node.inputs):
            expand = ed.producer(value, "Expand")
            narrow = None if expand is None else expand.inputs[0]
            if narrow is None or ed.dims(narrow) is None or not ed.dominates(narrow, node):
                continue
            trial = [ed.dims(narrow) if j == i else s for j, s in enumerate(shapes)]
            if np.broadcast_shapes(*(s for s in trial if s is not None)) != out:
                continue
            inputs = list(node.inputs)
            inputs[i] = narrow
            ed.replace(node.outputs[0], ed.op(node.op_type, inputs, dict(node.attributes), name=node.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE


class UnchangedTransposeRemove(NodePass):
    """Transpose with the identity permutation -> x."""

    name = "UnchangedTransposeRemovePass"
    ops = ("Transpose",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        perm = ed.attr(node, "perm")
        if perm is None or list(perm) != list(range(len(perm))):
            return Outcome.NONE
        return bypass(node, ed)


class ShapeOperateOpRemove(NodePass):
    """Slice of everything, Pad by nothing, Concat, Sum, Max, Min or Mean of one, Split into one -> x."""

    name = "ShapeOperateOpRemovePass"
    level = 1
    ops = ("Slice", "Pad", "Concat", "Split", "Sum", "Max", "Min", "Mean")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if node.op_type == "Slice":
            idle = self._whole(node, ed)
        elif node.op_type == "Pad":
            pads = ed.ints(ed.input(node, 1))
            idle = pads is not None and not any(pads)
        elif node.op_type == "Split":
            idle = len(node.outputs) == 1
        else:
            idle = len(node.inputs) == 1
        return bypass(node, ed) if idle else Outcome.NONE

    @staticmethod
    def _whole(node: ir.Node, ed: Editor) -> bool:
        steps = ed.input(node, 4)
        if steps is not None and (ed.ints(steps) is None or any(s != 1 for s in ed.ints(steps) or ())):
            return False
        before, after = ed.dims(node.inputs[0]), ed.dims(node.outputs[0])
        if before is not None:
            return before == after
        starts, ends = ed.ints(ed.input(node, 1)), ed.ints(ed.input(node, 2))
        return starts is not None and ends is not None and not any(starts) and min(ends) >= _TO_THE_END


class NeutralElement(NodePass):
    """x + 0, x - 0, x * 1, x / 1, x ** 1 -> x when the constant does not widen the shape."""

    name = "NeutralElementFusionPass"
    own = True
    ops = ("Add", "Sub", "Mul", "Div", "Pow")

    numerics = "none (-0.0 + 0 would become -0.0)"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position in (1, 0) if node.op_type in ("Add", "Mul") else (1,):
            constant, x = node.inputs[position], node.inputs[1 - position]
            if not self._is_neutral(constant, 0.0 if node.op_type in ("Add", "Sub") else 1.0, ed) or x is None:
                continue
            if x.dtype != node.outputs[0].dtype:
                return Outcome.NONE
            before, after = ed.dims(x), ed.dims(node.outputs[0])
            if before is None or before != after or not ed.can_replace(node.outputs[0], x):
                return Outcome.MATCHED
            ed.replace(node.outputs[0], x)
            return Outcome.CHANGED
        return Outcome.NONE

    @staticmethod
    def _is_neutral(value: ir.Value | None, neutral: float, ed: Editor) -> bool:
        if value is None or value.const_value is None or value.const_value.size > 1 << 16:
            return False
        array = ed.const(value)
        return array is not None and array.size > 0 and bool((array == neutral).all())
