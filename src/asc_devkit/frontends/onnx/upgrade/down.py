"""Adapters for forms newer than the canonical opset: rewritten where that is exact, refused otherwise.

New operators without an entry (TensorScatter, LinearAttention, ...) keep their identity; a later stage lists them.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def attention(e: Edit) -> None:
    """24 added the number of valid keys, 25 sliding windows."""
    if e.input(6) is not None:
        raise Refusal("it uses nonpad_kv_seqlen (opset 24)")
    if e.pop("left_window_size", -1) != -1 or e.pop("right_window_size", -1) != -1:
        raise Refusal("it uses a sliding window (opset 25)")


def round_mode(e: Edit) -> None:
    """24 added how float8e8m0 is rounded, a type the canonical opset does not have."""
    e.pop("round_mode")


def integer_mod(e: Edit) -> None:
    if not e.attr("fmod", 0):
        dtype = e.dtype(0)
        if dtype is None or dtype.is_floating_point():
            raise Refusal("it takes the floor remainder of floats (opset 28)")


def unsigned_only(e: Edit) -> None:
    dtype = e.dtype(0)
    if dtype is None or dtype.is_signed():
        raise Refusal("it shifts signed integers (opset 28)")


def range_stash_type(e: Edit) -> None:
    """27: ranges of half floats are computed in ``stash_type`` (float)."""
    stash = e.pop("stash_type", 1)
    dtype = e.dtype(0)
    if dtype not in _HALF:
        if dtype is None:
            raise Refusal("its element type is unknown")
        return
    if stash != ir.DataType.FLOAT:
        raise Refusal("its stash_type is not float")
    wide = [e.before("Cast", [e.input(i)], {"to": int(ir.DataType.FLOAT)}) for i in range(3)]
    e.inputs(*wide)
    e.after("Cast", attrs={"to": int(dtype)})


def space_to_depth_mode(e: Edit) -> None:
    """28: ``CRD`` orders channels first: reshape, transpose, reshape."""
    if e.pop("mode", "DCR") == "DCR":
        return
    size, shape = e.attr("blocksize"), e.shape(0)
    if shape is None or len(shape) != 4 or None in shape or any((d or 0) % size for d in shape[2:]):
        raise Refusal("mode=CRD needs a known input shape; give --input_shape")
    n, c, h, w = (int(d or 0) for d in shape)
    blocks = e.before("Reshape", [e.input(0), np.array([n, c, h // size, size, w // size, size], np.int64)])
    order = e.before("Transpose", [blocks], {"perm": [0, 1, 3, 5, 2, 4]})
    e.rename("Reshape", [order, np.array([n, c * size * size, h // size, w // size], np.int64)])


def swish(e: Edit) -> None:
    """x * sigmoid(alpha * x)."""
    e.rename("Mul", [e.input(0), _gate(e)])


def swiglu(e: Edit) -> None:
    """swish(a) * b."""
    value = e.input(1)
    e.rename("Mul", [e.before("Mul", [e.input(0), _gate(e)]), value])


def _gate(e: Edit) -> ir.Value:
    x, alpha = e.input(0), e.attr("alpha", 1.0)
    if alpha != 1.0:
        dtype = e.dtype(0)
        if dtype is None:
            factor = e.before("CastLike", [np.array(alpha, np.float32), x])
        else:
            factor = e.constant(np.array(alpha, np.float32).astype(dtype.numpy()), "alpha")
        x = e.before("Mul", [x, factor])
    return e.before("Sigmoid", [x])
