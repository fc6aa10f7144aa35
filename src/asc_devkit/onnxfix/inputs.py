"""Random inputs of a model whose shapes may be open: axes get sizes that models commonly take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx import Loaded

Array = np.ndarray[Any, Any]
OPEN_IMAGE: Final = 64  # rows and columns of pictures: nets halve them several times
#: Sizes of other open axes, tried in this order until the original model takes one: 16,000 is a second of sound.
OPEN_AXES: Final = (16, 64, 512, 16_000)


MAX_ELEMENTS: Final = 1 << 27  # of all inputs of one run


def has_open_axes(loaded: Loaded) -> bool:
    """Whether a size must be chosen for some axis of an input."""
    return any(not isinstance(dim, int) for value in loaded.model.graph.inputs for dim in value.shape or ())


def random_feeds(
    loaded: Loaded, runs: int, seed: int, open_axis: int = OPEN_AXES[0]
) -> Iterator[dict[str, Any]] | None:
    """``runs`` sets of inputs: normal floats, integers 0 and 1, true flags, masks, sequences of two tensors.

    Axes that share a name get the same size; the first axis is 1, others ``open_axis``, of pictures 64. Masks are all
    ones in the first run and end in zeros in the others. None when the inputs have more than ``MAX_ELEMENTS``.
    """
    sizes: dict[str, int] = {}
    declared = loaded.original.inputs
    shapes = {
        v.name or "": _shape(v, sizes, open_axis, declared.get(v.name or "", ("", None))[1] or ())
        for v in loaded.model.graph.inputs
    }
    if sum(math.prod(shape) for shape in shapes.values()) > MAX_ELEMENTS:
        return None
    rng = np.random.default_rng(seed)
    return (
        {v.name or "": _value(rng, v, shapes[v.name or ""], run) for v in loaded.model.graph.inputs}
        for run in range(runs)
    )


def _shape(
    value: ir.Value, sizes: dict[str, int], open_axis: int, declared: Sequence[int | str | None]
) -> tuple[int, ...]:
    dims = list(value.shape or ())
    found = []
    for axis, dim in enumerate(dims):
        if isinstance(dim, int):
            found.append(dim)
            continue
        if axis < len(declared) and declared[axis] == 0:  # an empty cache of an attention, say
            found.append(0)
            continue
        size = 1 if axis == 0 else 3 if axis == 1 and len(dims) == 4 else OPEN_IMAGE if len(dims) >= 4 else open_axis
        found.append(sizes.setdefault(dim.value, size) if dim.value else size)
    return tuple(found)


def _value(rng: np.random.Generator, value: ir.Value, shape: tuple[int, ...], run: int) -> Any:
    if isinstance(value.type, ir.SequenceType):
        inner = value.type.elem_type
        dtype = inner.dtype.numpy() if isinstance(inner, ir.TensorType) else np.dtype(np.float32)
        return [_array(rng, value.name or "", np.dtype(dtype), (2, 3), run) for _ in range(2)]
    dtype = np.dtype((value.dtype or ir.DataType.FLOAT).numpy())
    return _array(rng, value.name or "", dtype, shape, run)


def _array(rng: np.random.Generator, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], run: int) -> Array:
    if dtype == np.bool_ or "mask" in name.lower():
        flags = np.ones(shape, dtype)
        if run and shape and "mask" in name.lower():
            flags[..., shape[-1] - shape[-1] // 4 :] = 0
        return flags
    if dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "OUS":
        return np.full(shape, "text", dtype=object)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
