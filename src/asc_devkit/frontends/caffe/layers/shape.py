"""Layers that move, cut, join and reduce."""

from __future__ import annotations

import itertools
import math
from typing import Final

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value

_END: Final = 2**31 - 1


def concat(s: Site) -> list[Value]:
    """Inputs joined along one axis."""
    p = s.param("concat_param")
    axis = s.axis(p.integer("concat_dim") if "concat_dim" in p else p.integer("axis", 1))
    rest = {(*v.shape[:axis], *v.shape[axis + 1 :]) for v in s.inputs}
    if len(rest) > 1 or len({len(v.shape) for v in s.inputs}) > 1:
        raise LayerError(f"its bottoms differ beside axis {axis}: {', '.join(str(list(v.shape)) for v in s.inputs)}")
    if len(s.inputs) == 1:
        return [s.op("Identity", [s.x], s.x.shape)]
    shape = list(s.x.shape)
    shape[axis] = sum(v.shape[axis] for v in s.inputs)
    return [s.op("Concat", s.inputs, shape, axis=axis)]


def slice_(s: Site) -> list[Value]:
    """The input cut along one axis, at given points or into equal parts."""
    p = s.param("slice_param")
    axis = s.axis(p.integer("slice_dim") if "slice_dim" in p else p.integer("axis", 1))
    points, tops, size = p.integers("slice_point"), len(s.layer.tops), s.x.shape[axis]
    if points:
        edges = [0, *points, size]
        if len(points) != tops - 1 or any(b <= a for a, b in itertools.pairwise(edges)):
            raise LayerError(f"slice_point {points} does not cut {size} into {tops} parts")
    else:
        if size % tops:
            raise LayerError(f"{size} cannot be cut into {tops} equal parts")
        edges = list(range(0, size + 1, size // tops))
    parts = [b - a for a, b in itertools.pairwise(edges)]
    if tops == 1:
        return [s.op("Identity", [s.x], s.x.shape)]
    shapes = [(*s.x.shape[:axis], part, *s.x.shape[axis + 1 :]) for part in parts]
    return s.ops("Split", [s.x, s.constant(parts, "parts")], shapes, axis=axis)


def split(s: Site) -> list[Value]:
    """The input under several names."""
    return [s.op("Identity", [s.x], s.x.shape) for _ in s.layer.tops]


def flatten(s: Site) -> list[Value]:
    """Axes from ``axis`` to ``end_axis`` made one."""
    p = s.param("flatten_param")
    first, last = s.axis(p.integer("axis", 1)), s.axis(p.integer("end_axis", -1))
    if last < first:
        raise LayerError(f"end_axis {last} comes before axis {first}")
    shape = (*s.x.shape[:first], math.prod(s.x.shape[first : last + 1]), *s.x.shape[last + 1 :])
    return [_changed(s, shape)]


def reshape(s: Site) -> list[Value]:
    """Some axes replaced by others: 0 copies an axis, -1 is computed."""
    p = s.param("reshape_param")
    wanted, rank = p.message("shape").integers("dim"), len(s.x.shape)
    start, count = p.integer("axis"), p.integer("num_axes", -1)
    start = start + rank + 1 if start < 0 else start
    end = rank if count == -1 else start + count
    if not 0 <= start <= end <= rank:
        raise LayerError(f"axis {p.integer('axis')} and num_axes {count} do not fit an input of {rank} axes")
    middle: list[int] = []
    for position, dim in enumerate(wanted):
        if dim == 0 and start + position >= rank:
            raise LayerError(f"dim 0 at place {position} has no axis to copy")
        middle.append(s.x.shape[start + position] if dim == 0 else dim)
    if middle.count(-1) > 1 or any(d < -1 for d in middle):
        raise LayerError(f"dim {wanted} is not possible")
    head, tail = s.x.shape[:start], s.x.shape[end:]
    if -1 in middle:
        known = math.prod(d for d in (*head, *middle, *tail) if d != -1)
        if not known or math.prod(s.x.shape) % known:
            raise LayerError(f"{list(s.x.shape)} cannot be reshaped with dim {wanted}")
        middle[middle.index(-1)] = math.prod(s.x.shape) // known
    return [_changed(s, (*head, *middle, *tail))]


def _changed(s: Site, shape: tuple[int, ...]) -> Value:
    return s.op("Identity", [s.x], s.x.shape) if shape == s.x.shape else s.reshape(s.x, shape)


def permute(s: Site) -> list[Value]:
    """Axes in another order; those not named follow in their own order."""
    order = s.param("permute_param").integers("order")
    rank = len(s.x.shape)
    if len(set(order)) != len(order) or any(not 0 <= i < rank for i in order):
        raise LayerError(f"order {order} does not fit an input of {rank} axes")
    return [s.transpose(s.x, [*order, *(i for i in range(rank) if i not in order)])]


def tile(s: Site) -> list[Value]:
    """The input repeated along one axis."""
    p = s.param("tile_param")
    axis, times = s.axis(p.integer("axis", 1)), p.integer("tiles")
    if times < 1:
        raise LayerError(f"tiles is {times}")
    repeats = [times if i == axis else 1 for i in range(len(s.x.shape))]
    shape = [n * r for n, r in zip(s.x.shape, repeats, strict=True)]
    return [s.op("Tile", [s.x, s.constant(repeats, "repeats")], shape)]


def reduction(s: Site) -> list[Value]:
    """Sum, sum of magnitudes, sum of squares or mean over all axes from ``axis`` on, times ``coeff``."""
    p = s.param("reduction_param")
    kind = p.enum("operation", ("SUM", "ASUM", "SUMSQ", "MEAN"), "SUM", (1, 2, 3, 4))
    axis, factor = s.axis(p.integer("axis")), p.number("coeff", 1.0)
    name = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}[kind]
    axes = s.constant(list(range(axis, len(s.x.shape))), "axes")
    result = s.op(name, [s.x, axes], s.x.shape[:axis], keepdims=0)
    return [result if factor == 1 else s.op("Mul", [result, s.number(factor, "coeff")], result.shape)]


def argmax(s: Site) -> list[Value]:
    """The largest values' positions as floats: along an axis, or over each sample as [N, 1, k] ([N, 2, k] with values)."""
    p = s.param("argmax_param")
    k, with_values = p.integer("top_k", 1), p.flag("out_max_val")
    x = s.x
    flat = "axis" not in p
    if flat:
        x = s.reshape(x, (x.shape[0], 1, math.prod(x.shape[1:])))
    axis = 2 if flat else s.axis(p.integer("axis"))
    if not 1 <= k <= x.shape[axis]:
        raise LayerError(f"top_k {k} of {x.shape[axis]} is not possible")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    if k == 1 and not with_values:
        position = s.op("ArgMax", [x], shape, axis=axis, keepdims=1)
        return [s.op("Cast", [position], shape, to=1)]
    values, positions = s.ops("TopK", [x, s.constant([k], "k")], [shape, shape], axis=axis)
    positions = s.op("Cast", [positions], shape, to=1)
    if not with_values:
        return [positions]
    if not flat:
        return [s.op("Identity", [values], shape)]
    return [s.op("Concat", [positions, values], (shape[0], 2, k), axis=1)]


def crop(s: Site) -> list[Value]:
    """The first input cut to the size of the second, from ``axis`` on, starting at the offsets."""
    p = s.param("crop_param")
    like, offsets = s.input(1), p.integers("offset")
    rank = len(s.x.shape)
    axis = s.axis(p.integer("axis", 2))
    if len(like.shape) != rank:
        raise LayerError(f"its bottoms have {rank} and {len(like.shape)} axes")
    starts = offsets * (rank - axis) if len(offsets) == 1 else offsets or [0] * (rank - axis)
    if len(starts) != rank - axis:
        raise LayerError(f"{len(offsets)} offsets are given for {rank - axis} axes")
    ends = [a + n for a, n in zip(starts, like.shape[axis:], strict=True)]
    if any(a < 0 or e > n for a, e, n in zip(starts, ends, s.x.shape[axis:], strict=True)):
        raise LayerError(f"{list(like.shape)} at {starts} does not lie inside {list(s.x.shape)}")
    axes = list(range(axis, rank))
    inputs = [s.x, s.constant(starts, "starts"), s.constant(ends, "ends"), s.constant(axes, "axes")]
    return [s.op("Slice", inputs, (*s.x.shape[:axis], *like.shape[axis:]))]


def reverse(s: Site) -> list[Value]:
    """One axis in reverse order."""
    axis = s.axis(s.param("reverse_param").integer("axis"))
    texts = ("starts", [-1]), ("ends", [-_END]), ("axes", [axis]), ("steps", [-1])
    return [s.op("Slice", [s.x, *(s.constant(v, label) for label, v in texts)], s.x.shape)]


def shuffle(s: Site) -> list[Value]:
    """Channels of ``group`` groups interleaved (ShuffleNet)."""
    group = s.param("shuffle_channel_param").integer("group", 1)
    if len(s.x.shape) < 2 or group < 1 or s.x.shape[1] % group:
        raise LayerError(f"{list(s.x.shape)} cannot be shuffled in {group} groups")
    n, c, *rest = s.x.shape
    parts = s.reshape(s.x, (n, group, c // group, *rest), "parts")
    order = [0, 2, 1, *range(3, len(parts.shape))]
    return [s.reshape(s.transpose(parts, order), s.x.shape)]


HANDLERS = {
    "ArgMax": argmax,
    "Concat": concat,
    "Crop": crop,
    "Flatten": flatten,
    "Permute": permute,
    "Reduction": reduction,
    "Reshape": reshape,
    "Reverse": reverse,
    "ShuffleChannel": shuffle,
    "Slice": slice_,
    "Split": split,
    "Tile": tile,
}
