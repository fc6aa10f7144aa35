"""Element types and shapes of values, found on demand while opsets are converted.

Each operator is inferred with its own schema at its own opset (``onnx.shape_inference.infer_node_outputs``), so the
answer is right before and after its conversion. Only what an adapter asks for, and what that depends on, is computed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs
from onnx.shape_inference import infer_node_outputs

from asc_devkit.ops.catalogue import CANONICAL_OPSET

_MAX_DATA: Final = 1024  # elements of constants shown to the inference (shapes, axes, ...)
_SAME: Final = frozenset(
    (
        "Relu",
        "Sigmoid",
        "Tanh",
        "Clip",
        "LeakyRelu",
        "HardSigmoid",
        "Elu",
        "Identity",
        "Dropout",
        "Neg",
        "Abs",
        "Sqrt",
        "Exp",
        "Log",
        "Floor",
        "Ceil",
        "Erf",
        "HardSwish",
        "BatchNormalization",
        "InstanceNormalization",
        "Softmax",
        "LogSoftmax",
        "Softplus",
        "Softsign",
        "Selu",
        "Reciprocal",
        "Round",
        "Sign",
        "PRelu",
    )
)
Shape = tuple[int | None, ...]


class Types:
    """Known types of a model's values: (element type or None, shape or None) each."""

    def __init__(self, graph: ir.Graph) -> None:
        self._known: dict[ir.Value, tuple[ir.DataType | None, Shape | None]] = {}
        for one in (graph, *graph.subgraphs()):
            for value in (*one.inputs, *one.initializers.values()):
                self._known[value] = (value.dtype, _dims(value.shape))

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Element type, None when unknown."""
        return self._find(value)[0]

    def shape(self, value: ir.Value) -> Shape | None:
        """Dimensions with None for open ones; None when the rank is unknown."""
        return self._find(value)[1]

    def forget(self, value: ir.Value) -> None:
        """The value now stands for something else."""
        self._known.pop(value, None)

    def _find(self, value: ir.Value) -> tuple[ir.DataType | None, Shape | None]:
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._known:
                stack.pop()
                continue
            node = current.producer()
            if node is None:
                self._known[current] = (current.dtype, _dims(current.shape))
                continue
            waiting = [v for v in node.inputs if v is not None and v not in self._known]
            if waiting:
                stack += waiting
                continue
            self._infer(node)
        return self._known[value]

    def _infer(self, node: ir.Node) -> None:
        for output in node.outputs:
            self._known[output] = (None, None)
        if node.domain != "" or any(a.type in _GRAPHS or a.is_ref() for a in node.attributes.values()):
            return
        if node.op_type in _SAME and node.inputs and node.inputs[0] is not None:
            self._known[node.outputs[0]] = self._known[node.inputs[0]]
            return
        try:
            schema = defs.get_schema(node.op_type, node.version or CANONICAL_OPSET, "")
            found = self._ask(node, schema)
        except Exception:  # the C++ inference raises many types on contradictory nodes; then nothing is known
            return
        for index, output in enumerate(node.outputs):
            message = found.get(f"o{index}")
            if message is not None and message.HasField("tensor_type"):
                self._known[output] = _from_proto(message.tensor_type)
        self._rank_from_shape_input(node)

    def _ask(self, node: ir.Node, schema: defs.OpSchema) -> dict[str, onnx.TypeProto]:
        inputs = {f"i{i}": v for i, v in enumerate(node.inputs) if v is not None}
        message = onnx.NodeProto(
            op_type=node.op_type,
            input=[f"i{i}" if v is not None else "" for i, v in enumerate(node.inputs)],
            output=[f"o{i}" for i in range(len(node.outputs))],
        )
        for item in node.attributes.values():
            message.attribute.append(ir.serde.serialize_attribute(item))
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, value in inputs.items():
            dtype, shape = self._known[value]
            if dtype is None:
                return {}
            types[name] = _to_proto(dtype, shape)
            array = self._small(value)
            if array is not None:
                data[name] = onnx.numpy_helper.from_array(array)
        opset = onnx.helper.make_opsetid("", node.version or CANONICAL_OPSET)
        return dict(infer_node_outputs(schema, message, types, data, opset_imports=[opset]))

    def _small(self, value: ir.Value) -> np.ndarray[Any, Any] | None:
        tensor = value.const_value
        if tensor is None or tensor.size > _MAX_DATA or tensor.dtype not in (ir.DataType.INT64, ir.DataType.FLOAT):
            return None
        return np.asarray(tensor.numpy())

    def _rank_from_shape_input(self, node: ir.Node) -> None:
        """Reshape, ConstantOfShape: the length of the shape input is the rank, even when its content is computed."""
        index = {"Reshape": 1, "ConstantOfShape": 0}.get(node.op_type)
        dtype, shape = self._known[node.outputs[0]]
        source = node.inputs[index] if index is not None and index < len(node.inputs) else None
        length = self._known[source][1] if source is not None else None
        if shape is not None or length is None or len(length) != 1 or length[0] is None:
            return
        self._known[node.outputs[0]] = (dtype, (None,) * min(length[0], 64))


_GRAPHS: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _dims(shape: ir.Shape | None) -> Shape | None:
    return None if shape is None else tuple(d if isinstance(d, int) else None for d in shape)


def _to_proto(dtype: ir.DataType, shape: Shape | None) -> onnx.TypeProto:
    message = onnx.TypeProto()
    message.tensor_type.elem_type = int(dtype)
    if shape is not None:
        message.tensor_type.shape.SetInParent()
        for dim in shape:
            entry = message.tensor_type.shape.dim.add()
            if dim is not None:
                entry.dim_value = dim
    return message


def _from_proto(message: onnx.TypeProto.Tensor) -> tuple[ir.DataType | None, Shape | None]:
    dtype = ir.DataType(message.elem_type) if message.elem_type else None
    if not message.HasField("shape"):
        return dtype, None
    return dtype, tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in message.shape.dim
    )
