"""Padding moves into the convolution or pooling behind it."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.reshapes import RESHAPES, reshape
from asc_devkit.passes.transposes import axis_sources

_NON_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt", "Softplus")


class PadConv2dFusion(NodePass):
    """Conv(Pad(x, 0)) -> Conv with larger pads; the same for AveragePool that counts its padding."""

    name = "PadConv2dFusionPass"
    ops = ("Conv", "AveragePool")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        found = _padded(node.inputs[0], ed)
        if found is None:
            return Outcome.NONE
        pad, between = found
        pads = _spatial_pads(pad, between, ed)
        if pads is None or pad.inputs[0] is None or not ed.dominates(pad.inputs[0], node):
            return Outcome.MATCHED
        old = _window_pads(node, len(pads) // 2, ed)
        if old is None:
            return Outcome.MATCHED
        attrs = {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad")}
        extra: dict[str, object] = {"pads": [a + b for a, b in zip(old, pads, strict=True)]}
        if node.op_type == "AveragePool":
            if (any(old) and not ed.attr(node, "count_include_pad", 0)) or ed.attr(node, "ceil_mode", 0):
                return Outcome.MATCHED
            attrs.pop("count_include_pad", None)
            extra["count_include_pad"] = 1
            kernel = ed.attr(node, "kernel_shape")
            if any(p >= k for p, k in zip(extra["pads"], [*kernel, *kernel], strict=True)):  # type: ignore[call-overload]
                return Outcome.MATCHED
        x = pad.inputs[0]
        if between is not None:
            x = _unpadded(x, between, pads, ed)
        inputs = [x, *node.inputs[1:]]
        ed.replace(node.outputs[0], ed.op(node.op_type, inputs, {**attrs, **extra}, name=node.name or ""))
        return Outcome.CHANGED


class PadMaxPoolFusion(NodePass):
    """MaxPool(Pad(x, 0)) with x >= 0, or padded with -inf -> MaxPool with larger pads."""

    name = "PadMaxPoolFusionPass"
    ops = ("MaxPool",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        pad = ed.producer(node.inputs[0], "Pad")
        if pad is None:
            return Outcome.NONE
        lowest = ed.scalar(ed.input(pad, 2)) if ed.input(pad, 2) is not None else 0.0
        positive = lowest == 0.0 and self._non_negative(pad.inputs[0], ed)
        pads = _spatial_pads(pad, None, ed, any_value=True)
        if pads is None or not (positive or lowest == float("-inf")) or len(node.outputs) > 1:
            return Outcome.MATCHED
        old, kernel = _window_pads(node, len(pads) // 2, ed), ed.attr(node, "kernel_shape")
        if old is None or ed.attr(node, "ceil_mode", 0) or not ed.dominates(pad.inputs[0], node):  # type: ignore[arg-type]
            return Outcome.MATCHED
        total = [a + b for a, b in zip(old, pads, strict=True)]
        if any(p >= k for p, k in zip(total, [*kernel, *kernel], strict=True)):
            return Outcome.MATCHED
        attrs = {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad")}
        ed.replace(node.outputs[0], ed.op("MaxPool", [pad.inputs[0]], {**attrs, "pads": total}, name=node.name or ""))
        return Outcome.CHANGED

    @staticmethod
    def _non_negative(value: ir.Value | None, ed: Editor) -> bool:
        node = ed.producer(value, *_NON_NEGATIVE, "Transpose", "Clip", "MaxPool")
        for _ in range(8):
            if node is None or node.op_type not in ("Transpose", "MaxPool"):
                break
            node = ed.producer(node.inputs[0], *_NON_NEGATIVE, "Transpose", "Clip", "MaxPool")
        if node is None or node.op_type in ("Transpose", "MaxPool"):
            return False
        low = ed.scalar(ed.input(node, 1)) if node.op_type == "Clip" else 0.0
        return low is not None and low >= 0


def _padded(value: ir.Value | None, ed: Editor) -> tuple[ir.Node, ir.Node | None] | None:
    """(Pad, node between) when ``value`` is a Pad's result, or that moved by one Transpose or Reshape only it feeds."""
    pad = ed.producer(value, "Pad")
    if pad is not None:
        return pad, None
    between = ed.sole_producer(value, "Transpose", *RESHAPES)
    pad = None if between is None else ed.sole_producer(between.inputs[0], "Pad")
    return None if pad is None else (pad, between)


def _unpadded(x: ir.Value, between: ir.Node, pads: list[int], ed: Editor) -> ir.Value:
    """``x``, which was padded, moved by ``between`` without its padding."""
    if between.op_type == "Transpose":
        return ed.op("Transpose", [x], dict(between.attributes), name=between.name or "")
    dims = ed.dims(between.outputs[0])
    assert dims is not None
    half = len(pads) // 2
    spatial = [d - pads[i] - pads[i + half] for i, d in enumerate(dims[2:])]
    return reshape(ed, x, (*dims[:2], *spatial), between)


def _spatial_pads(pad: ir.Node, between: ir.Node | None, ed: Editor, any_value: bool = False) -> list[int] | None:
    """Begin and end pads of the spatial axes behind ``between``.

    None unless the Pad pads only those, by non-negative amounts, with zeros (or with ``any_value``).
    """
    rank, pads = ed.rank(pad.inputs[0]), ed.ints(ed.input(pad, 1))
    if rank is None or pads is None or ed.attr(pad, "mode", "constant") != "constant":
        return None
    if not any_value and ed.input(pad, 2) is not None and ed.scalar(ed.input(pad, 2)) != 0.0:
        return None
    axes = ed.ints(ed.input(pad, 3)) if ed.input(pad, 3) is not None else list(range(rank))
    if axes is None or min(pads, default=0) < 0:
        return None
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis % rank] = pads[i]
        full[axis % rank + rank] = pads[i + len(axes)]
    begin, end = full[:rank], full[rank:]
    if between is not None:
        source = axis_sources(between, ed)
        if source is None or any((begin[i] or end[i]) and i not in source for i in range(rank)):
            return None
        begin = [0 if s is None else begin[s] for s in source]
        end = [0 if s is None else end[s] for s in source]
    if len(begin) < 3 or any((*begin[:2], *end[:2])):
        return None
    return [*begin[2:], *end[2:]]


def _window_pads(node: ir.Node, spatial: int, ed: Editor) -> list[int] | None:
    """Explicit pads of a sliding window, None when they depend on the shape."""
    auto = ed.attr(node, "auto_pad", "NOTSET")
    if auto == "VALID":
        return [0] * (2 * spatial)
    return list(ed.attr(node, "pads", None) or [0] * (2 * spatial)) if auto == "NOTSET" else None
