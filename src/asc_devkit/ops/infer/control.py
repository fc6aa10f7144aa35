"""Inference through If, Loop and Scan: their bodies are walked like graphs, outputs follow from the bodies' outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from asc_devkit.ops.infer.view import Dims, NodeView, axis_of, dims_of, set_type

Walk = Callable[[ir.Graph], None]


def if_(c: NodeView, walk: Walk) -> None:
    """Each output has what both branches agree on."""
    branches = [c.attr("then_branch"), c.attr("else_branch")]
    for branch in branches:
        walk(branch)
    for i, out in enumerate(c.node.outputs):
        pair = [b.outputs[i] for b in branches if i < len(b.outputs)]
        if len(pair) != 2:
            continue
        if pair[0].type is not None and not isinstance(pair[0].type, ir.TensorType):
            out.type = pair[0].type
            continue
        set_type(out, pair[0].dtype or pair[1].dtype, _agreed(dims_of(pair[0]), dims_of(pair[1])))


def loop(c: NodeView, walk: Walk) -> None:
    """Inputs: trip count, condition, carried values; a carried shape that changes in the body becomes unknown."""
    body: ir.Graph = c.attr("body")
    carried = len(c.node.inputs) - 2
    for value, dtype in zip(body.inputs[:2], (ir.DataType.INT64, ir.DataType.BOOL), strict=False):
        set_type(value, dtype, ())
    _carry(c, body.inputs[2:], 2)
    walk(body)
    if _generalise(body.inputs[2:], body.outputs[1 : 1 + carried]):
        walk(body)
    trips = c.static_ints(0)
    for i, out in enumerate(c.node.outputs):
        if i + 1 >= len(body.outputs):
            break
        result = body.outputs[i + 1]
        dims = dims_of(result)
        if i < carried:
            # The body may run zero times: the result is then the initial value.
            set_type(out, result.dtype, _agreed(dims, c.dims_or_none(i + 2)))
        elif dims is not None:
            set_type(out, result.dtype, (_trip_count(c, body, trips), *dims))


def _trip_count(c: NodeView, body: ir.Graph, trips: list[int] | None) -> int | None:
    """Number of iterations when it is fixed: a constant trip count and a condition that is only passed through."""
    passed = not c.has(1) and body.outputs[0] is body.inputs[1]
    return max(trips[0], 0) if trips and passed else None


def scan(c: NodeView, walk: Walk) -> None:
    """State variables first, then inputs that are cut along their scan axis."""
    body: ir.Graph = c.attr("body")
    cut = c.attr("num_scan_inputs")
    states = len(c.node.inputs) - cut
    axes = c.attr("scan_input_axes") or [0] * cut
    length = None
    for i in range(cut):
        dims = c.dims_or_none(states + i)
        inner = body.inputs[states + i]
        if dims is None:
            set_type(inner, c.dtype(states + i), None)
            continue
        axis = axis_of(axes[i], len(dims))
        length = dims[axis] if isinstance(dims[axis], int) else length
        set_type(inner, c.dtype(states + i), (*dims[:axis], *dims[axis + 1 :]))
    _carry(c, body.inputs[:states], 0)
    walk(body)
    if _generalise(body.inputs[:states], body.outputs[:states]):
        walk(body)
    out_axes = c.attr("scan_output_axes") or [0] * (len(c.node.outputs) - states)
    for i, out in enumerate(c.node.outputs):
        if i >= len(body.outputs):
            break
        result = body.outputs[i]
        dims = dims_of(result)
        if i < states:
            set_type(out, result.dtype, dims)
        elif dims is not None:
            axis = axis_of(out_axes[i - states], len(dims) + 1)
            set_type(out, result.dtype, (*dims[:axis], length, *dims[axis:]))


def _carry(c: NodeView, inner: Sequence[ir.Value], offset: int) -> None:
    """Give carried body inputs the type of the node inputs they start from."""
    for i, value in enumerate(inner):
        outer = c.value(offset + i)
        if outer is None:
            continue
        if outer.type is not None and not isinstance(outer.type, ir.TensorType):
            value.type = outer.type
            continue
        dims = dims_of(outer)
        value.shape = None if dims is None else ir.Shape(dims)
        set_type(value, outer.dtype, None)


def _generalise(inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> bool:
    """Drop carried dims the body changes; True when any changed (the body must be walked again)."""
    changed = False
    for value, result in zip(inputs, outputs, strict=False):
        before = dims_of(value)
        if before is None:
            continue
        agreed = _agreed(before, dims_of(result))
        if agreed != before:
            value.shape = None if agreed is None else ir.Shape(agreed)
            changed = True
    return changed


def _agreed(a: Dims | None, b: Dims | None) -> Dims | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(d if d == e else None for d, e in zip(a, b, strict=True))


RULES: dict[str, Callable[[NodeView, Walk], None]] = {"If": if_, "Loop": loop, "Scan": scan}
