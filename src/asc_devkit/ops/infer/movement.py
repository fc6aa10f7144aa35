"""Inference rules: operators that make, move, select or count elements."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.infer.view import (
    Array,
    Dim,
    Dims,
    Inconsistent,
    NodeView,
    Rule,
    Unknown,
    axis_of,
    broadcast,
    product,
    require_equal,
    show,
)

INT64 = ir.DataType.INT64


def shape(c: NodeView) -> None:
    start, end = c.attr("start", 0), c.attr("end", None)
    c.out(INT64, (None,))
    dims = c.dims(0)[start:end]
    c.out(INT64, (len(dims),))
    if all(isinstance(d, int) for d in dims):
        value: Array = np.array(dims, dtype=np.int64)
    else:
        value = np.empty(len(dims), dtype=object)
        value[:] = dims
    c.known_values[c.node.outputs[0]] = value


def size(c: NodeView) -> None:
    c.out(INT64, ())
    count = product(c.dims(0))
    if count is not None:
        c.known_values[c.node.outputs[0]] = np.array(count, dtype=np.int64)


def reshape(c: NodeView) -> None:
    dtype, target = c.dtype(0), c.ints(1)
    c.out(dtype, None)
    x = c.dims_or_none(0)
    if target is None:
        rank = (c.dims_or_none(1) or (None,))[0]
        if isinstance(rank, int):
            c.out(dtype, (None,) * rank)
        return
    result: list[Dim] = []
    for i, d in enumerate(target):
        if d == 0 and not c.attr("allowzero", 0):
            if x is None:
                d = None
            elif i < len(x):
                d = x[i]
            else:
                raise Inconsistent(f"target {target} copies dimension {i} of a tensor of {len(x)} dimensions")
        result.append(d)
    if result.count(-1) > 1:
        raise Inconsistent(f"target {target} has more than one -1")
    total = None if x is None else product(x)
    if -1 in result:
        at = result.index(-1)
        result[at] = _inferred(x, total, result, target)
    else:
        have = product(result)
        if total is not None and have is not None and total != have:
            raise Inconsistent(f"{show(x or ())} cannot be reshaped to {show(tuple(result))}")
    c.out(dtype, tuple(result))


def _inferred(x: Dims | None, total: int | None, result: list[Dim], target: list[Dim]) -> Dim:
    """The dimension that -1 stands for."""
    rest = product(d for d in result if d != -1)
    if total is not None and rest is not None:
        if rest and total % rest:
            raise Inconsistent(f"{show(x or ())} cannot be reshaped to {target}")
        return total // rest if rest else 0
    if x is None:
        return None
    ours, theirs = [d for d in x if not isinstance(d, int)], [d for d in result if not isinstance(d, int)]
    for d in list(theirs):  # cancel the names both sides have in common
        if d is not None and d in ours:
            ours.remove(d)
            theirs.remove(d)
    left = math.prod(d for d in x if isinstance(d, int))
    right = math.prod(d for d in result if isinstance(d, int) and d != -1)
    if theirs or not right or left % right:
        return None
    if not ours:
        return left // right
    return ours[0] if len(ours) == 1 and left == right else None


def transpose(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x = c.dims(0)
    perm = c.attr("perm", None)
    if perm is None:
        perm = range(len(x) - 1, -1, -1)
    elif sorted(perm) != list(range(len(x))):
        raise Inconsistent(f"perm {list(perm)} does not permute a tensor of {len(x)} dimensions")
    c.out(c.dtype(0), tuple(x[p] for p in perm))


def squeeze(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x = c.dims(0)
    if c.has(1):
        axes = c.static_ints(1)
        if axes is None:
            return
        gone = {axis_of(a, len(x)) for a in axes}
        for a in gone:
            require_equal(x[a], 1, f"dimension {a} of {show(x)} is squeezed but not 1")
    else:
        if not all(isinstance(d, int) for d in x):
            return
        gone = {i for i, d in enumerate(x) if d == 1}
    c.out(c.dtype(0), tuple(d for i, d in enumerate(x) if i not in gone))


def unsqueeze(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x, axes = c.dims(0), c.static_ints(1)
    if axes is None:
        return
    rank = len(x) + len(axes)
    where = {axis_of(a, rank) for a in axes}
    if len(where) != len(axes):
        raise Inconsistent(f"axes {axes} name one dimension twice")
    rest = iter(x)
    c.out(c.dtype(0), tuple(1 if i in where else next(rest) for i in range(rank)))


def flatten(c: NodeView) -> None:
    c.out(c.dtype(0), (None, None))
    x, axis = c.dims(0), c.attr("axis", 1)
    axis = axis + len(x) if axis < 0 else axis
    c.out(c.dtype(0), (product(x[:axis]), product(x[axis:])))


def concat(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, None)
    shapes = [c.dims(i) for i in range(len(c.node.inputs))]
    first = shapes[0]
    axis = axis_of(c.attr("axis"), len(first))
    result = list(first)
    for s in shapes[1:]:
        if len(s) != len(first):
            raise Inconsistent(f"ranks of {show(first)} and {show(s)} differ")
        for i, d in enumerate(s):
            if i == axis:
                continue
            require_equal(result[i], d, f"{show(first)} and {show(s)} differ outside axis {axis}")
            if not isinstance(result[i], int):
                result[i] = d if isinstance(d, int) or d == result[i] else result[i]
    lengths = [s[axis] for s in shapes]
    result[axis] = sum(d for d in lengths if isinstance(d, int)) if all(isinstance(d, int) for d in lengths) else None
    c.out(dtype, tuple(result))


def split(c: NodeView) -> None:
    dtype, count = c.dtype(0), len(c.node.outputs)
    for i in range(count):
        c.out(dtype, None, i)
    x = c.dims(0)
    axis = axis_of(c.attr("axis", 0), len(x))
    sizes: list[Dim] | None = None
    dim = x[axis]
    if c.has(1):
        sizes = c.ints(1)
        if sizes is not None:
            total = product([0 if s is None else 1 for s in sizes])
            if total and isinstance(dim, int):
                require_equal(sum(s for s in sizes if isinstance(s, int)), dim, f"split {sizes} of axis {axis}")
    elif isinstance(dim, int):
        require_equal(c.attr("num_outputs", count), count, "num_outputs and outputs")
        step = -(-dim // count)
        sizes = [min(step, max(dim - step * i, 0)) for i in range(count)]
    if sizes is not None and len(sizes) != count:
        raise Inconsistent(f"{len(sizes)} parts for {count} outputs")
    for i in range(count):
        c.out(dtype, (*x[:axis], None if sizes is None else sizes[i], *x[axis + 1 :]), i)


def slice_(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, None)
    x = c.dims(0)
    starts, ends = c.ints(1), c.ints(2)
    axes = c.static_ints(3) if c.has(3) else None
    steps = c.static_ints(4) if c.has(4) else None
    if (c.has(3) and axes is None) or (c.has(4) and steps is None):
        c.out(dtype, (None,) * len(x))
        return
    if axes is None:
        length = len(starts) if starts is not None else (c.dims_or_none(1) or (None,))[0]
        if not isinstance(length, int):
            c.out(dtype, (None,) * len(x))
            return
        axes = list(range(length))
    result = list(x)
    for i, a in enumerate(axes):
        axis = axis_of(a, len(x))
        begin = starts[i] if starts is not None else None
        end = ends[i] if ends is not None else None
        result[axis] = _sliced(x[axis], begin, end, 1 if steps is None else steps[i])
    c.out(dtype, tuple(result))


def _sliced(dim: Dim, start: Dim, end: Dim, step: int) -> Dim:
    """Length of a sliced axis."""
    if step == 0:
        raise Inconsistent("slice step is 0")
    if start == 0 and step == 1 and (end == dim or (isinstance(end, int) and end >= 1 << 31)):
        return dim
    if not (isinstance(dim, int) and isinstance(start, int) and isinstance(end, int)):
        return None
    start = start + dim if start < 0 else start
    end = end + dim if end < 0 else end
    if step > 0:
        low, high = min(max(start, 0), dim), min(max(end, 0), dim)
    else:
        low, high = min(max(start, 0), dim - 1), min(max(end, -1), dim - 1)
    return max(-((low - high) // step), 0)


def gather(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x, index = c.dims(0), c.dims(1)
    axis = axis_of(c.attr("axis", 0), len(x))
    c.out(c.dtype(0), (*x[:axis], *index, *x[axis + 1 :]))


def gather_elements(c: NodeView) -> None:
    c.out(c.dtype(0), c.dims_or_none(1))


def gather_nd(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x, index = c.dims(0), c.dims(1)
    depth = index[-1]
    if isinstance(depth, int):
        c.out(c.dtype(0), (*index[:-1], *x[c.attr("batch_dims", 0) + depth :]))


def expand(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, None)
    x, target = c.dims(0), c.ints(1)
    if target is None:
        rank = (c.dims_or_none(1) or (None,))[0]
        if isinstance(rank, int):
            c.out(dtype, (None,) * max(rank, len(x)))
        return
    c.out(dtype, broadcast([x, tuple(target)]))


def tile(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x, repeats = c.dims(0), c.static_ints(1)
    if repeats is None:
        c.out(c.dtype(0), (None,) * len(x))
        return
    if len(repeats) != len(x):
        raise Inconsistent(f"{len(repeats)} repeats for {show(x)}")
    c.out(
        c.dtype(0),
        tuple(d * r if isinstance(d, int) else (d if r == 1 else None) for d, r in zip(x, repeats, strict=True)),
    )


def constant_of_shape(c: NodeView) -> None:
    value = c.attr("value")
    dtype = ir.DataType.FLOAT if value is None else value.dtype
    c.out(dtype, None)
    target = c.ints(0)
    if target is not None:
        if any(isinstance(d, int) and d < 0 for d in target):
            raise Inconsistent(f"negative dimension in shape {target}")
        c.out(dtype, tuple(target))
        return
    rank = (c.dims_or_none(0) or (None,))[0]
    if isinstance(rank, int):
        c.out(dtype, (None,) * rank)


def range_(c: NodeView) -> None:
    c.out(c.dtype(0), (None,))
    parts = [c.known(i) for i in range(3)]
    numbers = [p.reshape(-1)[0] for p in parts if p is not None and p.size == 1 and p.dtype != object]
    if len(numbers) == 3:
        start, limit, delta = (n.item() for n in numbers)
        if delta == 0:
            raise Inconsistent("range step is 0")
        count = (limit - start) / delta
        if math.isfinite(count):
            c.out(c.dtype(0), (max(math.ceil(count), 0),))


def pad(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x, pads = c.dims(0), c.static_ints(1)
    axes = c.static_ints(3) if c.has(3) else list(range(len(x)))
    if pads is None or axes is None:
        c.out(c.dtype(0), (None,) * len(x))
        return
    if len(pads) != 2 * len(axes):
        raise Inconsistent(f"{len(pads)} pads for {len(axes)} axes")
    result = list(x)
    for i, a in enumerate(axes):
        axis = axis_of(a, len(x))
        d = x[axis]
        result[axis] = d + pads[i] + pads[i + len(axes)] if isinstance(d, int) else None
        if isinstance(d, int) and d + pads[i] + pads[i + len(axes)] < 0:
            raise Inconsistent(f"pads {pads} cut more than {show(x)} has")
    c.out(c.dtype(0), tuple(result))


def one_hot(c: NodeView) -> None:
    c.out(c.dtype(2), None)
    index, depth = c.dims(0), c.static_ints(1)
    axis = axis_of(c.attr("axis", -1), len(index) + 1)
    c.out(c.dtype(2), (*index[:axis], depth[0] if depth else None, *index[axis:]))


def top_k(c: NodeView) -> None:
    c.out(INT64, None, 1)
    c.out(c.dtype(0), None)
    x, k = c.dims(0), c.static_ints(1)
    axis = axis_of(c.attr("axis", -1), len(x))
    dims = (*x[:axis], k[0] if k else None, *x[axis + 1 :])
    c.out(c.dtype(0), dims)
    c.out(INT64, dims, 1)


def non_zero(c: NodeView) -> None:
    x = c.dims_or_none(0)
    c.out(INT64, (None if x is None else max(len(x), 1), None))


def eye_like(c: NodeView) -> None:
    dtype = c.attr("dtype")
    c.out(ir.DataType(dtype) if dtype else c.dtype(0), c.dims_or_none(0))


def space_to_depth(c: NodeView) -> None:
    n, ch, h, w = _four(c)
    b = c.attr("blocksize")
    c.out(c.dtype(0), (n, _times(ch, b * b), _over(h, b), _over(w, b)))


def depth_to_space(c: NodeView) -> None:
    n, ch, h, w = _four(c)
    b = c.attr("blocksize")
    c.out(c.dtype(0), (n, _over(ch, b * b), _times(h, b), _times(w, b)))


def _four(c: NodeView) -> Dims:
    c.out(c.dtype(0), None)
    x = c.dims(0)
    if len(x) != 4:
        raise Inconsistent(f"{show(x)} has not 4 dimensions")
    return x


def _times(d: Dim, factor: int) -> Dim:
    return d * factor if isinstance(d, int) else None


def _over(d: Dim, factor: int) -> Dim:
    if not isinstance(d, int):
        return None
    if factor <= 0 or d % factor:
        raise Inconsistent(f"dimension {d} is no multiple of {factor}")
    return d // factor


def resize(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, None)
    x = c.dims(0)
    axes = [axis_of(a, len(x)) for a in c.attr("axes", None) or range(len(x))]
    result = list(x)
    if c.has(3):
        sizes = c.static_ints(3)
        if sizes is None or len(sizes) != len(axes):
            raise Unknown
        policy = c.attr("keep_aspect_ratio_policy", "stretch")
        old = [x[a] for a in axes]
        if policy != "stretch":
            lengths = [d for d in old if isinstance(d, int) and d]
            if len(lengths) != len(old):
                raise Unknown
            ratios = [s / d for s, d in zip(sizes, lengths, strict=True)]
            scale = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = [math.floor(scale * d + 0.5) for d in lengths]
        for axis, length in zip(axes, sizes, strict=True):
            result[axis] = length
    else:
        scales = c.known(2)
        if scales is None or scales.dtype == object:
            raise Unknown
        if scales.size != len(axes):
            raise Inconsistent(f"{scales.size} scales for {len(axes)} axes")
        for axis, s in zip(axes, scales, strict=True):
            d = x[axis]
            result[axis] = math.floor(d * float(s)) if isinstance(d, int) else (d if s == 1 else None)
    c.out(dtype, tuple(result))


RULES: dict[str, Rule] = {
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "Resize": resize,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "TopK": top_k,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
