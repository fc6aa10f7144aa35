"""The forward walk: rule per operator, arithmetic on small known values, onnx's own inference for the rest."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import lru_cache

import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import CANONICAL_OPSET, newer_opset
from asc_devkit.ops.evaluate import FUNCTIONS, apply, evaluate
from asc_devkit.ops.evaluate.call import Refuse
from asc_devkit.ops.infer import contraction, control, elementwise, movement
from asc_devkit.ops.infer.view import (
    KNOWN_ELEMENTS,
    Array,
    Dim,
    Inconsistent,
    NodeView,
    Rule,
    Unknown,
    dims_of,
    known_of,
    set_type,
    volume,
)

RULES: dict[str, Rule] = {**elementwise.RULES, **movement.RULES, **contraction.RULES}
MAX_DEPTH = 32
MAX_LISTED = 200
# Operators whose outputs on partly known shape vectors can still be told, element by element.
_SYMBOLIC = frozenset(
    ("Add", "Cast", "Concat", "Div", "Gather", "Identity", "Mul", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze")
)


def infer(model: ir.Model) -> None:
    """Set dtype and shape on every value of ``model`` that can be told, in place, through control-flow bodies.

    Small integer arithmetic on shapes is evaluated, so Reshape, Slice, Expand, Range, ... get static shapes. Operators
    of unknown domains leave their outputs as declared. Raises ``AscError`` listing all nodes that contradict their
    inputs.
    """
    walker = _Walker()
    walker.graph(model.graph, 0)
    if walker.problems:
        raise AscError(walker.problems[:MAX_LISTED])


def infer_node(node: ir.Node, known_values: MutableMapping[ir.Value, Array] | None = None) -> None:
    """Set dtype and shape of the outputs of one node without subgraphs. Raises ``AscError`` when it is inconsistent."""
    walker = _Walker(known_values)
    walker.node(node, 0)
    if walker.problems:
        raise AscError(walker.problems)


class _Walker:
    def __init__(self, known_values: MutableMapping[ir.Value, Array] | None = None) -> None:
        self.known: MutableMapping[ir.Value, Array] = {} if known_values is None else known_values
        self.problems: list[Problem] = []

    def graph(self, graph: ir.Graph, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise AscError(
                Problem(
                    "E13014", "control flow is nested too deeply", f"more than {MAX_DEPTH} bodies inside each other"
                )
            )
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and value.type is None:
                value.type = ir.TensorType(tensor.dtype)
            if tensor is not None and value.shape is None:
                value.shape = ir.Shape(tuple(tensor.shape.numpy()))
        for node in graph:
            self.node(node, depth)

    def node(self, node: ir.Node, depth: int) -> None:
        view = NodeView(node, self.known)
        try:
            newer = newer_opset(node.domain)
            if newer is not None:
                _onnx_inference(node, self.known, newer)
                return
            declared = registry.infer_rule(node.op_type, node.domain)
            if declared is not None:
                declared(view)
                return
            if node.domain:
                rule = contraction.CONTRIB_RULES.get((node.domain, node.op_type))
                if rule is not None:
                    rule(view)
                return
            _check_arity(node)
            structured = control.RULES.get(node.op_type)
            if structured is not None:
                structured(view, lambda body: self.graph(body, depth + 1))
                return
            rule = RULES.get(node.op_type)
            if rule is not None:
                rule(view)
            else:
                _onnx_inference(node, self.known)
            self._evaluate(node)
        except Unknown:
            pass
        except Inconsistent as error:
            self._report(node, str(error))
        except (ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError) as error:
            # A rule that stumbles over a missing or mistyped attribute or input: the node is malformed.
            self._report(node, f"malformed inputs or attributes ({error})")

    def _report(self, node: ir.Node, reason: str) -> None:
        name = node.name or (node.outputs[0].name if node.outputs else "") or "?"
        self.problems.append(
            Problem(
                "E14001",
                f"{node.op_type} node {name}: {reason}",
                "the operator's inputs or attributes contradict each other for the given input shapes",
                "check the model and --input_shape; export the model again if it was cut or edited",
                (name,),
                "EE2001",
            )
        )

    def _evaluate(self, node: ir.Node) -> None:
        """Remember the outputs of ``node`` when its inputs are small known values."""
        if node.outputs[0] in self.known or node.op_type not in FUNCTIONS or not node.inputs:
            return
        inputs: list[Array | None] = []
        for value in node.inputs:
            if value is None:
                inputs.append(None)
                continue
            array = known_of(value, self.known)
            if array is None:
                return
            inputs.append(array)
        if any(a is not None and a.dtype == object for a in inputs):
            try:
                result = _symbolic(node, inputs)
            except Refuse:
                return
            if result is not None:
                self.known[node.outputs[0]] = result
            return
        for out in node.outputs:
            dims = dims_of(out)
            if dims is None or not all(isinstance(d, int) for d in dims) or volume(dims) > KNOWN_ELEMENTS:
                return
        arrays = evaluate(node, inputs)
        if arrays is not None:
            self.known.update(zip(node.outputs, arrays, strict=False))


@lru_cache(maxsize=1024)
def _schema(op_type: str, opset: int = CANONICAL_OPSET) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _check_arity(node: ir.Node) -> None:
    schema = _schema(node.op_type)
    if schema is None:
        return
    for what, count, low, high in (
        ("inputs", len(node.inputs), schema.min_input, schema.max_input),
        ("outputs", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not low <= count <= high:
            raise Inconsistent(f"{count} {what} where the operator has {low} to {high}")


def _symbolic(node: ir.Node, inputs: list[Array | None]) -> Array | None:
    """Value of a shape computation in which some elements are None (unknown) or names."""
    arrays = [np.empty((0,), object) if a is None else a.astype(object) for a in inputs]
    if node.op_type not in _SYMBOLIC or not arrays:
        return None
    operation = {"Add": _add, "Sub": _subtract, "Mul": _multiply, "Div": _divide}.get(node.op_type)
    if operation is not None:
        a, b = np.broadcast_arrays(arrays[0], arrays[1])
        combined: Array = np.empty(a.shape, object)
        for index in np.ndindex(a.shape):
            combined[index] = operation(a[index], b[index])
        return combined
    if node.op_type in ("Cast", "Identity"):
        return arrays[0]
    # Movements: run the movement on positions, then pick the elements.
    flat = [e for a, i in zip(arrays, inputs, strict=True) if i is not None for e in a.reshape(-1)]
    movable = len(arrays) if node.op_type == "Concat" else 1
    positions: list[Array | None] = []
    offset = 0
    for k, (array, original) in enumerate(zip(arrays, inputs, strict=True)):
        if k < movable:
            positions.append(np.arange(offset, offset + array.size, dtype=np.int64).reshape(array.shape))
            offset += array.size
        elif original is not None and original.dtype == object:
            return None
        else:
            positions.append(original)
    moved = apply(node, positions)
    result: Array = np.empty(moved.shape, object)
    for index in np.ndindex(moved.shape):
        result[index] = flat[moved[index]]
    return result


def _add(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else None


def _subtract(a: Dim, b: Dim) -> Dim:
    return a - b if isinstance(a, int) and isinstance(b, int) else a if b == 0 else None


def _multiply(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return a if b == 1 else b if a == 1 else None


def _divide(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int) and b:
        return int(a / b)
    return a if b == 1 else None


def _imports(opset: int) -> list[onnx.OperatorSetIdProto]:
    return [onnx.helper.make_opsetid("", opset)]


def _onnx_inference(node: ir.Node, known: MutableMapping[ir.Value, Array], opset: int = CANONICAL_OPSET) -> None:
    """Infer with onnx's function for the operator (operators without a rule here)."""
    schema = _schema(node.op_type, opset)
    if schema is None:
        return
    if node.op_type == "Einsum" and "." in node.attributes.get_string("equation", "").replace("...", ""):
        raise Inconsistent("its equation has dots that are no '...'")  # onnx's parser of equations never ends on them
    proto = ir.serde.serialize_node(node)
    proto.domain = ""
    types, data = {}, {}
    for value in node.inputs:
        if value is None or value.type is None or not value.name:
            continue
        types[value.name] = ir.serde.serialize_value(value).type
        array = known_of(value, known)
        if array is not None and array.dtype != object:
            data[value.name] = onnx.numpy_helper.from_array(array, value.name)
    try:
        try:
            found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=_imports(opset))
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
            newest = _schema(node.op_type, onnx.defs.onnx_opset_version())  # later opsets allow more element types
            if newest is None or newest.since_version <= opset:
                raise
            newer = _imports(newest.since_version)
            found = onnx.shape_inference.infer_node_outputs(newest, proto, types, data, opset_imports=newer)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise Inconsistent(str(error).splitlines()[0]) from error
    for out in node.outputs:
        result = found.get(out.name or "")
        if result is None:
            continue
        if not result.HasField("tensor_type"):
            out.type = ir.serde.deserialize_type_proto_for_type(result)
            continue
        shape = ir.serde.deserialize_type_proto_for_shape(result)
        dtype = ir.DataType(result.tensor_type.elem_type)
        dims = None if shape is None else tuple(d if isinstance(d, int) else d.value for d in shape.dims)
        set_type(out, dtype if dtype != ir.DataType.UNDEFINED else None, dims)
