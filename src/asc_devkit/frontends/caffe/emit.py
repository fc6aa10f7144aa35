"""The ONNX graph under construction: values with known shapes, nodes, constants; names are given at the end.

A layer's handler sees a ``Site`` (its parameters, inputs and weights) and builds nodes through it. Caffe computes layers in
place, so several values may be versions of one blob: the last one keeps the blob's name, earlier ones get the layer's too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from asc_devkit.frontends.caffe.network import Layer
from asc_devkit.frontends.caffe.text import Message

OPSET: Final = 18
MAX_ELEMENTS: Final = 1 << 31
MAX_NODES: Final = 200_000

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class LayerError(Exception):
    """A layer cannot be converted; the text says why."""


@dataclass(eq=False)
class Value:
    """A tensor of the graph; float32 unless ``data`` says otherwise. ``name`` is a wish until the graph is finished."""

    shape: Shape
    name: str = ""
    data: Array | None = None


@dataclass(eq=False)
class _Node:
    kind: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any]
    name: str = ""


@dataclass
class Graph:
    """Nodes in order and the inputs and outputs of the model."""

    nodes: list[_Node] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def proto(self, name: str) -> onnx.ModelProto:
        """The finished model; every value gets a unique name."""
        taken: set[str] = set()
        for visible in (*self.inputs, *self.outputs):  # these must keep their names
            visible.name = _free(visible.name, taken)
        initializers: list[Value] = []
        seen: set[int] = {id(v) for v in (*self.inputs, *self.outputs)}
        for node in self.nodes:
            for value in (*node.inputs, *node.outputs):
                if value is None or id(value) in seen:
                    continue
                seen.add(id(value))
                value.name = _free(value.name or "value", taken)
                if value.data is not None:
                    initializers.append(value)
        names: set[str] = set()
        nodes = [
            helper.make_node(
                node.kind,
                [v.name if v is not None else "" for v in node.inputs],
                [v.name for v in node.outputs],
                _free(node.name, names),
                **node.attributes,
            )
            for node in self.nodes
        ]
        graph = helper.make_graph(
            nodes,
            name or "net",
            [helper.make_tensor_value_info(v.name, onnx.TensorProto.FLOAT, v.shape) for v in self.inputs],
            [helper.make_tensor_value_info(v.name, onnx.TensorProto.FLOAT, v.shape) for v in self.outputs],
            [numpy_helper.from_array(v.data, v.name) for v in initializers if v.data is not None],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        model.producer_name = "Caffe"
        return model


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


@dataclass
class Site:
    """What a handler works with: one layer, its input values and its weights (float32 arrays)."""

    layer: Layer
    graph: Graph
    inputs: list[Value]
    weights: list[Array]
    params: list[Message] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def x(self) -> Value:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> Value:
        """The input at ``index``. Raises ``LayerError`` when the layer has fewer."""
        if index >= len(self.inputs):
            raise LayerError(f"it needs {index + 1} bottom(s) and has {len(self.inputs)}")
        return self.inputs[index]

    def param(self, name: str) -> Message:
        """The layer's parameter message called ``name`` (empty when absent)."""
        message = self.layer.message.message(name)
        self.params.append(message)
        return message

    def weight(self, index: int, what: str) -> Array:
        """Weight blob ``index``. Raises ``LayerError`` when the caffemodel has fewer."""
        if index >= len(self.weights):
            raise LayerError(
                f"its {what} (blob {index}) are missing in the caffemodel, which holds {len(self.weights)}"
            )
        return self.weights[index]

    def axis(self, number: int, rank: int | None = None) -> int:
        """``number`` as an axis of the first input, counted from 0. Raises ``LayerError`` when out of range."""
        rank = len(self.x.shape) if rank is None else rank
        if not -rank <= number < max(rank, 1):
            raise LayerError(f"axis {number} is outside its input of {rank} axes")
        return number % max(rank, 1)

    def constant(self, array: Array | Sequence[int], label: str) -> Value:
        """A constant called after the layer; sequences of integers become int64."""
        data = np.ascontiguousarray(array) if isinstance(array, np.ndarray) else np.asarray(array, np.int64)
        return Value(data.shape, f"{self.layer.name}/{label}", data)

    def number(self, value: float, label: str) -> Value:
        """A float32 scalar."""
        return self.constant(np.array(value, np.float32), label)

    def op(self, kind: str, inputs: Sequence[Value | None], shape: Sequence[int], **attributes: Any) -> Value:
        """Add a node with one output of ``shape``."""
        return self.ops(kind, inputs, [shape], **attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[Value | None], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> list[Value]:
        """Add a node with one output per shape. Raises ``LayerError`` for shapes no device could hold."""
        for shape in shapes:
            if any(d <= 0 for d in shape):
                raise LayerError(f"its output would have the shape {list(shape)}")
            if math.prod(shape) > MAX_ELEMENTS:
                raise LayerError(f"its output would have the shape {list(shape)}, more than {MAX_ELEMENTS} numbers")
        if len(self.graph.nodes) >= MAX_NODES:
            raise LayerError(f"the net becomes larger than {MAX_NODES} operators")
        label = f"{self.layer.name}/{kind}"
        outputs = [Value(tuple(shape), label) for shape in shapes]
        self.graph.nodes.append(_Node(kind, list(inputs), outputs, attributes, label))
        return outputs

    def reshape(self, value: Value, shape: Sequence[int], label: str = "shape") -> Value:
        """``value`` with another shape of as many elements; itself when it has that shape already."""
        if tuple(shape) == value.shape:
            return value
        if math.prod(shape) != math.prod(value.shape):
            raise LayerError(f"{list(value.shape)} cannot be reshaped to {list(shape)}")
        return self.op("Reshape", [value, self.constant(list(shape), label)], shape)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """``value`` with its axes in another order."""
        return self.op("Transpose", [value], [value.shape[i] for i in order], perm=list(order))

    def finish(self, results: Sequence[Value], first_node: int) -> list[Value]:
        """Give the layer's results their names and the node behind the first one the layer's name."""
        fresh = {id(v): node for node in self.graph.nodes[first_node:] for v in node.outputs}
        named: list[Value] = []
        for top, value in zip(self.layer.tops, results, strict=True):
            if id(value) not in fresh or any(value is other for other in named):
                value = self.op("Identity", [value], value.shape)
                fresh[id(value)] = self.graph.nodes[-1]
            value.name = top
            named.append(value)
        if named:
            fresh[id(named[0])].name = self.layer.name
        return named
