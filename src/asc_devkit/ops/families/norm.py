"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Cost, Emit, Mix
from asc_devkit.ops.declare import Attr, ge, lower_as, onnx, outputs_of, rename
from asc_devkit.ops.families.steps import int64, scalar_like


def _training(e: Emit) -> None:
    if e.attr("training_mode", 0):
        raise e.reject("the operator is in training mode", "Export the model for inference (model.eval()).")


def _batch_norm(e: Emit) -> ir.Value:
    _training(e)
    return e.op("BNInfer", e.inputs, {"epsilon": e.attr("epsilon", 1e-5)})


ge("BNInfer", "x scale offset mean variance", lower_as("BatchNormalization", [Attr("epsilon", "float", 1e-5)]),
   [Attr("epsilon", "float", 1e-5)], cost=Cost.ELEMENTWISE)  # fmt: skip
onnx("BatchNormalization", _batch_norm, "BNInfer")


def _layer_norm(e: Emit) -> Sequence[ir.Value]:
    """The missing beta becomes zeros."""
    axis, rank, scale = e.attr("axis", -1), e.rank(0), e.need(1)
    beta: ir.Value | np.ndarray[Any, Any] | None = e.value(2)
    if beta is None:
        shape = e.shape(1)
        if shape is None or scale.dtype is None:
            raise e.reject("the scale's shape is unknown", "Give the model static shapes (--input_shape).")
        beta = np.zeros(shape, scale.dtype.numpy())
    begin = axis if axis >= 0 or rank is None else axis + rank
    attrs = {"begin_norm_axis": begin, "begin_params_axis": begin, "epsilon": e.attr("epsilon", 1e-5)}
    results = outputs_of(e.op("LayerNormV3", [e.need(0), scale, beta], attrs, len(e.node.outputs)))
    for statistic in results[1:]:
        statistic.dtype = ir.DataType.FLOAT
    return results


ge("LayerNormV3", "x gamma beta",
   lower_as("LayerNormalization", [Attr("begin_norm_axis", "int", -1, onnx="axis"), Attr("epsilon", "float", 1e-5)]),
   [Attr("begin_norm_axis", "int", -1), Attr("begin_params_axis", "int", -1), Attr("epsilon", "float", 1e-5)],
   outputs="y mean rstd", cost=Cost.NORM)  # fmt: skip
onnx("LayerNormalization", _layer_norm, "LayerNormV3")


def _rms_norm(e: Emit) -> ir.Value:
    """GE normalises over the trailing axes that gamma has."""
    axis, rank, gamma = e.attr("axis", -1), e.rank(0), e.rank(1)
    if rank is None or gamma is None:
        raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
    begin = axis if axis >= 0 else axis + rank
    if gamma != rank - begin:
        raise e.reject("the scale does not have the normalised axes", "Give the scale the shape of the last axes.")
    return e.op("RmsNorm", e.inputs, {"epsilon": e.attr("epsilon", 1e-5)})


def _lower_rms_norm(e: Emit) -> ir.Value:
    gamma = e.rank(1)
    if gamma is None:
        raise e.reject("the rank of gamma is unknown")
    return e.op("RMSNormalization", e.inputs, {"axis": -gamma, "epsilon": e.attr("epsilon")})


ge("RmsNorm", "x gamma", _lower_rms_norm, [Attr("epsilon", "float", 1e-6)], outputs="y rstd", cost=Cost.NORM)
onnx("RMSNormalization", _rms_norm, "RmsNorm", rewritten=True)

rename(
    "GroupNormalization",
    "GroupNorm",
    inputs="x gamma beta",
    attrs=[
        Attr("num_groups", "int"),
        Attr("data_format", "str", "NCHW", onnx=""),
        Attr("eps", "float", 1e-5, onnx="epsilon"),
        Attr("is_training", "bool", 0, onnx=""),
    ],
    outputs="y mean variance",
    rewritten=True,
    cost=Cost.NORM,
)
rename(
    "InstanceNormalization",
    "InstanceNorm",
    inputs="x gamma beta",
    attrs=[Attr("data_format", "str", "NCHW", onnx=""), Attr("epsilon", "float", 1e-5)],
    outputs="y mean variance",
    cost=Cost.NORM,
)
rename("MeanVarianceNormalization", "MVNV2", cost=Cost.NORM,
       attrs=[Attr("axes", "ints", [0, 2, 3]), Attr("eps", "float", 1e-9, onnx="")])  # fmt: skip


def _lrn(e: Emit) -> ir.Value:
    """GE counts the neighbours on one side and multiplies their squares by alpha itself, ONNX by alpha / size."""
    size, alpha = e.attr("size"), e.attr("alpha", 1e-4)
    attrs = {
        "depth_radius": (size - 1) // 2,
        "bias": e.attr("bias", 1.0),
        "alpha": alpha / size,
        "beta": e.attr("beta", 0.75),
        "norm_region": "ACROSS_CHANNELS",
        "_size": None if size % 2 else size,
        "_alpha": alpha,
    }
    return e.op("LRN", e.inputs, attrs)


def _lower_lrn(e: Emit) -> ir.Value:
    size = e.attr("_size") or 2 * e.attr("depth_radius") + 1
    alpha = e.attr("_alpha")
    attrs = {
        "size": size,
        "alpha": e.attr("alpha") * size if alpha is None else alpha,
        "beta": e.attr("beta"),
        "bias": e.attr("bias"),
    }
    return e.op("LRN", e.inputs, attrs)


ge(
    "LRN",
    "x",
    _lower_lrn,
    [
        Attr("depth_radius", "int", 5),
        Attr("bias", "float", 1.0),
        Attr("alpha", "float", 1.0),
        Attr("beta", "float", 0.5),
        Attr("norm_region", "str", "ACROSS_CHANNELS"),
        Attr("_size", "int"),
        Attr("_alpha", "float"),
    ],
    cost=Cost.NORM,
)
onnx("LRN", _lrn, "LRN")


def _lp_normalization(e: Emit) -> ir.Value:
    x, axis = e.need(0), e.attr("axis", -1)
    if e.attr("p", 2) == 2:
        return e.op("L2Normalize", [x], {"axis": [axis], "eps": 0.0})
    shape = e.shape(0)
    kept = None if shape is None else tuple(1 if i == axis % len(shape) else d for i, d in enumerate(shape))
    # The smallest norm is epsilon, so that zeros stay zeros instead of 0/0: the smallest number that fp16 can hold,
    # below which no norm of other fp16 numbers lies.
    norm = e.op("LpNormV2", [x], {"p": 1.0, "axes": [axis], "keepdim": 1, "epsilon": 2.0**-24}, shape=kept)
    return e.op("RealDiv", [x, norm])


def _lower_l2(e: Emit) -> ir.Value:
    axes = list(e.attr("axis"))
    if len(axes) == 1 and not e.attr("eps"):
        return e.op("LpNormalization", e.inputs, {"axis": axes[0], "p": 2})
    x = e.need(0)
    total = e.op("ReduceSumSquare", [x, int64(*axes)], {"keepdims": 1})
    return e.op("Div", [x, e.op("Sqrt", [e.op("Max", [total, scalar_like(x, e.attr("eps"))])])])


ge("L2Normalize", "x", _lower_l2, [Attr("axis", "ints"), Attr("eps", "float", 1e-4)], cost=Cost.NORM, mix=Mix.BLACK,
   bounds=(-1.0, 1.0))  # fmt: skip
onnx("LpNormalization", _lp_normalization, "L2Normalize", "LpNormV2", "RealDiv")


def _lower_softmax(onnx_type: str, e: Emit) -> ir.Value:
    axes = e.attr("axes")
    if len(axes) != 1:
        raise e.reject("softmax over several axes at once")
    return e.op(onnx_type, e.inputs, {"axis": axes[0]})


ge("SoftmaxV2", "x", lambda e: _lower_softmax("Softmax", e), [Attr("axes", "ints", [-1])], cost=Cost.SOFTMAX,
   bounds=(0.0, 1.0))  # fmt: skip
ge("LogSoftmaxV2", "logits", lambda e: _lower_softmax("LogSoftmax", e), [Attr("axes", "ints", [-1])],
   outputs="logsoftmax", cost=Cost.SOFTMAX)  # fmt: skip
onnx("Softmax", lambda e: e.op("SoftmaxV2", e.inputs, {"axes": [e.attr("axis", -1)]}), "SoftmaxV2")
onnx("LogSoftmax", lambda e: e.op("LogSoftmaxV2", e.inputs, {"axes": [e.attr("axis", -1)]}), "LogSoftmaxV2")
