"""Small steps that several families take when one ONNX node becomes more than one GE node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Emit

Shape = tuple[int, ...]


def shape_of(value: ir.Value | None) -> Shape | None:
    """Static shape of a value, None when unknown."""
    if value is None or value.shape is None:
        return None
    dims = tuple(value.shape)
    return dims if all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]


def unsqueeze(e: Emit, value: ir.Value, axis: int) -> ir.Value:
    """``value`` with a dimension of 1 inserted at ``axis`` (>= 0): a re-labelled constant, or an Unsqueeze node."""
    shape = shape_of(value)
    wider = None if shape is None else (*shape[:axis], 1, *shape[axis:])
    if value.const_value is not None and wider is not None:
        return e.reshaped(value, wider)
    return e.op("Unsqueeze", [value], {"axes": [axis]}, shape=wider)


def squeeze(e: Emit, value: ir.Value, axis: int) -> ir.Value:
    """``value`` without its dimension ``axis`` of size 1."""
    shape = shape_of(value)
    return e.op("Squeeze", [value], {"axis": [axis]}, shape=None if shape is None else shape[:axis] + shape[axis + 1 :])


def broadcast(*values: ir.Value) -> Shape | None:
    """Shape of an element-wise operation on ``values``."""
    shapes = [shape_of(v) for v in values]
    if any(s is None for s in shapes):
        return None
    try:
        return np.broadcast_shapes(*(s for s in shapes if s is not None))
    except ValueError:
        return None


def chain(e: Emit, ge_type: str, values: Sequence[ir.Value]) -> ir.Value:
    """((a op b) op c) op ... with a two-input GE operator; a single value passes through."""
    result = values[0]
    for value in values[1:]:
        result = e.op(ge_type, [result, value], shape=broadcast(result, value))
    return result


def int64(*values: int) -> np.ndarray[Any, Any]:
    """A 1-D int64 constant."""
    return np.array(values, np.int64)


def scalar_like(value: ir.Value, number: float) -> np.ndarray[Any, Any]:
    """A 0-D constant of the element type of ``value``."""
    dtype = value.dtype or ir.DataType.FLOAT
    return np.array(number).astype(dtype.numpy())
