"""A GE graph built by hand for the `.om` tests: fused and grouped convolution, matmul, host operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import (
    DESC,
    ENGINE,
    GE_DOMAIN,
    GROUP,
    ORIGIN_OPS,
    ORIGIN_TENSOR,
    PASSES,
    Engine,
    TensorDesc,
)
from asc_devkit.ge.formats import storage_shape

FP16 = ir.DataType.FLOAT16


def constant(
    graph: list[ir.Value], name: str, array: np.ndarray[Any, Any], fmt: str = "ND", groups: int = 1
) -> ir.Value:
    """A weight in the device format ``fmt``."""
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    plain = "NCHW" if array.ndim == 4 else "ND"
    stored = storage_shape(array.shape, plain, fmt, tensor.dtype, groups)
    value.meta[DESC] = TensorDesc(fmt, plain, stored, groups)
    graph.append(value)
    return value


def node(
    kind: str,
    inputs: Sequence[ir.Value | None],
    shape: Sequence[int],
    name: str,
    attrs: Sequence[ir.Attr] = (),
    engine: Engine = Engine.VECTOR,
    dtype: ir.DataType = FP16,
    domain: str = GE_DOMAIN,
) -> ir.Node:
    """An operator with one output called ``name + '_y'``."""
    made = ir.Node(domain, kind, inputs, attrs, name=name)
    made.outputs[0].name = f"{name}_y"
    made.outputs[0].shape, made.outputs[0].dtype = ir.Shape(shape), dtype
    made.outputs[0].meta[DESC] = TensorDesc("ND", "ND", tuple(shape))
    made.meta[ENGINE] = engine
    made.meta[ORIGIN_OPS] = ((name, kind),)
    return made


def model() -> ir.Model:
    """Two inputs, a fused Conv2D+Relu, a grouped Conv2D, MatMulV2, a host Loop-like operator, two outputs."""
    rng = np.random.default_rng(0)
    x = ir.Value(name="x", shape=ir.Shape([1, 3, 8, 8]), type=ir.TensorType(FP16))
    z = ir.Value(name="z", shape=ir.Shape([4, 20]), type=ir.TensorType(FP16))
    for value in (x, z):
        value.meta[DESC] = TensorDesc("ND", "ND", tuple(int(d) for d in value.shape))  # type: ignore[union-attr]
    weights: list[ir.Value] = []
    w1 = constant(weights, "w1", rng.standard_normal((20, 3, 3, 3)).astype(np.float16), "FRACTAL_Z")
    b1 = constant(weights, "b1", rng.standard_normal(20).astype(np.float16))
    w2 = constant(weights, "w2", rng.standard_normal((20, 1, 3, 3)).astype(np.float16), "FRACTAL_Z", groups=20)
    w3 = constant(weights, "w3", rng.standard_normal((20, 7)).astype(np.float16), "FRACTAL_NZ")
    conv_attrs = [
        ir.AttrInt64s("strides", [1, 1, 1, 1]),
        ir.AttrInt64s("pads", [1, 1, 1, 1]),
        ir.AttrInt64s("dilations", [1, 1, 1, 1]),
        ir.AttrInt64("groups", 1),
        ir.AttrString("data_format", "NCHW"),
    ]
    conv = node("Conv2D", [x, w1, b1], [1, 20, 8, 8], "conv", conv_attrs, Engine.CUBE)
    relu = node("Relu", [conv.outputs[0]], [1, 20, 8, 8], "relu")
    relu.outputs[0].meta[ORIGIN_TENSOR] = "user_relu"
    for member in (conv, relu):
        member.meta[GROUP] = 1
        member.meta[PASSES] = ("TbeConvCommonRules2FusionPass",)
    grouped = node(
        "Conv2D",
        [relu.outputs[0], w2],
        [1, 20, 8, 8],
        "grouped",
        [*conv_attrs[:3], ir.AttrInt64("groups", 20)],
        Engine.CUBE,
    )
    grouped.attributes["groups"] = ir.AttrInt64("groups", 20)
    matmul = node(
        "MatMulV2",
        [z, w3, None],
        [4, 7],
        "matmul",
        [ir.AttrInt64("transpose_x1", 0), ir.AttrInt64("transpose_x2", 0)],
        Engine.CUBE,
    )
    host = node("Hardmax", [matmul.outputs[0]], [4, 7], "host", [ir.AttrInt64("axis", 1)], Engine.HOST, domain="")
    graph = ir.Graph(
        [x, z],
        [grouped.outputs[0], host.outputs[0]],
        nodes=[conv, relu, grouped, matmul, host],
        initializers=weights,
        name="main",
        opset_imports={"": 23, GE_DOMAIN: 1},
    )
    return ir.Model(graph, ir_version=10)
