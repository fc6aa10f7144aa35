"""Adapters for the one-sided broadcasting before opset 7 (``broadcast`` and ``axis`` attributes)."""

from __future__ import annotations

import numpy as np

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal


def axis_to_unsqueeze(e: Edit) -> None:
    """B's axes matched A's from ``axis`` on; numpy broadcasting matches from the end, so B gets trailing ones."""
    wanted, axis = e.pop("broadcast", 0), e.pop("axis")
    if not wanted or axis is None:
        return
    rank_a, rank_b = e.rank(0, "old-style broadcasting"), e.rank(1, "old-style broadcasting")
    start = axis + rank_a if axis < 0 else axis
    missing = rank_a - start - rank_b
    if not 0 <= start <= rank_a or missing < 0:
        raise Refusal(f"it broadcasts rank {rank_b} to rank {rank_a} from axis {axis}, which is impossible")
    if missing and rank_b:
        _append_axes(e, rank_b, missing)


def slope_per_channel(e: Edit) -> None:
    """PRelu before 7: a slope vector belongs to axis 1; since then it would match the last axis."""
    shape = e.shape(1)
    if shape is None or len(shape) != 1:
        if shape is None:
            raise Refusal("the shape of its slope is unknown")
        return
    if shape[0] == 1:
        return
    missing = e.rank(0, "a slope per channel") - 2
    if missing < 0:
        raise Refusal("it has a slope per channel but its input has no channel axis")
    if missing:
        _append_axes(e, 1, missing)


def drop_broadcast(e: Edit) -> None:
    """Gemm before 7: with ``broadcast`` C was extended as numpy does, without it had the full shape."""
    e.pop("broadcast")


def _append_axes(e: Edit, rank: int, count: int) -> None:
    array = e.const(1)
    if array is not None:
        second = e.constant(array.reshape(array.shape + (1,) * count), "expanded")
    else:
        second = e.before("Unsqueeze", [e.input(1), np.arange(rank, rank + count, dtype=np.int64)])
    e.inputs(e.input(0), second)
