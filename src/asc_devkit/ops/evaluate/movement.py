"""Operators that make, move or select elements, on numpy arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from asc_devkit.ops.evaluate.call import Array, Call, Function, Refuse


def _shape(c: Call) -> Array:
    return np.array(c[0].shape[c.attr("start", 0) : c.attr("end", None)], dtype=np.int64)


def _reshape(c: Call) -> Array:
    x, target = c[0], c.ints(1) or []
    if not c.attr("allowzero", 0):
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


def _squeeze(c: Call) -> Array:
    axes = c.ints(1)
    return np.squeeze(c[0], axis=None if axes is None else tuple(axes))


def _unsqueeze(c: Call) -> Array:
    return np.expand_dims(c[0], tuple(c.ints(1) or []))


def _flatten(c: Call) -> Array:
    x, axis = c[0], c.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), -1) if x.size else x.reshape(math.prod(x.shape[:axis]), 0)


def _transpose(c: Call) -> Array:
    return np.ascontiguousarray(np.transpose(c[0], c.attr("perm", None)))


def _concat(c: Call) -> Array:
    return np.concatenate([c[i] for i in range(len(c.x))], axis=c.attr("axis"))


def _split(c: Call) -> list[Array]:
    x, axis, sizes = c[0], c.attr("axis", 0), c.ints(1)
    if sizes is None:
        count = c.attr("num_outputs", len(c.node.outputs))
        step = -(-x.shape[axis] // count)
        bounds = [min(step * (i + 1), x.shape[axis]) for i in range(count - 1)]
    else:
        bounds = list(np.cumsum(sizes)[:-1])
    return [np.ascontiguousarray(p) for p in np.split(x, bounds, axis=axis)]


def _slice(c: Call) -> Array:
    x = c[0]
    starts, ends = c.ints(1) or [], c.ints(2) or []
    axes = c.ints(3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = c.ints(4) or [1] * len(starts)
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice_of(x.shape[axis], start, end, step)
    return np.ascontiguousarray(x[tuple(index)])


def slice_of(dim: int, start: int, end: int, step: int) -> slice:
    """The Python slice equal to ONNX Slice on an axis of length ``dim``."""
    if step == 0:
        raise Refuse
    start = start + dim if start < 0 else start
    end = end + dim if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), dim), min(max(end, 0), dim), step)
    start, end = min(max(start, 0), dim - 1), min(max(end, -1), dim - 1)
    return slice(start, None if end < 0 else end, step)


def _gather(c: Call) -> Array:
    x, index, axis = c[0], c[1], c.attr("axis", 0)
    if index.size and (index.max() >= x.shape[axis] or index.min() < -x.shape[axis]):
        raise Refuse
    return np.take(x, index, axis=axis)


def _gather_elements(c: Call) -> Array:
    x, index, axis = c[0], c[1], c.attr("axis", 0)
    if index.size and (index.max() >= x.shape[axis] or index.min() < -x.shape[axis]):
        raise Refuse
    return np.take_along_axis(x, np.where(index < 0, index + x.shape[axis], index), axis=axis)


def _gather_nd(c: Call) -> Array:
    x, index = c[0], c[1]
    if c.attr("batch_dims", 0):
        raise Refuse
    return np.ascontiguousarray(x[tuple(np.moveaxis(index, -1, 0))])


def _scatter_nd(c: Call) -> Array:
    if c.attr("reduction", "none") != "none":
        raise Refuse
    result: Array = c[0].copy()
    result[tuple(np.moveaxis(c[1], -1, 0))] = c[2]
    return result


def _expand(c: Call) -> Array:
    x = c[0]
    return np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(c.ints(1) or []))))


def _constant_of_shape(c: Call) -> Array:
    value = c.attr("value")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return np.full(tuple(c.ints(0) or []), fill.reshape(-1)[0], dtype=fill.dtype)


def _range(c: Call) -> Array:
    start, limit, delta = c[0].reshape(()), c[1].reshape(()), c[2].reshape(())
    count = range_length(start, limit, delta)
    return np.asarray(start + np.arange(count).astype(start.dtype) * delta, dtype=start.dtype)


def range_length(start: Array, limit: Array, delta: Array) -> int:
    """Number of elements of ONNX Range."""
    if not float(delta):
        raise Refuse
    return int(max(math.ceil((limit.item() - start.item()) / delta.item()), 0))


def _pad(c: Call) -> Array:
    x, pads = c[0], c.ints(1) or []
    axes = c.ints(3)
    axes = list(range(x.ndim)) if axes is None else axes
    if c.attr("mode", "constant") != "constant" or min(pads, default=0) < 0:
        raise Refuse
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis] = (pads[i], pads[i + len(axes)])
    fill = c.get(2)
    return np.pad(x, widths, constant_values=x.dtype.type(0) if fill is None else fill.reshape(-1)[0])


def _one_hot(c: Call) -> Array:
    index, depth, values, axis = c[0], int(c[1].reshape(-1)[0]), c[2], c.attr("axis", -1)
    hot = np.expand_dims(np.where(index < 0, index + depth, index), axis)
    shape = [1] * hot.ndim
    shape[axis] = depth
    return np.asarray(np.where(hot == np.arange(depth).reshape(shape), values[1], values[0]), dtype=values.dtype)


def _trilu(c: Call) -> Array:
    shift = c.get(1)
    k = 0 if shift is None else int(shift.reshape(-1)[0])
    return np.triu(c[0], k) if c.attr("upper", 1) else np.tril(c[0], k)


FUNCTIONS: Final[dict[str, Function]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Identity": lambda c: c[0],
    "NonZero": lambda c: np.array(np.nonzero(c[0]), dtype=np.int64),
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": lambda c: np.array(c[0].size, dtype=np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": lambda c: np.tile(c[0], c.ints(1) or []),
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "Where": lambda c: np.where(c[0], c[1], c[2]),
}
