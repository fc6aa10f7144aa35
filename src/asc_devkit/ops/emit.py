"""The emitter that conversion functions see (``catalogue.Emit``), one per converted node, for both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import ENGINE, GE_DOMAIN
from asc_devkit.ops import attributes, registry

Array = np.ndarray[Any, Any]
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class Rejected(Exception):
    """A conversion function cannot express this node; carries the reason and a rewrite hint."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


class Names:
    """Value and node names taken in the whole model; hands out free ones."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.kept: set[str] = set()

    def fresh(self, base: str) -> str:
        """``base`` if free, else ``base_1``, ..."""
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def keep(self, name: str) -> str:
        """The old name for the value that stands for it; a fresh one when another value already has it."""
        if name in self.kept or not name:
            name = self.fresh(name or "value")
        self.kept.add(name)
        self.taken.add(name)
        return name


@dataclass
class Scope:
    """The graph under construction. ``reshapes``: constants under another shape, by value and shape."""

    nodes: list[ir.Node] = field(default_factory=list)
    initializers: list[ir.Value] = field(default_factory=list)
    reshapes: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = field(default_factory=dict)


class Emitter:
    """Base of both directions; see ``catalogue.Emit`` for the methods. ``wide`` replaces fp16 and bf16 when given."""

    __slots__ = ("created", "inputs", "names", "node", "scope", "wide")

    def __init__(
        self,
        node: ir.Node,
        inputs: list[ir.Value | None],
        scope: Scope,
        names: Names,
        wide: ir.DataType | None,
    ) -> None:
        self.node, self.inputs, self.scope, self.names = node, inputs, scope, names
        self.wide = wide
        self.created: list[ir.Node] = []

    def value(self, index: int) -> ir.Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def need(self, index: int) -> ir.Value:
        value = self.value(index)
        if value is None:
            raise Rejected(f"input {index} is missing", "Export the model again; a required input is absent.")
        return value

    def const(self, index: int) -> Array | None:
        value = self.value(index)
        if value is None or value.const_value is None:
            return None
        return value.const_value.numpy()

    def ints(self, index: int) -> list[int] | None:
        array = self.const(index)
        return None if array is None else [int(v) for v in array.reshape(-1)]

    def shape(self, index: int) -> tuple[int, ...] | None:
        return static_shape(self.value(index))

    def rank(self, index: int) -> int | None:
        value = self.value(index)
        return None if value is None or value.shape is None else len(value.shape)

    def dtype(self, index: int) -> ir.DataType | None:
        value = self.value(index)
        return None if value is None else value.dtype

    def out_shape(self, index: int = 0) -> tuple[int, ...] | None:
        return static_shape(self.node.outputs[index]) if index < len(self.node.outputs) else None

    def out_dtype(self, index: int = 0) -> ir.DataType | None:
        return widened(self.node.outputs[index].dtype, self.wide)

    def used(self, index: int) -> bool:
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    def attr(self, name: str, default: Any = None) -> Any:
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | Array | None],
        attrs: Mapping[str, Any] | None = None,
        outputs: int = 1,
        shape: Sequence[int] | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        values = [v if v is None or isinstance(v, ir.Value) else self.constant(v) for v in inputs]
        node = self._node(op_type, values, attrs or {}, outputs)
        if dtype is None and values and values[0] is not None:
            dtype = values[0].dtype
        for output in node.outputs:
            if shape is not None:
                output.shape = ir.Shape(shape)
            if dtype is not None:
                output.type = ir.TensorType(dtype)
        self.created.append(node)
        self.scope.nodes.append(node)
        return node.outputs[0]

    def _node(self, op_type: str, values: list[ir.Value | None], attrs: Mapping[str, Any], outputs: int) -> ir.Node:
        raise NotImplementedError

    def constant(self, array: Array) -> ir.Value:
        """A new initializer."""
        name = self.names.fresh(f"{self.node.name or self.node.op_type}/const")
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.scope.initializers.append(value)
        return value

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        reshapes = self.scope.reshapes
        key = (value, tuple(shape))
        if key not in reshapes:
            tensor, dims = value.const_value, tuple(shape)
            assert tensor is not None and value.dtype is not None
            name = self.names.fresh(f"{value.name}/reshaped")
            lazy = ir.LazyTensor(
                lambda: ir.tensor(tensor.numpy().reshape(dims), dtype=tensor.dtype),
                dtype=tensor.dtype,
                shape=ir.Shape(dims),
                name=name,
            )
            made = ir.Value(name=name, shape=ir.Shape(dims), type=ir.TensorType(value.dtype), const_value=lazy)
            self.scope.initializers.append(made)
            reshapes[key] = made
        return reshapes[key]

    def reject(self, reason: str, fix: str = "") -> Exception:
        return Rejected(reason, fix)


class GeEmitter(Emitter):
    """Builds GE nodes."""

    __slots__ = ()

    def _node(self, op_type: str, values: list[ir.Value | None], attrs: Mapping[str, Any], outputs: int) -> ir.Node:
        spec = registry.lookup(op_type)
        assert spec is not None, op_type
        while values and values[-1] is None:
            values.pop()
        made = [attributes.typed(k, v, spec.attrs[k]) for k, v in attrs.items() if v is not None]
        node = ir.Node(GE_DOMAIN, op_type, values, made, num_outputs=outputs)
        node.meta[ENGINE] = spec.engine
        return node


class OnnxEmitter(Emitter):
    """Builds ONNX nodes; attributes of the GE node come with the defaults of the catalogue."""

    __slots__ = ()

    def attr(self, name: str, default: Any = None) -> Any:
        spec = registry.lookup(self.node.op_type)
        assert spec is not None
        found = self.node.attributes.get(name)
        value = spec.defaults.get(name, default) if found is None else found.value
        if spec.attrs.get(name) == "dtype" and value is not None and self.wide and value in _HALF:
            return int(self.wide)
        return value

    def _node(self, op_type: str, values: list[ir.Value | None], attrs: Mapping[str, Any], outputs: int) -> ir.Node:
        while values and values[-1] is None:
            values.pop()
        made = [attributes.plain(k, v) for k, v in attrs.items() if v is not None]
        return ir.Node("", op_type, values, made, num_outputs=outputs)


def widened(dtype: ir.DataType | None, wide: ir.DataType | None) -> ir.DataType | None:
    """``dtype``, or ``wide`` in place of fp16 and bf16."""
    return wide if wide is not None and dtype in _HALF else dtype


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Shape of ``value`` when all its dimensions are numbers."""
    if value is None or value.shape is None:
        return None
    dims = tuple(value.shape)
    return dims if all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]
