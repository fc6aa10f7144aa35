"""Operators that only models compiled by the vendor hold: forms whose constant inputs became attributes (``...D``), and
what its passes make of others. Nothing is converted to them here; they can be read, executed and written as ONNX.

Source: public operator prototypes of CANN (array, reduce, split, matrix calculation).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit, Mix
from asc_devkit.ops.declare import CUBE, MOVE, Attr, ge, outputs_of
from asc_devkit.ops.families.steps import int64

_KEEP = Attr("keep_dims", "bool", 0)


def _reduction(onnx_type: str) -> Convert:
    def lower(e: Emit) -> ir.Value:
        return e.op(onnx_type, [e.need(0), int64(*e.attr("axes"))], {"keepdims": e.attr("keep_dims")})

    return lower


for _type, _exact in (("Max", True), ("Min", True), ("Mean", False), ("Sum", False), ("Prod", False)):
    ge(f"Reduce{_type}D", "x", _reduction(f"Reduce{_type}"), [Attr("axes", "ints"), _KEEP],
       cost=Cost.REDUCE, exact=_exact, mix=Mix.GRAY if _exact else Mix.BLACK)  # fmt: skip


def _slice(e: Emit) -> ir.Value:
    begin, end = list(e.attr("begin")), list(e.attr("end"))
    strides = list(e.attr("strides") or [1] * len(begin))
    if any(e.attr(f"{kind}_mask") for kind in ("ellipsis", "new_axis", "shrink_axis")):
        raise e.reject("it drops or adds axes while slicing")
    low, high = -(1 << 62), 1 << 62
    for axis, step in enumerate(strides):
        if e.attr("begin_mask") >> axis & 1:
            begin[axis] = 0 if step > 0 else high
        if e.attr("end_mask") >> axis & 1:
            end[axis] = high if step > 0 else low
    axes = range(len(begin))
    return e.op("Slice", [e.need(0), int64(*begin), int64(*end), int64(*axes), int64(*strides)])


_MASKS = [Attr(f"{kind}_mask", "int", 0) for kind in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
ge("StridedSliceD", "x", _slice,
   [Attr("begin", "ints"), Attr("end", "ints"), Attr("strides", "ints"), *_MASKS], **MOVE)  # fmt: skip


def _slice_d(e: Emit) -> ir.Value:
    first, size = list(e.attr("offsets")), list(e.attr("size"))
    last = [1 << 62 if n < 0 else f + n for f, n in zip(first, size, strict=True)]
    return e.op("Slice", [e.need(0), int64(*first), int64(*last), int64(*range(len(first)))])


ge("SliceD", "x", _slice_d, [Attr("offsets", "ints"), Attr("size", "ints")], **MOVE)
ge("TransposeD", "x", lambda e: e.op("Transpose", [e.need(0)], {"perm": e.attr("perm")}), [Attr("perm", "ints")],
   cost=Cost.TRANSPOSE, exact=True)  # fmt: skip
ge("TileD", "x", lambda e: e.op("Tile", [e.need(0), int64(*e.attr("multiples"))]), [Attr("multiples", "ints")], **MOVE)


def _split(e: Emit) -> Sequence[ir.Value]:
    axis, count, sizes = e.attr("split_dim"), len(e.node.outputs), e.attr("size_splits")
    inputs: list[ir.Value | None] = [e.need(0)]
    if sizes:
        return outputs_of(e.op("Split", [*inputs, int64(*sizes)], {"axis": axis}, count))
    return outputs_of(e.op("Split", inputs, {"axis": axis, "num_outputs": count}, count))


ge("SplitD", "x", _split, [Attr("split_dim", "int"), Attr("num_split", "int"), Attr("size_splits", "ints", ())],
   outputs="y*", **MOVE)  # fmt: skip
ge("SplitVD", "x", _split, [Attr("split_dim", "int"), Attr("num_split", "int"), Attr("size_splits", "ints", ())],
   outputs="y*", **MOVE)  # fmt: skip


def _pad(e: Emit) -> ir.Value:
    pairs = list(e.attr("paddings"))
    return e.op("Pad", [e.need(0), int64(*pairs[::2], *pairs[1::2])])


ge("PadD", "x", _pad, [Attr("paddings", "ints")], **MOVE)


def _fully_connection(e: Emit) -> ir.Value:
    """x flattened from ``axis`` on, times the filters flattened to rows; the result in the shape the model says."""
    shape, filters, out, axis = e.shape(0), e.shape(1), e.out_shape(), e.attr("axis")
    if shape is None or filters is None or out is None:
        raise e.reject("its shapes are unknown")
    if e.attr("transpose"):
        raise e.reject("its filters are transposed")
    x = e.op(
        "Reshape",
        [e.need(0), int64(prod(shape[:axis]), prod(shape[axis:]))],
        shape=(prod(shape[:axis]), prod(shape[axis:])),
    )
    rows = (filters[0], prod(filters[1:]))
    w = e.need(1)
    w = e.reshaped(w, rows) if w.const_value is not None else e.op("Reshape", [w, int64(*rows)], shape=rows)
    y = e.op("Gemm", [x, w, e.value(2)], {"transB": 1}, shape=(prod(shape[:axis]), filters[0]))
    return e.op("Reshape", [y, int64(*out)])


ge("FullyConnection", "x w b offset_w", _fully_connection,
   [Attr("num_output", "int", 0), Attr("transpose", "bool", 0), Attr("axis", "int", 1), Attr("offset_x", "int", 0)],
   **{**CUBE, "cost": Cost.MATMUL})  # fmt: skip
