"""What an inference rule sees of its node, and the arithmetic of possibly unknown dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]
Dim = int | str | None  # known, named, unknown
Dims = tuple[Dim, ...]

KNOWN_ELEMENTS: Final = 1024  # values up to this size take part in shape arithmetic
MAX_ELEMENTS: Final = 1 << 42  # more than any device holds: the model is damaged


class Inconsistent(Exception):
    """The node contradicts its inputs: the model cannot run."""


class Unknown(Exception):
    """Nothing can be said about the outputs (an input's rank or a needed value is not known)."""


class NodeView:
    """Typed access of a rule to one node: input dims, dtypes, known values, attributes; and the outputs to set."""

    __slots__ = ("known_values", "node")

    def __init__(self, node: ir.Node, known_values: MutableMapping[ir.Value, Array]) -> None:
        self.node = node
        self.known_values = known_values

    def value(self, index: int) -> ir.Value | None:
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def dims_or_none(self, index: int) -> Dims | None:
        """Dimensions of input ``index``; None when the input is absent or its rank unknown."""
        value = self.value(index)
        return None if value is None else dims_of(value)

    def dims(self, index: int) -> Dims:
        """Dimensions of input ``index``; raises ``Unknown`` when there are none."""
        value = self.value(index)
        found = None if value is None else dims_of(value)
        if found is None:
            raise Unknown
        return found

    def dtype(self, index: int) -> ir.DataType | None:
        value = self.value(index)
        return None if value is None else value.dtype

    def known(self, index: int) -> Array | None:
        """Small known value of input ``index``; an object array has None or names for unknown elements."""
        value = self.value(index)
        return None if value is None else known_of(value, self.known_values)

    def ints(self, index: int) -> list[Dim] | None:
        """Known value of input ``index`` as a flat list, None when unknown."""
        array = self.known(index)
        if array is None:
            return None
        if array.dtype == object:
            return list(array.reshape(-1))
        return [int(v) for v in array.reshape(-1)]

    def static_ints(self, index: int) -> list[int] | None:
        """Like ``ints``, but None unless every element is known."""
        found = self.ints(index)
        if found is None:
            return None
        result = [v for v in found if isinstance(v, int)]
        return result if len(result) == len(found) else None

    def has(self, index: int) -> bool:
        return self.value(index) is not None

    def attr(self, name: str, default: Any = None) -> Any:
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def out(self, dtype: ir.DataType | None, dims: Dims | None, index: int = 0) -> None:
        """Set dtype and dims of output ``index`` (absent outputs are ignored)."""
        if index < len(self.node.outputs):
            set_type(self.node.outputs[index], dtype, dims)


Rule = Callable[[NodeView], None]


def dims_of(value: ir.Value) -> Dims | None:
    """Dimensions of ``value``, None when its rank is unknown."""
    shape = value.shape
    if shape is None:
        return None
    return tuple([d if isinstance(d, int) else d.value for d in shape.dims])


def set_type(value: ir.Value, dtype: ir.DataType | None, dims: Dims | None) -> None:
    """Record what is known; a declared dimension stays where nothing was inferred for it."""
    if dtype is not None and value.dtype is not dtype:
        value.type = ir.TensorType(dtype)
    if dims is None:
        return
    old = value.shape
    if old is not None and None in dims and len(old) == len(dims):
        declared = dims_of(value) or ()
        dims = tuple(d if d is not None else o for d, o in zip(dims, declared, strict=True))
    known = [d for d in dims if isinstance(d, int)]
    if any(d < 0 for d in known) or prod(known) > MAX_ELEMENTS:
        raise Inconsistent(f"its output would have the shape {list(dims)}")
    value.shape = ir.Shape(dims)


def known_of(value: ir.Value, known_values: MutableMapping[ir.Value, Array]) -> Array | None:
    """Small array held by ``value``: computed before, or a constant of the graph."""
    found = known_values.get(value)
    if found is not None:
        return found
    if not value.is_initializer() or value.is_graph_input():
        return None
    tensor = value.const_value
    if tensor is None or tensor.size > KNOWN_ELEMENTS or tensor.dtype == ir.DataType.STRING:
        return None
    array = tensor.numpy()
    known_values[value] = array
    return array


def axis_of(axis: int, rank: int) -> int:
    """``axis`` counted from the front."""
    if not -rank <= axis < rank:
        raise Inconsistent(f"axis {axis} is outside a tensor of {rank} dimensions")
    return axis + rank if axis < 0 else axis


def product(dims: Iterable[Dim]) -> int | None:
    """Number of elements, None when a dimension is not known (0 when one is 0)."""
    total, unknown = 1, False
    for d in dims:
        if isinstance(d, int):
            total *= d
        else:
            unknown = True
    return None if unknown and total else total


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Dims of a multidirectional broadcast; raises ``Inconsistent`` when the shapes do not fit."""
    first = shapes[0]
    if all(s == first for s in shapes[1:]):
        return first
    rank = max(len(s) for s in shapes)
    result: list[Dim] = []
    for position in range(-rank, 0):
        dim: Dim = 1
        for s in shapes:
            if -position > len(s):
                continue
            d = s[position]
            if d == dim or d == 1:
                continue
            if dim == 1:
                dim = d
            elif isinstance(d, int) and isinstance(dim, int):
                raise Inconsistent(f"shapes {' and '.join(show(s) for s in shapes)} cannot be broadcast together")
            elif isinstance(d, int):
                dim = d  # an unknown dimension must be 1 or equal
            elif not isinstance(dim, int):
                dim = None
        result.append(dim)
    return tuple(result)


def show(dims: Dims) -> str:
    """Shape for messages: ``[1, 3, ?, n]``."""
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def require_equal(a: Dim, b: Dim, what: str) -> None:
    """Raise ``Inconsistent`` when both dims are known and differ."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise Inconsistent(f"{what}: {a} and {b}")


def volume(dims: Dims) -> int:
    """Number of elements of static dims."""
    return math.prod(d for d in dims if isinstance(d, int))
