"""Matrix products: MatMul, Gemm -> MatMulV2 (two matrices) and BatchMatMulV2 (stacks); Einsum."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.catalogue import Cost, Emit
from asc_devkit.ops.declare import CUBE, Attr, ge, onnx
from asc_devkit.ops.families.steps import broadcast, scalar_like, squeeze, unsqueeze

_CUBE = {**CUBE, "cost": Cost.MATMUL}


def _matmul(e: Emit) -> ir.Value:
    a, b = e.need(0), e.need(1)
    left, right = e.rank(0), e.rank(1)
    if left is None or right is None:
        raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
    shape = e.out_shape()
    if left == 1:
        a = unsqueeze(e, a, 0)
        shape = None if shape is None else (*shape[:-1], 1, *shape[-1:]) if right > 1 else (1,)
    if right == 1:
        b = unsqueeze(e, b, 1)
        shape = None if shape is None else (*shape, 1)
    if max(left, right) <= 2:
        y = e.op("MatMulV2", [a, b], {"transpose_x1": 0, "transpose_x2": 0}, shape=shape)
    else:
        y = e.op("BatchMatMulV2", [a, b], {"adj_x1": 0, "adj_x2": 0}, shape=shape)
    if right == 1:
        y = squeeze(e, y, max(left, 2) - 1)
    if left == 1:
        y = squeeze(e, y, max(right, 2) - 2)
    return y


def _gemm(e: Emit) -> ir.Value:
    """alpha A B + beta C; C rides along as the bias when it is one row and the factors are 1."""
    alpha, beta = e.attr("alpha", 1.0), e.attr("beta", 1.0)
    flags = {"transpose_x1": e.attr("transA", 0), "transpose_x2": e.attr("transB", 0)}
    shape, c = e.out_shape(), e.value(2)
    if c is not None and alpha == 1 and beta == 1 and shape is not None:
        row = e.shape(2)
        if row == shape[1:]:
            return e.op("MatMulV2", [e.need(0), e.need(1), c], flags)
        if row == (1, shape[1]) and c.const_value is not None:
            return e.op("MatMulV2", [e.need(0), e.need(1), e.reshaped(c, shape[1:])], flags)
    y = e.op("MatMulV2", [e.need(0), e.need(1)], flags, shape=shape)
    y = _scaled(e, y, alpha)
    if c is None or beta == 0:
        return y
    c = _scaled(e, c, beta)
    return e.op("Add", [y, c], shape=broadcast(y, c))


def _scaled(e: Emit, value: ir.Value, factor: float) -> ir.Value:
    if factor == 1:
        return value
    if value.dtype is not None and value.dtype.is_floating_point():
        return e.op("Muls", [value], {"value": factor}, shape=broadcast(value))
    return e.op("Mul", [value, scalar_like(value, factor)], shape=broadcast(value))


def _lower_matmul(e: Emit) -> ir.Value:
    a, b, bias = e.need(0), e.need(1), e.value(2)
    left, right = e.attr("transpose_x1"), e.attr("transpose_x2")
    floats = a.dtype is None or a.dtype.is_floating_point()
    if bias is None and not left and not right:
        return e.op("MatMul", [a, b])
    if floats:
        return e.op("Gemm", [a, b, bias], {"transA": left, "transB": right})
    y = e.op("MatMul", [_swapped(e, a, 2) if left else a, _swapped(e, b, 2) if right else b])
    return y if bias is None else e.op("Add", [y, bias])


def _lower_batch(e: Emit) -> ir.Value:
    a, b, bias = e.need(0), e.need(1), e.value(2)
    if e.attr("adj_x1"):
        a = _swapped(e, a, e.rank(0))
    if e.attr("adj_x2"):
        b = _swapped(e, b, e.rank(1))
    y = e.op("MatMul", [a, b])
    return y if bias is None else e.op("Add", [y, bias])


def _swapped(e: Emit, value: ir.Value, rank: int | None) -> ir.Value:
    """``value`` with its last two axes exchanged."""
    if rank is None:
        raise e.reject("the number of dimensions is unknown")
    axes = list(range(rank))
    axes[-2:] = axes[-1], axes[-2]
    return e.op("Transpose", [value], {"perm": axes})


ge("MatMulV2", "x1 x2 bias offset_w", _lower_matmul,
   [Attr("transpose_x1", "bool", 0), Attr("transpose_x2", "bool", 0), Attr("offset_x", "int", 0)], **_CUBE)  # fmt: skip
ge("BatchMatMulV2", "x1 x2 bias offset_w", _lower_batch,
   [Attr("adj_x1", "bool", 0), Attr("adj_x2", "bool", 0), Attr("offset_x", "int", 0)], **_CUBE)  # fmt: skip
onnx("MatMul", _matmul, "MatMulV2", "BatchMatMulV2", "Unsqueeze", "Squeeze")
onnx("Gemm", _gemm, "MatMulV2", "Muls", "Add")


def _einsum(e: Emit) -> ir.Value:
    return e.op("Einsum", e.inputs, {"equation": e.attr("equation"), "N": len(e.inputs)})


ge("Einsum", "x*", lambda e: e.op("Einsum", e.inputs, {"equation": e.attr("equation")}),
   [Attr("equation", "str"), Attr("N", "int")], **_CUBE)  # fmt: skip
onnx("Einsum", _einsum, "Einsum")
