"""Activation functions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Cost, Emit
from asc_devkit.ops.declare import Attr, ge, lower_as, onnx, rename

rename("Relu", exact=True)
rename("LeakyRelu", attrs=[Attr("negative_slope", "float", 0.01, onnx="alpha", ge_default=0.0)])
rename("PRelu", inputs="x weight")
rename("Sigmoid", bounds=(0.0, 1.0))
rename("Tanh", bounds=(-1.0, 1.0))
rename(
    "HardSigmoid",
    inputs="input_x",
    outputs="output_y",
    attrs=[Attr("alpha", "float", 0.2, ge_default=1 / 6), Attr("beta", "float", 0.5)],
    bounds=(0.0, 1.0),
)
rename("HardSwish")
rename("Mish")
rename("Softplus")
rename("Softsign", bounds=(-1.0, 1.0))
rename(
    "Elu",
    attrs=[
        Attr("alpha", "float", 1.0),
        Attr("scale", "float", 1.0, onnx=""),
        Attr("input_scale", "float", 1.0, onnx=""),
    ],
)
rename("Celu", "CeluV2", attrs=[Attr("alpha", "float", 1.0)])
rename(
    "Selu",
    # GE fixes both constants; other values are the toolkit's own.
    attrs=[
        Attr("_alpha", "float", 1.6732631921768188, onnx="alpha"),
        Attr("_gamma", "float", 1.0507010221481323, onnx="gamma"),
    ],
)
rename(
    "Shrink",
    inputs="input_x",
    outputs="output_y",
    attrs=[Attr("lambd", "float", 0.5), Attr("bias", "float", 0.0)],
)
rename("Gelu", "GeluV2", attrs=[Attr("approximate", "str", "none")], rewritten=True)
rename("Hardmax", "HardMax", attrs=[Attr("axis", "int", -1)], exact=True, bounds=(0.0, 1.0), cost=Cost.SOFTMAX)

# --- softmax ----------------------------------------------------------------------------------------------------------
ge(
    "SoftmaxV2",
    "x",
    lambda e: e.op("Softmax", [e.need(0)], {"axis": _one_axis(e)}),
    [Attr("axes", "ints", (-1,)), Attr("half_to_float", "bool", 0)],
    cost=Cost.SOFTMAX,
    bounds=(0.0, 1.0),
)
ge(
    "LogSoftmaxV2",
    "logits",
    lambda e: e.op("LogSoftmax", [e.need(0)], {"axis": _one_axis(e)}),
    [Attr("axes", "ints", (-1,))],
    outputs="logsoftmax",
    cost=Cost.SOFTMAX,
)
onnx("Softmax", lambda e: e.op("SoftmaxV2", [e.need(0)], {"axes": [e.attr("axis", -1)]}), "SoftmaxV2")
onnx("LogSoftmax", lambda e: e.op("LogSoftmaxV2", [e.need(0)], {"axes": [e.attr("axis", -1)]}), "LogSoftmaxV2")


def _one_axis(e: Emit) -> int:
    axes = e.attr("axes")
    if len(axes) != 1:
        raise e.reject(f"softmax over the axes {list(axes)} together has no ONNX form")
    return int(axes[0])


# --- ThresholdedRelu: x where x > alpha, else 0 -----------------------------------------------------------------------


def _thresholded(e: Emit) -> ir.Value:
    dtype = e.dtype(0)
    assert dtype is not None
    kind = dtype.numpy()
    return e.op("ThresholdV2", [e.need(0), np.array(e.attr("alpha", 1.0), kind), np.array(0, kind)])


def _lower_threshold(e: Emit) -> ir.Value:
    x, limit, other = e.need(0), e.need(1), e.value(2)
    dtype = e.dtype(0)
    assert dtype is not None
    above = e.op("Greater", [x, limit], shape=e.shape(0), dtype=ir.DataType.BOOL)
    return e.op("Where", [above, x, np.array(0, dtype.numpy()) if other is None else other], dtype=dtype)


ge("ThresholdV2", "x threshold value", _lower_threshold, exact=True)
onnx("ThresholdedRelu", _thresholded, "ThresholdV2")

# --- GE operators that ONNX spells otherwise; they come in models compiled elsewhere ----------------------------------


def _lower_swish(e: Emit) -> ir.Value:
    x, scale, dtype = e.need(0), e.attr("scale"), e.dtype(0)
    assert dtype is not None
    scaled = x if scale == 1.0 else e.op("Mul", [x, np.array(scale, dtype.numpy())], shape=e.shape(0))
    return e.op("Mul", [x, e.op("Sigmoid", [scaled], shape=e.shape(0))])


def _lower_fast_gelu(e: Emit) -> ir.Value:
    """x * sigmoid(1.702 x)."""
    x, dtype = e.need(0), e.dtype(0)
    assert dtype is not None
    gate = e.op("Sigmoid", [e.op("Mul", [x, np.array(1.702, dtype.numpy())], shape=e.shape(0))], shape=e.shape(0))
    return e.op("Mul", [x, gate])


ge("Swish", "x", _lower_swish, [Attr("scale", "float", 1.0)])
ge("Gelu", "x", lambda e: e.op("Gelu", [e.need(0)], {"approximate": "tanh"}))
ge("FastGelu", "x", _lower_fast_gelu)
ge("ReluV2", "x", lower_as("Relu"), exact=True)
