"""What an adapter may ask about a node and do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.names import Names
from asc_devkit.frontends.onnx.upgrade.types import Types
from asc_devkit.ge.desc import ORIGIN_OPS, ORIGIN_TENSOR

Array = np.ndarray[Any, Any]
Input = ir.Value | Array | None


class Refusal(Exception):
    """The node cannot be converted exactly; the text says why and what would help."""


class Edit:
    """One node under conversion. New nodes are made in canonical form and remember the node they come from."""

    def __init__(self, node: ir.Node, types: Types, names: Names, warnings: list[str]) -> None:
        self.node, self.types, self.names, self.warnings = node, types, names, warnings
        graph = node.graph
        assert graph is not None
        self.graph: ir.Graph = graph

    # --- asking -----------------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value (lists as tuples)."""
        found = self.node.attributes.get(name)
        if found is None:
            return default
        return found.value

    def input(self, index: int) -> ir.Value | None:
        """Input ``index``, None when absent."""
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def const(self, index: int) -> Array | None:
        """The array of input ``index`` when it is a constant."""
        value = self.input(index)
        if value is None or value.const_value is None:
            return None
        return np.asarray(value.const_value.numpy())

    def shape(self, index: int = 0) -> tuple[int | None, ...] | None:
        """Dimensions of input ``index`` (None where open), None when not even the rank is known."""
        value = self.input(index)
        return None if value is None else self.types.shape(value)

    def dtype(self, index: int = 0) -> ir.DataType | None:
        """Element type of input ``index``."""
        value = self.input(index)
        return None if value is None else self.types.dtype(value)

    def rank(self, index: int, why: str) -> int:
        """Rank of input ``index``; refuses when it cannot be found."""
        shape = self.shape(index)
        if shape is None:
            raise Refusal(f"the rank of its input {index} is unknown and needed for {why}; give --input_shape")
        return len(shape)

    def is_used(self, output: int) -> bool:
        """Whether anything reads output ``output``."""
        outputs = self.node.outputs
        return output < len(outputs) and bool(outputs[output].uses() or outputs[output].is_graph_output())

    # --- doing ------------------------------------------------------------------------------------------------------

    def pop(self, name: str, default: Any = None) -> Any:
        """Remove an attribute and return its value."""
        value = self.attr(name, default)
        self.node.attributes.pop(name, None)
        return value

    def set(self, name: str, value: Any) -> None:
        """Set an attribute from a Python value."""
        self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def drop_outputs(self, keep: int) -> None:
        """Drop all outputs from index ``keep`` on; they must be unused."""
        if len(self.node.outputs) > keep:
            self.node.resize_outputs(keep)

    def constant(self, array: Array, hint: str) -> ir.Value:
        """A new constant of the node's graph."""
        name = self.names.value(f"{self.node.name}/{hint}")
        tensor = ir.Tensor(array, name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def inputs(self, *inputs: Input) -> None:
        """Replace all inputs; arrays become constants, None an absent input, trailing Nones vanish."""
        values = [self._value(item, f"input_{i}") for i, item in enumerate(inputs)]
        while values and values[-1] is None:
            values.pop()
        old = [v for v in self.node.inputs if v is not None]
        self.node.resize_inputs(len(values))
        for index, value in enumerate(values):
            self.node.replace_input_with(index, value)
        for value in old:  # constants that nothing reads any more
            if value.is_initializer() and not value.uses() and not value.is_graph_output() and value.graph is not None:
                value.graph.initializers.pop(value.name or "")

    def rename(self, op_type: str, inputs: Sequence[Input], attrs: Mapping[str, Any] | None = None) -> None:
        """Turn the node into another operator with exactly these inputs and attributes."""
        self.node.op_type = op_type
        for name in list(self.node.attributes):
            self.node.attributes.pop(name)
        for name, value in (attrs or {}).items():
            self.set(name, value)
        self.inputs(*inputs)

    def before(self, op_type: str, inputs: Sequence[Input], attrs: Mapping[str, Any] | None = None) -> ir.Value:
        """A new node in front of this one; its output."""
        new = self._make(op_type, inputs, attrs)
        self.graph.insert_before(self.node, new)
        return new.outputs[0]

    def after(self, op_type: str, more: Sequence[Input] = (), attrs: Mapping[str, Any] | None = None) -> None:
        """A new node behind output 0 that takes over its name and users; ``more`` are the new node's further inputs."""
        old = self.node.outputs[0]
        new = self._make(op_type, [old, *more], attrs)
        self.graph.insert_after(self.node, new)
        result, name = new.outputs[0], old.name
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        new.replace_input_with(0, old)
        old.name = self.names.value(f"{self.node.name}/{self.node.op_type}")
        if result.name is not None:
            self.names.values.discard(result.name)
        result.name, result.type = name, old.type
        if ORIGIN_TENSOR in old.meta:
            result.meta[ORIGIN_TENSOR] = old.meta.pop(ORIGIN_TENSOR)
        old.type = None

    def _make(self, op_type: str, inputs: Sequence[Input], attrs: Mapping[str, Any] | None) -> ir.Node:
        values = [self._value(item, op_type.lower()) for item in inputs]
        attributes = [ir.convenience.convert_attribute(k, v) for k, v in (attrs or {}).items()]
        new = ir.Node("", op_type, values, attributes, name=self.names.node(f"{self.node.name}/{op_type}"))
        new.meta[ORIGIN_OPS] = self.node.meta.get(ORIGIN_OPS, ())
        new.outputs[0].name = self.names.value(f"{new.name}_out")
        return new

    def _value(self, item: Input, hint: str) -> ir.Value | None:
        return self.constant(item, hint) if isinstance(item, np.ndarray) else item
