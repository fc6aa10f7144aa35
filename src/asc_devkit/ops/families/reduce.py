"""Reductions over axes, arg-reductions, running sums, TopK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit, Mix
from asc_devkit.ops.declare import AICPU, Attr, ge, onnx, outputs_of, rename
from asc_devkit.ops.families.steps import int64, scalar_like

Array = np.ndarray[Any, Any]
_KEEP = Attr("keep_dims", "bool", 0)
_STATIC = "Give the model static shapes (--input_shape)."


def _axes(e: Emit) -> list[int] | ir.Value | None:
    """The reduced axes: numbers, a tensor computed at run time, or None for none at all."""
    listed = e.ints(1)
    if listed:
        return listed
    if e.value(1) is not None and listed is None:
        if e.attr("noop_with_empty_axes", 0):
            raise e.reject("the axes are computed at run time", "Use constant axes.")
        return e.need(1)
    if e.attr("noop_with_empty_axes", 0):
        return None
    rank = e.rank(0)
    if rank is None:
        raise e.reject("the number of dimensions is unknown", _STATIC)
    return list(range(rank))


def _reduction(onnx_type: str, exact: bool = False, mix: Mix = Mix.GRAY) -> None:
    """Declare ReduceX(x, axes; keepdims) <-> GE (x, axes; keep_dims); all axes when ONNX names none."""

    def convert(e: Emit) -> ir.Value:
        axes = _axes(e)
        if axes is None:
            return _elementwise(e, onnx_type)
        target = axes if isinstance(axes, ir.Value) else int64(*axes)
        return e.op(onnx_type, [e.need(0), target], {"keep_dims": e.attr("keepdims", 1)})

    def lower(e: Emit) -> ir.Value:
        if e.ints(1) == []:
            return e.need(0)
        return e.op(onnx_type, e.inputs, {"keepdims": e.attr("keep_dims")})

    ge(onnx_type, "x axes", lower, [_KEEP], cost=Cost.REDUCE, exact=exact, mix=mix)
    onnx(onnx_type, convert, onnx_type)


def _elementwise(e: Emit, onnx_type: str) -> ir.Value:
    """Reduction over no axes: what the operator does to each element."""
    x = e.need(0)
    if onnx_type == "ReduceSumSquare":
        return e.op("Mul", [x, x])
    kind = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log"}.get(onnx_type)
    return x if kind is None else e.op(kind, [x])


_reduction("ReduceMax", exact=True)
_reduction("ReduceMin", exact=True)
_reduction("ReduceMean", mix=Mix.BLACK)
_reduction("ReduceSum", mix=Mix.BLACK)
_reduction("ReduceProd", mix=Mix.BLACK)
_reduction("ReduceLogSum", mix=Mix.BLACK)
_reduction("ReduceLogSumExp", mix=Mix.BLACK)

# --- norms and sums of squares: GE wants the axes as an attribute -----------------------------------------------------


def _norm(onnx_type: str, ge_type: str, axes_name: str, attrs: dict[str, Any]) -> Convert:
    keep = "keepdim" if ge_type == "LpNormV2" else "keep_dims"

    def convert(e: Emit) -> ir.Value:
        axes = _axes(e)
        if axes is None:
            return _elementwise(e, onnx_type)
        if isinstance(axes, ir.Value):
            raise e.reject("the axes are computed at run time", "Use constant axes.")
        return e.op(ge_type, [e.need(0)], {**attrs, axes_name: axes, keep: e.attr("keepdims", 1)})

    return convert


def _lower_lp_norm(e: Emit) -> ir.Value:
    """(sum |x|^p)^(1/p), at least epsilon."""
    x, p, epsilon = e.need(0), e.attr("p"), e.attr("epsilon")
    if p not in (1.0, 2.0):
        raise e.reject(f"the norm of order {p:g} has no ONNX form")
    axes = list(e.attr("axes"))
    inputs: list[ir.Value | Array] = [x, int64(*axes)] if axes else [x]
    norm = e.op(f"ReduceL{p:.0f}", inputs, {"keepdims": e.attr("keepdim")}, shape=e.out_shape())
    return e.op("Max", [norm, scalar_like(norm, epsilon)]) if epsilon else norm


ge("LpNormV2", "x", _lower_lp_norm,
   [Attr("p", "float", 2.0), Attr("axes", "ints", ()), Attr("keepdim", "bool", 0), Attr("epsilon", "float", 1e-12)],
   cost=Cost.REDUCE, mix=Mix.BLACK)  # fmt: skip
ge("SquareSumV1", "x", lambda e: e.op("ReduceSumSquare", [e.need(0), int64(*e.attr("axis"))],
                                      {"keepdims": e.attr("keep_dims")}),
   [Attr("axis", "ints"), _KEEP], cost=Cost.REDUCE, mix=Mix.BLACK)  # fmt: skip
onnx("ReduceL1", _norm("ReduceL1", "LpNormV2", "axes", {"p": 1.0, "epsilon": 0.0}), "LpNormV2")
onnx("ReduceL2", _norm("ReduceL2", "LpNormV2", "axes", {"p": 2.0, "epsilon": 0.0}), "LpNormV2")
onnx("ReduceSumSquare", _norm("ReduceSumSquare", "SquareSumV1", "axis", {}), "SquareSumV1")

# --- positions of extremes --------------------------------------------------------------------------------------------


def _arg(onnx_type: str, ge_type: str) -> tuple[Convert, Convert]:
    def convert(e: Emit) -> ir.Value:
        axis, shape = e.attr("axis", 0), e.out_shape()
        keep = e.attr("keepdims", 1)
        rank = e.rank(0)
        if axis < 0:
            if rank is None:
                raise e.reject("the number of dimensions is unknown", _STATIC)
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


def _top_k(e: Emit) -> Sequence[ir.Value]:
    attrs = {
        "sorted": e.attr("sorted", 1),
        "dim": e.attr("axis", -1),
        "largest": e.attr("largest", 1),
        "indices_dtype": ir.DataType.INT64,
    }
    return outputs_of(e.op("TopKV2", e.inputs, attrs, 2))


def _lower_top_k(e: Emit) -> Sequence[ir.Value]:
    k = e.need(1) if e.rank(1) == 1 else e.op("Reshape", [e.need(1), int64(1)])
    if k.dtype != ir.DataType.INT64:
        k = e.op("Cast", [k], {"to": ir.DataType.INT64}, dtype=ir.DataType.INT64)
    attrs = {"axis": e.attr("dim"), "largest": e.attr("largest"), "sorted": e.attr("sorted")}
    values, indices = outputs_of(e.op("TopK", [e.need(0), k], attrs, 2))
    wanted = e.out_dtype(1) if len(e.node.outputs) > 1 else None
    if wanted in (None, ir.DataType.INT64):
        return [values, indices]
    return [values, e.op("Cast", [indices], {"to": wanted})]


ge("TopKV2", "x k", _lower_top_k,
   [Attr("sorted", "bool", 1), Attr("dim", "int", -1), Attr("largest", "bool", 1), Attr("indices_dtype", "dtype")],
   outputs="values indices", cost=Cost.REDUCE, exact=True)  # fmt: skip
onnx("TopK", _top_k, "TopKV2")

rename("CumSum", "Cumsum", inputs="x axis", cost=Cost.REDUCE, mix=Mix.BLACK,
       attrs=[Attr("exclusive", "bool", 0), Attr("reverse", "bool", 0)])  # fmt: skip
rename("Hardmax", "HardMax", cost=Cost.REDUCE, exact=True, bounds=(0.0, 1.0), attrs=[Attr("axis", "int", -1)])
rename("Det", "MatrixDeterminant", **AICPU)
