"""Reading and writing at computed positions."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import Attr, ge, onnx, rename
from asc_devkit.ops.families.steps import int64


def _gather(e: Emit) -> ir.Value:
    return e.op("GatherV2", [e.need(0), e.need(1), int64(e.attr("axis", 0))], {"batch_dims": 0})


def _lower_gather(e: Emit) -> ir.Value:
    axis = e.ints(2)
    if axis is None or e.attr("batch_dims"):
        raise e.reject("the axis is not constant, or batch_dims is not 0")
    return e.op("Gather", [e.need(0), e.need(1)], {"axis": axis[0]})


ge("GatherV2", "x indices axis", _lower_gather, [Attr("batch_dims", "int", 0)], cost=Cost.GATHER, exact=True)
onnx("Gather", _gather, "GatherV2")
rename("GatherElements", inputs="x index", attrs=[Attr("dim", "int", 0, onnx="axis")], cost=Cost.GATHER, exact=True)
rename("GatherND", "GatherNd", inputs="x indices", attrs=[Attr("_batch_dims", "int", 0, onnx="batch_dims")],
       cost=Cost.GATHER, exact=True)  # fmt: skip

_BY_REDUCTION = {
    "none": "TensorScatterUpdate",
    "add": "TensorScatterAdd",
    "mul": "TensorScatterMul",
    "max": "TensorScatterMax",
    "min": "TensorScatterMin",
}


def _scatter_nd(e: Emit) -> ir.Value:
    return e.op(_BY_REDUCTION[e.attr("reduction", "none")], e.inputs)


def _lower_scatter(reduction: str) -> Convert:
    return lambda e: e.op("ScatterND", e.inputs, {"reduction": reduction})


for _reduction, _ge_type in _BY_REDUCTION.items():
    ge(_ge_type, "x indices updates", _lower_scatter(_reduction), cost=Cost.GATHER,
       exact=_reduction not in ("add", "mul"))  # fmt: skip
onnx("ScatterND", _scatter_nd, *_BY_REDUCTION.values())
rename("ScatterElements", inputs="data indices updates", cost=Cost.GATHER,
       attrs=[Attr("axis", "int", 0), Attr("reduction", "str", "none")])  # fmt: skip
