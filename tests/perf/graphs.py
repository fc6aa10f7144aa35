"""Small GE graphs for the tests of this room, built by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, MEMBERS, Engine

FP16 = ir.DataType.FLOAT16


def value(name: str, shape: Sequence[int | str], dtype: ir.DataType = FP16) -> ir.Value:
    """A value of known type."""
    return ir.Value(name=name, shape=ir.Shape(list(shape)), type=ir.TensorType(dtype))


def node(
    kind: str,
    inputs: Sequence[ir.Value | None],
    name: str,
    shape: Sequence[int | str],
    engine: Engine | None = None,
    domain: str = GE_DOMAIN,
    dtype: ir.DataType = FP16,
    **attrs: Any,
) -> ir.Node:
    """A node with one output called ``NAME_y``."""
    made = ir.Node(
        domain,
        kind,
        inputs,
        list(ir.convenience.convert_attributes(attrs)),
        name=name,
        outputs=[value(f"{name}_y", shape, dtype)],
    )
    if engine is not None:
        made.meta[ENGINE] = engine
    return made


def model(inputs: Sequence[ir.Value], nodes: Sequence[ir.Node]) -> ir.Model:
    """A model whose output is that of the last node."""
    return ir.Model(ir.Graph(inputs, nodes[-1].outputs, nodes=nodes), ir_version=10)


def matmul(m: int, k: int, n: int, dtype: ir.DataType = FP16) -> ir.Model:
    """[m, k] x [k, n]."""
    a, b = value("a", [m, k], dtype), value("b", [k, n], dtype)
    return model([a, b], [node("MatMulV2", [a, b], "mm", [m, n], dtype=dtype, transpose_x1=0, transpose_x2=0)])


def conv(channels: int, filters: int, size: int, kernel: int = 3, groups: int = 1) -> ir.Node:
    """A same-padded convolution on [1, channels, size, size]."""
    x, w = value("x", [1, channels, size, size]), value("w", [filters, channels // groups, kernel, kernel])
    return node(
        "Conv2D",
        [x, w, None],
        "conv",
        [1, filters, size, size],
        strides=[1, 1],
        pads=[kernel // 2] * 4,
        dilations=[1, 1],
        groups=groups,
        data_format="NCHW",
    )


def fused(main: ir.Node, *after: str) -> ir.Node:
    """``main`` and one-input operators behind it as one fused node."""
    formal = [None if v is None else value(v.name or "", v.shape) for v in main.inputs]  # type: ignore[arg-type]
    shape = [int(d) for d in main.outputs[0].shape or ()]  # type: ignore[arg-type]
    first = ir.Node(GE_DOMAIN, main.op_type, formal, list(main.attributes.values()), outputs=[value("m0", shape)])
    members = [first]
    for index, kind in enumerate(after, 1):
        members.append(ir.Node(GE_DOMAIN, kind, members[-1].outputs, outputs=[value(f"m{index}", shape)]))
    body = ir.Graph([v for v in formal if v is not None], members[-1].outputs, nodes=members, name="members")
    return ir.Node(
        GE_DOMAIN,
        main.op_type,
        main.inputs,
        [*main.attributes.values(), ir.AttrGraph(MEMBERS, body)],
        name=main.name,
        outputs=[value("fused_y", shape)],
    )
