"""Random inputs of a model whose shapes may be open: axes get sizes that models commonly take."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx import Loaded

Array = np.ndarray[Any, Any]
OPEN_AXIS: Final = 16
OPEN_IMAGE: Final = 64  # rows and columns of pictures: nets halve them several times


def random_feeds(loaded: Loaded, runs: int, seed: int) -> list[dict[str, Any]]:
    """``runs`` sets of inputs: normal floats, small integers, true flags and masks, empty-free sequences.

    Axes that share a name get the same size; the first axis is 1, others 16, of pictures 64.
    """
    rng = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    shapes = {v.name or "": _shape(v, sizes) for v in loaded.model.graph.inputs}
    return [
        {v.name or "": _value(rng, v, shapes[v.name or ""]) for v in loaded.model.graph.inputs} for _ in range(runs)
    ]


def _shape(value: ir.Value, sizes: dict[str, int]) -> tuple[int, ...]:
    dims = list(value.shape or ())
    found = []
    for axis, dim in enumerate(dims):
        if isinstance(dim, int):
            found.append(dim)
            continue
        size = 1 if axis == 0 else 3 if axis == 1 and len(dims) == 4 else OPEN_IMAGE if len(dims) >= 4 else OPEN_AXIS
        found.append(sizes.setdefault(dim.value, size) if dim.value else size)
    return tuple(found)


def _value(rng: np.random.Generator, value: ir.Value, shape: tuple[int, ...]) -> Any:
    if isinstance(value.type, ir.SequenceType):
        inner = value.type.elem_type
        dtype = inner.dtype.numpy() if isinstance(inner, ir.TensorType) else np.dtype(np.float32)
        return [_array(rng, value.name or "", np.dtype(dtype), (2, 3)) for _ in range(2)]
    dtype = np.dtype((value.dtype or ir.DataType.FLOAT).numpy())
    return _array(rng, value.name or "", dtype, shape)


def _array(rng: np.random.Generator, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if dtype == np.bool_ or "mask" in name.lower():
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "OUS":
        return np.full(shape, "text", dtype=object)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
