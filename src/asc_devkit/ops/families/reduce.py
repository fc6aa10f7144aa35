"""Reductions over axes, arg-reductions, running sums, TopK."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ge.desc import Engine
from asc_devkit.ops.catalogue import Convert, Cost, Emit, Mix
from asc_devkit.ops.declare import Attr, ge, onnx, outputs_of, rename
from asc_devkit.ops.families.steps import int64

_KEEP = Attr("keep_dims", "bool", 0)


def _reduction(onnx_type: str, ge_type: str = "", **facts: object) -> None:
    """Declare ReduceX(x, axes; keepdims) <-> GE (x, axes; keep_dims); all axes when ONNX names none."""
    ge_type = ge_type or onnx_type

    def convert(e: Emit) -> ir.Value:
        axes: ir.Value | object | None = e.value(1)
        listed = e.ints(1)
        if axes is None or listed == []:
            if e.attr("noop_with_empty_axes", 0):
                return _noop(e, onnx_type)
            rank = e.rank(0)
            if rank is None:
                raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
            axes = int64(*range(rank))
        elif listed is None and e.attr("noop_with_empty_axes", 0):
            raise e.reject("the axes are computed at run time", "Use constant axes.")
        return e.op(ge_type, [e.need(0), axes], {"keep_dims": e.attr("keepdims", 1)})  # type: ignore[list-item]

    def lower(e: Emit) -> ir.Value:
        if e.ints(1) == []:
            return e.need(0)
        return e.op(onnx_type, e.inputs, {"keepdims": e.attr("keep_dims")})

    ge(ge_type, "x axes", lower, [_KEEP], cost=Cost.REDUCE, **facts)
    onnx(onnx_type, convert, ge_type)


def _noop(e: Emit, onnx_type: str) -> ir.Value:
    """Reduction over no axes: the element-wise part of the operator."""
    x = e.need(0)
    elementwise = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceSumSquare": "Square", "ReduceLogSum": "Log"}
    kind = elementwise.get(onnx_type)
    return x if kind is None else e.op(kind, [x])


_reduction("ReduceMax", exact=True)
_reduction("ReduceMin", exact=True)
_reduction("ReduceMean")
_reduction("ReduceSum", mix=Mix.BLACK)
_reduction("ReduceProd", mix=Mix.BLACK)
_reduction("ReduceL1", mix=Mix.BLACK)
_reduction("ReduceL2", mix=Mix.BLACK)
_reduction("ReduceSumSquare", mix=Mix.BLACK)
_reduction("ReduceLogSum", mix=Mix.BLACK)
_reduction("ReduceLogSumExp", mix=Mix.BLACK)


def _arg(onnx_type: str, ge_type: str) -> tuple[Convert, Convert]:
    def convert(e: Emit) -> ir.Value:
        axis, shape = e.attr("axis", 0), e.out_shape()
        keep = e.attr("keepdims", 1)
        rank = e.rank(0)
        if axis < 0:
            if rank is None:
                raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
            axis += rank
        if keep and shape is not None:
            shape = shape[:axis] + shape[axis + 1 :]
        last = e.attr("select_last_index", 0) or None
        attrs = {"dtype": ir.DataType.INT64, "_select_last_index": last}
        found = e.op(ge_type, [e.need(0), int64(axis)], attrs, shape=shape, dtype=ir.DataType.INT64)
        return e.op("Unsqueeze", [found], {"axes": [axis]}) if keep else found

    def lower(e: Emit) -> ir.Value:
        axis = e.ints(1)
        if axis is None:
            raise e.reject("the axis is not constant")
        attrs = {"axis": axis[0], "keepdims": 0, "select_last_index": e.attr("_select_last_index")}
        found = e.op(onnx_type, [e.need(0)], attrs, dtype=ir.DataType.INT64)
        wanted = e.out_dtype()
        if wanted in (None, ir.DataType.INT64):
            return found
        return e.op("Cast", [found], {"to": wanted})

    return convert, lower


for _onnx_type, _ge_type in (("ArgMax", "ArgMaxV2"), ("ArgMin", "ArgMin")):
    _convert, _lower = _arg(_onnx_type, _ge_type)
    ge(_ge_type, "x dimension", _lower, [Attr("dtype", "dtype"), Attr("_select_last_index", "int", 0)],
       cost=Cost.REDUCE, exact=True)  # fmt: skip
    onnx(_onnx_type, _convert, _ge_type, "Unsqueeze")


def _top_k(e: Emit) -> object:
    attrs = {
        "sorted": e.attr("sorted", 1),
        "dim": e.attr("axis", -1),
        "largest": e.attr("largest", 1),
        "indices_dtype": ir.DataType.INT64,
    }
    return outputs_of(e.op("TopKV2", e.inputs, attrs, 2))


def _lower_top_k(e: Emit) -> object:
    k = e.need(1) if e.rank(1) == 1 else e.op("Reshape", [e.need(1), int64(1)])
    if k.dtype != ir.DataType.INT64:
        k = e.op("Cast", [k], {"to": ir.DataType.INT64}, dtype=ir.DataType.INT64)
    attrs = {"axis": e.attr("dim"), "largest": e.attr("largest"), "sorted": e.attr("sorted")}
    values, indices = outputs_of(e.op("TopK", [e.need(0), k], attrs, 2))
    wanted = e.out_dtype(1) if len(e.node.outputs) > 1 else None
    if wanted in (None, ir.DataType.INT64):
        return [values, indices]
    return [values, e.op("Cast", [indices], {"to": wanted})]


ge("TopKV2", "x k", _lower_top_k,  # type: ignore[arg-type]
   [Attr("sorted", "bool", 1), Attr("dim", "int", -1), Attr("largest", "bool", 1), Attr("indices_dtype", "dtype")],
   outputs="values indices", cost=Cost.REDUCE, exact=True)  # fmt: skip
onnx("TopK", _top_k, "TopKV2")  # type: ignore[arg-type]

rename("CumSum", "Cumsum", inputs="x axis", cost=Cost.REDUCE, mix=Mix.BLACK,
       attrs=[Attr("exclusive", "bool", 0), Attr("reverse", "bool", 0)])  # fmt: skip
rename("Hardmax", "HardMax", cost=Cost.REDUCE, exact=True, bounds=(0.0, 1.0), attrs=[Attr("axis", "int", -1)])
rename("Det", "MatrixDeterminant", engine=Engine.AICPU, cost=Cost.AICPU)
