"""Views and movements: shapes change, elements are copied, nothing is computed (all exact)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import AICPU, FREE, MOVE, Attr, ge, onnx, outputs_of, rename
from asc_devkit.ops.families.steps import int64

INT64 = ir.DataType.INT64
_HOST_SIDE = {**AICPU, "exact": True}

# --- views ------------------------------------------------------------------------------------------------------------

rename("Reshape", inputs="x shape", attrs=[Attr("axis", "int", 0, onnx=""), Attr("num_axes", "int", -1, onnx=""),
                                           Attr("_allowzero", "int", 0, onnx="allowzero")], **FREE)  # fmt: skip
rename("Flatten", attrs=[Attr("axis", "int", 1)], **FREE)


def _axes(e: Emit, rank: int | None) -> list[int]:
    axes = e.ints(1)
    if axes is None or rank is None:
        raise e.reject("the axes are computed at run time", "Use constant axes.")
    return [a + rank if a < 0 else a for a in axes]


def _unsqueeze(e: Emit) -> ir.Value:
    axes, rank = e.ints(1) or [], e.rank(0)
    return e.op("Unsqueeze", [e.need(0)], {"axes": _axes(e, None if rank is None else rank + len(axes))})


def _squeeze(e: Emit) -> ir.Value:
    if e.value(1) is not None:
        return e.op("Squeeze", [e.need(0)], {"axis": _axes(e, e.rank(0))})
    shape = e.shape(0)
    axes = [] if shape is None else [i for i, d in enumerate(shape) if d == 1]
    if shape is not None and not axes:
        return e.need(0)
    return e.op("Squeeze", [e.need(0)], {"axis": axes})


def _lower_squeeze(e: Emit) -> ir.Value:
    axes = e.attr("axis")
    return e.op("Squeeze", [e.need(0), int64(*axes)] if axes else [e.need(0)])


ge("Unsqueeze", "x", lambda e: e.op("Unsqueeze", [e.need(0), int64(*e.attr("axes"))]), [Attr("axes", "ints")], **FREE)
ge("Squeeze", "x", _lower_squeeze, [Attr("axis", "ints", ())], **FREE)
onnx("Unsqueeze", _unsqueeze, "Unsqueeze")
onnx("Squeeze", _squeeze, "Squeeze")


def _dropout(e: Emit) -> Sequence[ir.Value]:
    if e.value(2) is not None and e.const(2) is None:
        raise e.reject("training_mode is computed at run time", "Export the model for inference (model.eval()).")
    training = e.const(2)
    ratio = e.const(1)
    if training is not None and training.any() and (ratio is None or float(ratio.reshape(())) != 0):
        raise e.reject("the operator is in training mode", "Export the model for inference (model.eval()).")
    if not e.used(1):
        return [e.need(0)]
    shape = e.shape(0)
    if shape is None:
        raise e.reject("the mask's shape is unknown", "Drop the mask output.")
    mask = e.op("Fill", [int64(*shape), np.array(True)], shape=shape, dtype=ir.DataType.BOOL)
    return [e.need(0), mask]


onnx("Dropout", _dropout, "Identity", "Fill")

# --- about shapes -----------------------------------------------------------------------------------------------------

_SHAPE_ATTRS = [
    Attr("dtype", "dtype", int(INT64), onnx=""),
    Attr("_start", "int", None, onnx="start"),
    Attr("_end", "int", None, onnx="end"),
]
rename("Shape", attrs=_SHAPE_ATTRS, **FREE)
rename("Size", attrs=[Attr("dtype", "dtype", int(INT64), onnx="")], **FREE)
rename("NonZero", attrs=[Attr("transpose", "bool", 1, onnx=""), Attr("dtype", "dtype", int(INT64), onnx="")],
       **_HOST_SIDE)  # fmt: skip

# --- movements --------------------------------------------------------------------------------------------------------


def _transpose(e: Emit) -> ir.Value:
    perm, rank = e.attr("perm"), e.rank(0)
    if perm is None:
        if rank is None:
            raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
        perm = range(rank - 1, -1, -1)
    return e.op("Transpose", [e.need(0), int64(*perm)])


def _lower_transpose(e: Emit) -> ir.Value:
    perm = e.ints(1)
    if perm is None:
        raise e.reject("the permutation is not constant")
    return e.op("Transpose", [e.need(0)], {"perm": perm} if perm else None)


ge("Transpose", "x perm", _lower_transpose, cost=Cost.TRANSPOSE, exact=True)
onnx("Transpose", _transpose, "Transpose")


def _concat(e: Emit) -> ir.Value:
    return e.op("ConcatD", e.inputs, {"concat_dim": e.attr("axis"), "N": len(e.inputs)})


ge("ConcatD", "x*", lambda e: e.op("Concat", e.inputs, {"axis": e.attr("concat_dim")}),
   [Attr("concat_dim", "int"), Attr("N", "int")], **MOVE)  # fmt: skip
onnx("Concat", _concat, "ConcatD")


def _split(e: Emit) -> Sequence[ir.Value]:
    axis, count = e.attr("axis", 0), len(e.node.outputs)
    sizes: ir.Value | np.ndarray[Any, Any] | None = e.value(1)
    if sizes is None:
        shape = e.shape(0)
        if shape is None:
            raise e.reject("the size of the split axis is unknown", "Give the model static shapes (--input_shape).")
        step = -(-shape[axis] // count)
        sizes = int64(*(max(min(step, shape[axis] - i * step), 0) for i in range(count)))
    return outputs_of(e.op("SplitV", [e.need(0), sizes, int64(axis)], {"num_split": count}, count))


def _lower_split(e: Emit) -> Sequence[ir.Value]:
    axis = e.ints(2)
    if axis is None:
        raise e.reject("the split axis is not constant")
    return outputs_of(e.op("Split", e.inputs[:2], {"axis": axis[0]}, len(e.node.outputs)))


ge("SplitV", "x size_splits split_dim", _lower_split, [Attr("num_split", "int")], outputs="y*", **MOVE)
onnx("Split", _split, "SplitV")

rename("Slice", "StridedSliceV2", inputs="x begin end axes strides", **MOVE)
rename("Expand", inputs="x shape", **MOVE)
rename("Tile", inputs="x multiples", **MOVE)


def _compress(e: Emit) -> ir.Value:
    """Positions where the condition holds, then a gather; without an axis over the flat tensor."""
    x, axis = e.need(0), e.attr("axis")
    if axis is None:
        x, axis = e.op("Reshape", [x, int64(-1)]), 0
    at = e.op("NonZero", [e.need(1)], {"transpose": 1, "dtype": INT64}, dtype=INT64)
    at = e.op("Squeeze", [at], {"axis": [0]})
    return e.op("GatherV2", [x, at, int64(axis)], {"batch_dims": 0})


onnx("Compress", _compress, "NonZero", "GatherV2", "Reshape", "Squeeze")


def _pad(e: Emit) -> ir.Value:
    """Paddings stay in ONNX order (all beginnings, then all ends): ``paddings_contiguous`` is false."""
    pads: ir.Value | np.ndarray[Any, Any] = e.need(1)
    if e.value(3) is not None:
        rank, axes, given = e.rank(0), e.ints(3), e.ints(1)
        if rank is None or axes is None or given is None:
            raise e.reject("the padded axes are computed at run time", "Use constant axes and pads.")
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis % rank], full[axis % rank + rank] = given[i], given[i + len(axes)]
        pads = int64(*full)
    mode = e.attr("mode", "constant")
    attrs = {"mode": "circular" if mode == "wrap" else mode, "paddings_contiguous": 0}
    return e.op("PadV3", [e.need(0), pads, e.value(2)], attrs)


def _lower_pad(e: Emit) -> ir.Value:
    pads: ir.Value | np.ndarray[Any, Any] = e.need(1)
    if e.attr("paddings_contiguous"):
        given = e.ints(1)
        if given is None:
            raise e.reject("the paddings are not constant")
        pads = int64(*given[::2], *given[1::2])
    mode = e.attr("mode")
    return e.op("Pad", [e.need(0), pads, e.value(2)], {"mode": "wrap" if mode == "circular" else mode})


ge("PadV3", "x paddings constant_values", _lower_pad,
   [Attr("mode", "str", "constant"), Attr("paddings_contiguous", "bool", 1)], **MOVE)  # fmt: skip
onnx("Pad", _pad, "PadV3")

_BLOCK = Attr("block_size", "int", None, onnx="blocksize")
_NCHW = Attr("data_format", "str", "NCHW", onnx="")
rename("DepthToSpace", attrs=[_BLOCK, Attr("mode", "str", "DCR"), _NCHW], cost=Cost.TRANSPOSE, exact=True)
rename("SpaceToDepth", attrs=[_BLOCK, _NCHW], cost=Cost.TRANSPOSE, exact=True)
rename("ReverseSequence", inputs="x seq_lengths", **MOVE,
       attrs=[Attr("seq_dim", "int", 0, onnx="time_axis"), Attr("batch_dim", "int", 1, onnx="batch_axis")])  # fmt: skip


def _trilu(e: Emit) -> ir.Value:
    shift = e.ints(1) if e.value(1) is not None else [0]
    if shift is None:
        raise e.reject("the diagonal is computed at run time", "Use a constant k.")
    return e.op("Triu" if e.attr("upper", 1) else "Tril", [e.need(0)], {"diagonal": shift[0]})


def _lower_trilu(upper: int) -> Convert:
    return lambda e: e.op("Trilu", [e.need(0), np.array(e.attr("diagonal"), np.int64)], {"upper": upper})


ge("Triu", "x", _lower_trilu(1), [Attr("diagonal", "int", 0)], **MOVE)
ge("Tril", "x", _lower_trilu(0), [Attr("diagonal", "int", 0)], **MOVE)
onnx("Trilu", _trilu, "Triu", "Tril")

# --- filling ----------------------------------------------------------------------------------------------------------


def _constant_of_shape(e: Emit) -> ir.Value:
    given = e.attr("value")
    array = np.zeros((), np.float32) if given is None else given.numpy().reshape(())
    return e.op("Fill", [e.need(0), array], dtype=e.out_dtype())


def _lower_fill(e: Emit) -> ir.Value:
    value = e.const(1)
    dims = e.need(0)
    if dims.dtype != INT64:
        dims = e.op("Cast", [dims], {"to": INT64}, dtype=INT64)
    if value is None:
        return e.op("Expand", [e.need(1), dims])
    return e.op("ConstantOfShape", [dims], {"value": value.reshape(1)})


ge("Fill", "dims value", _lower_fill, **MOVE)
onnx("ConstantOfShape", _constant_of_shape, "Fill")

rename("Range", inputs="start limit delta", cost=Cost.MOVEMENT)


def _eye_like(e: Emit) -> ir.Value:
    shape, dtype = e.shape(0), e.attr("dtype")
    if shape is None:
        raise e.reject("the shape is unknown", "Give the model static shapes (--input_shape).")
    kind = e.dtype(0) if dtype is None else ir.DataType(dtype)
    attrs = {"num_rows": shape[0], "num_columns": shape[1], "dtype": kind, "_k": e.attr("k", 0) or None}
    return e.op("Eye", [], attrs, dtype=kind)


def _lower_eye(e: Emit) -> ir.Value:
    rows = e.attr("num_rows")
    like = e.op("ConstantOfShape", [int64(rows, e.attr("num_columns") or rows)], dtype=ir.DataType.FLOAT)
    return e.op("EyeLike", [like], {"k": e.attr("_k"), "dtype": e.attr("dtype")}, dtype=e.out_dtype())


ge("Eye", "", _lower_eye, [Attr("num_rows", "int"), Attr("num_columns", "int", 0), Attr("dtype", "dtype", 1),
                           Attr("_k", "int", 0)], **_HOST_SIDE)  # fmt: skip
onnx("EyeLike", _eye_like, "Eye")


def _one_hot(e: Emit) -> ir.Value:
    """ONNX hands over (off, on) as one tensor, GE as two scalars."""
    pair, values = e.const(2), e.need(2)
    if pair is not None:
        off, on = (np.array(v) for v in pair.reshape(-1))
        return e.op("OneHot", [e.need(0), e.need(1), on, off], {"axis": e.attr("axis", -1)}, dtype=values.dtype)
    on_value, off_value = (
        e.op("GatherV2", [values, np.array(i, np.int64), int64(0)], {"batch_dims": 0}, shape=()) for i in (1, 0)
    )
    attrs = {"axis": e.attr("axis", -1)}
    return e.op("OneHot", [e.need(0), e.need(1), on_value, off_value], attrs, dtype=values.dtype)


def _lower_one_hot(e: Emit) -> ir.Value:
    on, off = e.const(2), e.const(3)
    if on is not None and off is not None:
        pair: ir.Value | np.ndarray[Any, Any] = np.array([off.reshape(()), on.reshape(())])
    else:
        ends = [e.op("Reshape", [e.need(i), int64(1)]) for i in (3, 2)]
        pair = e.op("Concat", ends, {"axis": 0})
    return e.op("OneHot", [e.need(0), e.need(1), pair], {"axis": e.attr("axis")})


ge("OneHot", "x depth on_value off_value", _lower_one_hot, [Attr("axis", "int", -1)], **MOVE)
onnx("OneHot", _one_hot, "OneHot")

rename(
    "Unique",
    "UniqueWithCountsAndSorting",
    attrs=[Attr("sorted", "bool", 1), Attr("_axis", "int", None, onnx="axis")],
    outputs="y indices inverse_indices counts",
    **_HOST_SIDE,
)
