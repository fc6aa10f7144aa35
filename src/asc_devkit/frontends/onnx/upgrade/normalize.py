"""Adapters for normalisations and softmax."""

from __future__ import annotations

import numpy as np

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Input, Refusal


def flattening_softmax(e: Edit) -> None:
    """Before 13, Softmax, LogSoftmax and Hardmax worked on the input flattened to 2-D at ``axis`` (default 1)."""
    axis = e.attr("axis", 1)
    shape = e.shape(0)
    if axis == -1 or (shape is not None and axis == len(shape) - 1):
        e.set("axis", -1)
        return
    if shape is not None:
        start = axis + len(shape) if axis < 0 else axis
        if not 0 <= start <= len(shape):
            raise Refusal(f"its axis {axis} lies outside rank {len(shape)}")
        if start < len(shape) and all(d == 1 for d in shape[start + 1 :]):
            e.set("axis", start)
            return
    source = e.input(0)
    back = e.before("Shape", [source])
    flat = e.before("Flatten", [source], {"axis": axis})
    e.set("axis", -1)
    e.inputs(flat)
    e.after("Reshape", [back])


def batch_norm_test_mode(e: Edit) -> None:
    if not e.pop("is_test", 0):
        raise Refusal("it is in training mode (is_test=0): it would normalise by the batch; set is_test=1")


def batch_norm_spatial(e: Edit) -> None:
    """``spatial=0``: statistics per activation, which is plain broadcasting arithmetic over axis 0."""
    if e.pop("spatial", 1):
        return
    if any(e.is_used(i) for i in range(1, 5)):
        raise Refusal("its statistics outputs are used (training mode)")
    e.drop_outputs(1)
    x, scale, bias, mean, variance = (e.input(i) for i in range(5))
    epsilon = e.before("CastLike", [np.array(e.attr("epsilon", 1e-5), np.float32), x])
    deviation = e.before("Sqrt", [e.before("Add", [variance, epsilon])])
    centred = e.before("Div", [e.before("Sub", [x, mean]), deviation])
    e.rename("Add", [e.before("Mul", [centred, scale]), bias])


def batch_norm_outputs(e: Edit) -> None:
    """Before 14, asking for the statistics meant training mode."""
    if e.node.op_type != "BatchNormalization":
        return
    if any(e.is_used(i) for i in range(1, 5)):
        raise Refusal("its statistics outputs are used (training mode); export the model in evaluation mode")
    e.drop_outputs(1)


def group_norm_per_channel(e: Edit) -> None:
    """Before 21, scale and bias had one element per group; now one per channel."""
    groups = e.attr("num_groups")
    shape = e.shape(0)
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if channels is None:
        raise Refusal("its number of channels is unknown; give --input_shape")
    if groups < 1 or channels % groups:
        raise Refusal(f"{channels} channels cannot be divided into {groups} groups")
    e.inputs(e.input(0), _repeat(e, 1, channels // groups, groups), _repeat(e, 2, channels // groups, groups))


def _repeat(e: Edit, index: int, times: int, groups: int) -> Input:
    array = e.const(index)
    if array is not None:
        if array.shape != (groups,):
            raise Refusal(f"its input {index} has the shape {list(array.shape)}, one element per group is needed")
        return np.repeat(array, times)
    column = e.before("Unsqueeze", [e.input(index), np.array([1], np.int64)])
    wide = e.before("Expand", [column, np.array([groups, times], np.int64)])
    return e.before("Reshape", [wide, np.array([-1], np.int64)])
