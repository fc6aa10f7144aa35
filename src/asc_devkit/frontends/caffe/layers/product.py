"""Layers that multiply matrices or look rows up: InnerProduct, Embed, MatMul."""

from __future__ import annotations

import math

import numpy as np

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value


def inner_product(s: Site) -> list[Value]:
    """x W^T + b over all axes from ``axis`` on; the axes before it are kept."""
    p = s.param("inner_product_param")
    axis, count = s.axis(p.integer("axis", 1)), p.integer("num_output")
    transposed = p.flag("transpose")
    rows, width = math.prod(s.x.shape[:axis]), math.prod(s.x.shape[axis:])
    raw = s.weight(0, "weights")
    if count < 1 or raw.size != count * width:
        raise LayerError(f"its weights have the shape {list(raw.shape)}, [{count}, {width}] is expected")
    matrix = raw.reshape((width, count) if transposed else (count, width)).astype(np.float32)
    inputs = [s.reshape(s.x, (rows, width), "rows"), s.constant(matrix, "weight")]
    if p.flag("bias_term", True):
        bias = s.weight(1, "biases")
        if bias.size != count:
            raise LayerError(f"it has {bias.size} biases for {count} outputs")
        inputs.append(s.constant(bias.reshape(-1).astype(np.float32), "bias"))
    result = s.op("Gemm", inputs, (rows, count), transB=int(not transposed))
    return [s.reshape(result, (*s.x.shape[:axis], count))]


def embed(s: Site) -> list[Value]:
    """Rows of a table picked by index, plus a bias."""
    p = s.param("embed_param")
    rows, count = p.integer("input_dim"), p.integer("num_output")
    raw = s.weight(0, "table")
    if rows < 1 or count < 1 or raw.size != rows * count:
        raise LayerError(f"its table has the shape {list(raw.shape)}, [{rows}, {count}] is expected")
    index = s.op("Cast", [s.x], s.x.shape, to=7)
    shape = (*s.x.shape, count)
    result = s.op("Gather", [s.constant(raw.reshape(rows, count).astype(np.float32), "table"), index], shape, axis=0)
    if p.flag("bias_term", True):
        bias = s.weight(1, "biases")
        if bias.size != count:
            raise LayerError(f"it has {bias.size} biases for {count} outputs")
        result = s.op("Add", [result, s.constant(bias.reshape(-1).astype(np.float32), "bias")], shape)
    return [result]


def matmul(s: Site) -> list[Value]:
    """Product of two inputs over their last two axes (a layer type of several forks)."""
    a, b = s.input(0), s.input(1)
    if len(a.shape) != len(b.shape) or len(a.shape) < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise LayerError(f"matrices {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    return [s.op("MatMul", [a, b], (*a.shape[:-1], b.shape[-1]))]


HANDLERS = {"Embed": embed, "InnerProduct": inner_product, "MatMul": matmul}
