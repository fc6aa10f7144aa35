"""Activation functions."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.catalogue import Emit
from asc_devkit.ops.declare import Attr, ge, lower_as, onnx, rename
from asc_devkit.ops.families.steps import scalar_like

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

# --- ThresholdedRelu: x where x > alpha, else 0 -----------------------------------------------------------------------


def _thresholded(e: Emit) -> ir.Value:
    x = e.need(0)
    return e.op("ThresholdV2", [x, scalar_like(x, e.attr("alpha", 1.0)), scalar_like(x, 0)])


def _lower_threshold(e: Emit) -> ir.Value:
    x, limit, other = e.need(0), e.need(1), e.value(2)
    above = e.op("Greater", [x, limit], shape=e.shape(0), dtype=ir.DataType.BOOL)
    return e.op("Where", [above, x, scalar_like(x, 0) if other is None else other], dtype=x.dtype)


ge("ThresholdV2", "x threshold value", _lower_threshold, exact=True)
onnx("ThresholdedRelu", _thresholded, "ThresholdV2")

# --- GE operators that ONNX spells otherwise; they come in models compiled elsewhere ----------------------------------


def _lower_swish(e: Emit) -> ir.Value:
    x, scale = e.need(0), e.attr("scale")
    scaled = x if scale == 1.0 else e.op("Mul", [x, scalar_like(x, scale)], shape=e.shape(0))
    return e.op("Mul", [x, e.op("Sigmoid", [scaled], shape=e.shape(0))])


def _lower_fast_gelu(e: Emit) -> ir.Value:
    """x * sigmoid(1.702 x)."""
    x = e.need(0)
    gate = e.op("Sigmoid", [e.op("Mul", [x, scalar_like(x, 1.702)], shape=e.shape(0))], shape=e.shape(0))
    return e.op("Mul", [x, gate])


ge("Swish", "x", _lower_swish, [Attr("scale", "float", 1.0)])
ge("Gelu", "x", lambda e: e.op("Gelu", [e.need(0)], {"approximate": "tanh"}))
ge("FastGelu", "x", _lower_fast_gelu)
ge("ReluV2", "x", lower_as("Relu"), exact=True)
