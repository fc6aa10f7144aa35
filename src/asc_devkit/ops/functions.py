"""Operators that ONNX defines through simpler ones (Attention, RotaryEmbedding, ...): their bodies as canonical nodes.

Called by ``ops.convert`` for operators declared with ``declare.by_definition``. The body is simplified with what is known
about the node: arithmetic on shapes is evaluated, branches that lead nowhere and copies are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs

from asc_devkit.errors import AscError
from asc_devkit.ops.catalogue import CANONICAL_OPSET
from asc_devkit.ops.emit import Array, Rejected, static_shape


@dataclass(frozen=True)
class Body:
    """Nodes in execution order, constants among their inputs, and the value of each output of the original node."""

    nodes: list[ir.Node]
    constants: list[ir.Value]
    results: list[ir.Value]


def body(node: ir.Node) -> Body:
    """The definition of ``node`` over its own inputs, with shapes and dtypes; raises ``Rejected`` when it has none."""
    builder = _Builder(node)
    builder.run()
    return builder.finished()


class _Builder:
    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.base = node.name or node.op_type
        self.function = _definition(node)
        self.values: dict[str, ir.Value | None] = {"": None}
        self.known: dict[ir.Value, Array] = {}
        self.nodes: list[ir.Node] = []
        self.wanted: dict[str, ir.Value] = {}
        for index, name in enumerate(self.function.input):
            self.values[name] = node.inputs[index] if index < len(node.inputs) else None
        for index, name in enumerate(self.function.output):
            if index < len(node.outputs) and node.outputs[index].name:
                self.wanted[name] = node.outputs[index]

    def run(self) -> None:
        for proto in self.function.node:
            if proto.op_type == "Constant":
                self.constant(proto)
            else:
                self.step(proto)

    def constant(self, proto: onnx.NodeProto) -> None:
        found = self.attributes(proto)
        if not found:  # refers to an attribute that the node does not carry: the body does not use it either
            self.values[proto.output[0]] = None
            return
        (attribute,) = found
        data = attribute.value
        array = data.numpy() if attribute.type == ir.AttributeType.TENSOR else _array(attribute)
        self.values[proto.output[0]] = self.known_value(proto.output[0], array)

    def known_value(self, name: str, array: Array) -> ir.Value:
        tensor = ir.tensor(array)
        value = ir.Value(name=f"{self.base}/{name}", shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype))
        value.const_value = tensor
        self.known[value] = array
        return value

    def step(self, proto: onnx.NodeProto) -> None:
        from asc_devkit.ops.infer import infer_node

        inputs = [self.values[name] for name in proto.input]
        outputs = list(proto.output)
        inner = ir.Node("", proto.op_type, inputs, self.attributes(proto), num_outputs=len(outputs))
        inner.name = f"{self.base}/{proto.op_type}_{outputs[0]}"
        try:
            infer_node(inner, self.known)
        except AscError as error:
            raise Rejected(f"its definition does not fit its inputs ({error.problems[0].what})") from error
        computed = [self.known.get(value) for value in inner.outputs]
        is_result = any(name in self.wanted for name in outputs)
        if not is_result and all(a is not None and a.dtype != object for a in computed):
            for name, array in zip(outputs, computed, strict=True):
                assert array is not None
                self.values[name] = self.known_value(name, array)
            _detach(inner)
            return
        if not is_result and _is_copy(inner):
            self.values[outputs[0]] = inner.inputs[0]
            _detach(inner)
            return
        for name, value in zip(outputs, inner.outputs, strict=True):
            original = self.wanted.get(name)
            value.name = f"{self.base}/{name}" if original is None else original.name
            self.values[name] = value
        self.nodes.append(inner)

    def attributes(self, proto: onnx.NodeProto) -> list[ir.Attr]:
        """Attributes of a body node; references to the original node's attributes are resolved."""
        found = []
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                given = self.node.attributes.get(attribute.ref_attr_name) or self.default(attribute.ref_attr_name)
                if given is not None:
                    found.append(ir.Attr(attribute.name, given.type, given.value))
            elif attribute.type == onnx.AttributeProto.GRAPH:
                raise Rejected("its definition has control flow")
            else:
                found.append(ir.serde.deserialize_attribute(attribute))
        return found

    def default(self, name: str) -> ir.Attr | None:
        declared: Any = _schema(self.node).attributes[name].default_value
        return ir.serde.deserialize_attribute(declared) if declared.name else None

    def finished(self) -> Body:
        results = []
        for output in self.node.outputs:
            name = next((n for n, v in self.wanted.items() if v is output), None)
            result = None if name is None else self.values.get(name)
            results.append(result if result is not None else ir.Value(name=""))
        live: set[ir.Value] = set(results)
        kept: list[ir.Node] = []
        for inner in reversed(self.nodes):
            if any(value in live for value in inner.outputs):
                kept.append(inner)
                live.update(v for v in inner.inputs if v is not None)
            else:
                _detach(inner)
        return Body(kept[::-1], [v for v in self.known if v.const_value is not None and v in live], results)


def _definition(node: ir.Node) -> onnx.FunctionProto:
    schema = _schema(node)
    function = onnx.FunctionProto()
    if schema.has_function:
        function.CopyFrom(schema.function_body)
        return function
    if not schema.has_context_dependent_function:
        raise Rejected("ONNX has no definition of it through simpler operators")
    types = []
    for value in node.inputs:
        proto = onnx.TypeProto()
        if value is not None and value.type is not None:
            ir.serde.serialize_type_into(proto, value.type)
            shape = static_shape(value)
            if shape is not None:
                proto.tensor_type.shape.CopyFrom(onnx.helper.make_tensor_type_proto(1, shape).tensor_type.shape)
        types.append(proto.SerializeToString())
    found = schema.get_context_dependent_function(ir.serde.serialize_node(node).SerializeToString(), types)
    function.ParseFromString(found)
    return function


def _schema(node: ir.Node) -> Any:
    try:
        return defs.get_schema(node.op_type, CANONICAL_OPSET, "")
    except defs.SchemaError as error:
        raise Rejected("ONNX has no operator of that name") from error


def _array(attribute: ir.Attr) -> Array:
    """The tensor of a Constant given as ``value_int(s)`` or ``value_float(s)``."""
    floats = attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS)
    return np.array(attribute.value, np.float32 if floats else np.int64)


def _is_copy(node: ir.Node) -> bool:
    """Identity, a Cast to the type it has, an Expand or Reshape to the shape it has."""
    source, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if source is None or node.op_type not in _COPIES:
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type in ("Cast", "CastLike"):
        return source.dtype == result.dtype
    return static_shape(source) is not None and static_shape(source) == static_shape(result)


_COPIES = frozenset({"Cast", "CastLike", "Expand", "Identity", "Reshape"})


def _detach(node: ir.Node) -> None:
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
