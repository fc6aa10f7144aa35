"""Slice, Gather, Split and Concat: several of them that one can replace."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor

_MAX_PARTS = 64
Range = tuple[int, int, int]  # first element, number of elements, step


def slices_of(node: ir.Node, ed: Editor) -> dict[int, Range] | None:
    """Axis -> range of a Slice with constant parameters on a static shape, None when not known."""
    x, y = ed.dims(node.inputs[0]), ed.dims(node.outputs[0])
    starts = ed.ints(ed.input(node, 1))
    axes = ed.ints(ed.input(node, 3)) if ed.input(node, 3) is not None else list(range(len(starts or ())))
    steps = ed.ints(ed.input(node, 4)) if ed.input(node, 4) is not None else [1] * len(starts or ())
    if x is None or y is None or starts is None or axes is None or steps is None:
        return None
    ranges: dict[int, Range] = {}
    for start, axis, step in zip(starts, axes, steps, strict=True):
        axis %= len(x)
        if step < 0:
            return None
        start = start + x[axis] if start < 0 else start
        ranges[axis] = (min(max(start, 0), x[axis]), y[axis], step)
    return ranges


def slice_op(ed: Editor, x: ir.Value, ranges: dict[int, Range], of: ir.Node) -> ir.Value:
    """A Slice with the given ranges (axes in order) in place of ``of``."""
    axes = sorted(ranges)
    rows = [[ranges[a][0] for a in axes], [_end(ranges[a]) for a in axes], axes, [ranges[a][2] for a in axes]]
    inputs: list[ir.Value | Array] = [x, *(np.array(r, dtype=np.int64) for r in rows)]
    if all(s == 1 for s in rows[3]):
        inputs.pop()
    return ed.op("Slice", inputs, name=of.name or "")


def _end(r: Range) -> int:
    start, count, step = r
    return start + (count - 1) * step + 1 if count else start


class SliceMerge(NodePass):
    """Slice(Slice(x)) -> one Slice (positive steps, static shapes)."""

    name = "SliceMergeFusionPass"
    own = True
    ops = ("Slice",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner_node = ed.producer(node.inputs[0], "Slice")
        if inner_node is None:
            return Outcome.NONE
        outer, inner, x = slices_of(node, ed), slices_of(inner_node, ed), inner_node.inputs[0]
        if outer is None or inner is None or x is None or not ed.dominates(x, node):
            return Outcome.MATCHED
        if not ed.used_once(inner_node.outputs[0]) and not all(
            u.node.op_type == "Slice" for u in inner_node.outputs[0].uses()
        ):
            return Outcome.MATCHED
        merged = dict(inner)
        for axis, (start, count, step) in outer.items():
            first, _, inner_step = inner.get(axis, (0, 0, 1))
            merged[axis] = (first + start * inner_step, count, step * inner_step)
        ed.replace(node.outputs[0], slice_op(ed, x, merged, node))
        return Outcome.CHANGED


class GatherToSlice(NodePass):
    """Gather of consecutive constant indices -> Slice; of one index, with the Unsqueeze behind it -> Slice."""

    name = "GatherToSliceFusionPass"
    own = True
    ops = ("Gather", "Unsqueeze", "Reshape")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        gather = node if node.op_type == "Gather" else ed.sole_producer(node.inputs[0], "Gather")
        if gather is None:
            return Outcome.NONE
        x, dims = gather.inputs[0], ed.dims(gather.inputs[0])
        index_value = gather.inputs[1]
        if x is None or dims is None or not dims or ed.is_const(x) or not ed.dominates(x, node):
            return Outcome.NONE
        if index_value is None or index_value.const_value is None or index_value.const_value.size > max(dims):
            return Outcome.NONE
        index = ed.const(index_value)
        axis = int(ed.attr(gather, "axis", 0)) % len(dims)
        if index is None or index.ndim > 1 or not index.size or index.dtype.kind != "i":
            return Outcome.NONE
        positions = [int(i) + dims[axis] if i < 0 else int(i) for i in index.reshape(-1)]
        if min(positions) < 0 or max(positions) >= dims[axis]:
            return Outcome.NONE
        after = ed.dims(node.outputs[0])
        sliced = (*dims[:axis], len(positions), *dims[axis + 1 :])
        if after != sliced or positions != list(range(positions[0], positions[0] + len(positions))):
            return Outcome.NONE
        ed.replace(node.outputs[0], slice_op(ed, x, {axis: (positions[0], len(positions), 1)}, node))
        return Outcome.CHANGED


class SlicesToSplit(NodePass):
    """Slices that cut all of x into consecutive parts along one axis -> Split(x)."""

    name = "SlicesToSplitFusionPass"
    own = True
    ops = ("Slice",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        x, dims = node.inputs[0], ed.dims(node.inputs[0])
        ranges = slices_of(node, ed)
        if x is None or dims is None or ranges is None or len(ranges) != 1 or not 2 <= len(x.uses()) <= _MAX_PARTS:
            return Outcome.NONE
        axis = next(iter(ranges))
        parts: list[tuple[int, int, ir.Node]] = []
        for user, position in x.uses():
            if user.op_type != "Slice" or user.domain or position != 0 or user.graph is not node.graph:
                continue
            if any(u.node.op_type == "Slice" for u in user.outputs[0].uses()):
                continue  # SliceMerge makes one of the two
            cut = slices_of(user, ed)
            if cut is not None and list(cut) == [axis] and cut[axis][2] == 1:
                parts.append((cut[axis][0], cut[axis][1], user))
        parts.sort(key=lambda p: p[:2])
        position = 0
        for start, count, _ in parts:
            if start != position or count == 0:
                return Outcome.NONE
            position += count
        if position != dims[axis] or len(parts) < 2:
            return Outcome.NONE
        first = ed.first_of([p[2] for p in parts])
        sizes = np.array([p[1] for p in parts], dtype=np.int64)
        split = ed.op("Split", [x, sizes], {"axis": axis}, outputs=len(parts), before=first).producer()
        assert split is not None
        for (_, _, old), new in zip(parts, split.outputs, strict=True):
            ed.replace(old.outputs[0], new)
        return Outcome.CHANGED


class ConcatMerge(NodePass):
    """Concat(..., Concat(a, b), ...) along the same axis -> Concat(..., a, b, ...)."""

    name = "ZConcatExt2FusionPass"
    ops = ("Concat",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        rank = ed.rank(node.outputs[0])
        inner = [ed.sole_producer(v, "Concat") for v in node.inputs]
        if rank is None or not any(inner):
            return Outcome.NONE
        axis = int(ed.attr(node, "axis")) % rank
        inputs: list[ir.Value | None] = []
        merged = False
        for value, concat in zip(node.inputs, inner, strict=True):
            if concat is not None and int(ed.attr(concat, "axis")) % rank == axis:
                inputs.extend(concat.inputs)
                merged = True
            else:
                inputs.append(value)
        if not merged:
            return Outcome.NONE
        ed.replace(node.outputs[0], ed.op("Concat", inputs, {"axis": axis}, name=node.name or ""))
        return Outcome.CHANGED


class SplitConcatRemove(NodePass):
    """Concat of all parts of a Split along its axis, in order -> x."""

    name = "SplitConcatRemovePass"
    own = True
    ops = ("Concat",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        split, rank = ed.producer(node.inputs[0], "Split"), ed.rank(node.outputs[0])
        if split is None or rank is None or list(node.inputs) != list(split.outputs) or split.inputs[0] is None:
            return Outcome.NONE
        if int(ed.attr(split, "axis", 0)) % rank != int(ed.attr(node, "axis")) % rank:
            return Outcome.NONE
        if not ed.dominates(split.inputs[0], node):
            return Outcome.MATCHED
        ed.alias(node.outputs[0], split.inputs[0])
        return Outcome.CHANGED


class StridedSliceConcat(NodePass):
    """Concat of the b*b slices x[:, :, i::b, j::b] -> SpaceToDepth(x), channels reordered in the Conv that follows.

    The order of the slices is free: a Conv (one group, constant weights) that is the only reader takes its input
    channels in SpaceToDepth's order. Without one, the order must already be SpaceToDepth's.
    """

    name = "StridedSliceConcatFusionPass"
    ops = ("Concat",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        slices = [ed.sole_producer(v, "Slice") for v in node.inputs]
        block = round(len(slices) ** 0.5)
        first = slices[0]
        if block < 2 or block * block != len(slices) or first is None:
            return Outcome.NONE
        x, dims = first.inputs[0], ed.dims(first.inputs[0])
        if dims is None or len(dims) != 4 or int(ed.attr(node, "axis")) % 4 != 1 or not is_block(dims, block):
            return Outcome.NONE
        order: list[int] = []
        for item in slices:
            ranges = None if item is None or item.inputs[0] is not x else slices_of(item, ed)
            if ranges is None or not set(ranges) <= {2, 3}:
                return Outcome.NONE
            offsets = []
            for axis in (2, 3):
                start, count, step = ranges.get(axis, (0, dims[axis], 1))
                if step != block or count != dims[axis] // block or start >= block:
                    return Outcome.NONE
                offsets.append(start)
            order.append(offsets[0] * block + offsets[1])
        if sorted(order) != list(range(block * block)):
            return Outcome.NONE
        out = node.outputs[0]
        natural = order == sorted(order)
        conv = out.uses()[0].node if ed.used_once(out) else None  # type: ignore[index]
        weight = ed.const(ed.input(conv, 1)) if conv is not None and conv.op_type == "Conv" else None
        if not natural and (conv is None or weight is None or ed.attr(conv, "group", 1) != 1):
            return Outcome.MATCHED
        packed = ed.op("SpaceToDepth", [x], {"blocksize": block}, name=node.name or "")
        if not natural:
            assert conv is not None and weight is not None
            channels = np.argsort(order)
            parts = weight.reshape(weight.shape[0], len(order), dims[1], *weight.shape[2:])
            ed.set_input(conv, 1, ed.constant(parts[:, channels].reshape(weight.shape)))
            ed.set_input(conv, 0, packed)
        else:
            ed.replace(out, packed)
        return Outcome.CHANGED


def is_block(dims: tuple[int, ...], block: int) -> bool:
    """True when height and width are multiples of ``block``."""
    return dims[2] % block == 0 and dims[3] % block == 0
