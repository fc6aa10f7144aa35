"""From the parsed message to the IR, checking the structure on the way and naming every fault at once.

What comes out is sorted, has constants as initializers, unique names, no shapes but those of inputs and constants, and
each standard node stamped with the opset it was written for (``ir.Node.version``), which ``upgrade`` reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import onnx
import onnx_ir as ir

from asc_devkit.frontends.onnx.attributes import BadAttribute, attribute, constant
from asc_devkit.frontends.onnx.findings import Findings, text
from asc_devkit.frontends.onnx.schema import NEWEST_OPSET
from asc_devkit.frontends.onnx.tensors import BadTensor, TensorReader

_TENSOR_TYPES = {int(t): ir.TensorType(t) for t in ir.DataType if t.name != "UNDEFINED"}


def build(proto: onnx.ModelProto, reader: TensorReader, findings: Findings, any_type: bool = False) -> ir.Model:
    """The model as IR with its functions still separate. Faults go to ``findings``; then the result is not usable.

    ``any_type``: inputs and outputs may hold texts, sequences and optionals.
    """
    opsets = _opsets(proto.opset_import, "the model", findings)
    if "" not in opsets and proto.ir_version < 3:
        opsets[""] = 1
    builder = _Builder(reader, findings, opsets, any_type=any_type)
    graph, _ = builder.graph(proto.graph, "main graph")
    if "" not in opsets and builder.standard_nodes:
        findings.add("opset", "the model uses standard operators but imports no opset for them")
    opsets.setdefault("", NEWEST_OPSET)
    functions = [_function(f, reader, findings) for f in proto.functions]
    graph.opset_imports.update(opsets)
    unique = {f.identifier(): f for f in functions}
    if len(unique) != len(functions):
        findings.add("function", "two functions have the same domain and name")
    return ir.Model(
        graph,
        ir_version=proto.ir_version,
        producer_name=str(proto.producer_name) or None,
        producer_version=str(proto.producer_version) or None,
        functions=tuple(unique.values()),
    )


def _opsets(imports: Sequence[onnx.OperatorSetIdProto], owner: str, findings: Findings) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else text(entry.domain)
        if domain in opsets and opsets[domain] != entry.version:
            findings.add("opset", f"{owner} imports {domain or 'ai.onnx'!r} as {opsets[domain]} and as {entry.version}")
        if domain == "" and not 1 <= entry.version <= NEWEST_OPSET:
            findings.add("opset", f"{owner} imports opset {entry.version}; 1 to {NEWEST_OPSET} are known")
        opsets[domain] = entry.version
    return opsets


def _function(proto: onnx.FunctionProto, reader: TensorReader, findings: Findings) -> ir.Function:
    domain, name, overload = text(proto.domain), text(proto.name), text(proto.overload)
    label = f"function {domain}::{name}"
    opsets = _opsets(proto.opset_import, label, findings)
    builder = _Builder(reader, findings, opsets, in_function=True)
    graph = builder.function_graph(proto, label)
    graph.opset_imports.update(opsets)
    attributes = [ir.Attr(text(a), ir.AttributeType.UNDEFINED, None) for a in proto.attribute]
    attributes += builder.attributes(proto.attribute_proto, label)
    if builder.standard_nodes and "" not in opsets:
        findings.add("opset", f"{label} uses standard operators but imports no opset for them")
    return ir.Function(domain, name, overload, graph=graph, attributes=attributes)


@dataclass
class _Scope:
    """Names visible in one graph; ``captured`` are values of outer graphs that this one uses."""

    values: dict[str, ir.Value] = field(default_factory=dict)
    captured: set[ir.Value] = field(default_factory=set)


class _Builder:
    def __init__(
        self,
        reader: TensorReader,
        findings: Findings,
        opsets: dict[str, int],
        in_function: bool = False,
        any_type: bool = False,
    ) -> None:
        self.reader, self.findings, self.opsets, self.in_function = reader, findings, opsets, in_function
        self.any_type = any_type
        self.scopes: list[_Scope] = []
        self.standard_nodes = 0

    # --- graphs -----------------------------------------------------------------------------------------------------

    def graph(self, proto: onnx.GraphProto, label: str) -> tuple[ir.Graph, set[ir.Value]]:
        """The graph, and the values of outer graphs that it uses."""
        top = not self.scopes
        scope = _Scope()
        self.scopes.append(scope)
        initializers = self._initializers(proto, scope)
        inputs = self._inputs(proto, scope, top)
        kept = self._declare(proto.node, scope, initializers, label)
        nodes = self._nodes(kept, label)
        outputs = self._outputs(proto, scope, nodes, top, label)
        self.scopes.pop()
        results = set(outputs)
        used = [v for v in initializers if v.uses() or v in results]
        return ir.Graph(
            inputs, outputs, nodes=nodes, initializers=used, name=text(proto.name) or "body"
        ), scope.captured

    def function_graph(self, proto: onnx.FunctionProto, label: str) -> ir.Graph:
        scope = _Scope()
        self.scopes.append(scope)
        inputs = [ir.Value(name=name) for name in proto.input]
        for value in inputs:
            self._define(value, scope)
        kept = self._declare(proto.node, scope, {}, label)
        nodes = self._nodes(kept, label)
        outputs = []
        for name in proto.output:
            if name in scope.values:
                outputs.append(scope.values[name])
            else:
                self.findings.add("output", f"{name!r} of {label}")
        self.scopes.pop()
        return ir.Graph(inputs, outputs, nodes=nodes, name=label)

    def _define(self, value: ir.Value, scope: _Scope) -> None:
        name = text(value.name)
        if name in scope.values:
            self.findings.add("duplicate", name)
        scope.values[name] = value

    def _initializers(self, proto: onnx.GraphProto, scope: _Scope) -> dict[ir.Value, None]:
        values: dict[ir.Value, None] = {}
        reads = [(t.name, partial(self.reader.read, t)) for t in proto.initializer]
        reads += [(t.values.name, partial(self.reader.read_sparse, t)) for t in proto.sparse_initializer]
        for name, read in reads:
            if not name:
                self.findings.add("unnamed", "a weight without a name")
                continue
            value = self._constant(partial(read, name), name)
            self._define(value, scope)
            values[value] = None
        return values

    def _constant(self, read: Callable[[], ir.TensorProtocol | None], name: str) -> ir.Value:
        """A value holding the tensor that ``read()`` returns; a bare value when it is damaged or missing."""
        value = ir.Value(name=name)
        try:
            tensor = read()
        except BadTensor as error:
            self.findings.add("tensor", f"{name} {error}")
            return value
        except BadAttribute as error:
            self.findings.add("attribute", f"{name}: {error}")
            return value
        if tensor is not None:
            value.const_value, value.type = tensor, _TENSOR_TYPES[int(tensor.dtype)]
            value.shape = ir.Shape(tensor.shape.numpy())
        return value

    def _inputs(self, proto: onnx.GraphProto, scope: _Scope, top: bool) -> list[ir.Value]:
        inputs = []
        weights = set(scope.values)
        for info in proto.input:
            if info.name in weights:  # a default value (every weight before IR version 4): taken as a constant
                weights.discard(info.name)
                continue
            if not info.name:
                self.findings.add("unnamed", "an input without a name")
                continue
            value = ir.Value(name=info.name)
            self._set_type(value, info.type, "input" if top else "", with_shape=top)
            self._define(value, scope)
            inputs.append(value)
        return inputs

    def _set_type(self, value: ir.Value, proto: onnx.TypeProto, role: str, with_shape: bool = False) -> None:
        """Take over a declared type; with a ``role`` ("input", "output") it must be a tensor of numbers (or ``any_type``)."""
        kind = proto.WhichOneof("value")
        tensor = proto.tensor_type
        if kind == "tensor_type" and tensor.elem_type in _TENSOR_TYPES:
            value.type = _TENSOR_TYPES[tensor.elem_type]
            if role and tensor.elem_type == onnx.TensorProto.STRING and not self.any_type:
                self.findings.add("input_type", f"{role} {value.name!r} holds texts")
            if tensor.HasField("shape"):
                shape = _shape(tensor.shape)
                # In bodies only what cannot go stale is kept: loop counters and conditions, which runtimes insist on.
                if with_shape or list(shape) in ([], [1]):
                    value.shape = shape
        elif kind in ("sequence_type", "optional_type") and (self.any_type or not role):
            try:
                value.type = ir.serde.deserialize_type_proto_for_type(proto)
            except ir.serde.SerdeError:
                self.findings.add("input_type", f"{role or 'value'} {value.name!r} has an incomplete type {kind}")
        elif role and (role == "input" or kind not in (None, "tensor_type")):
            known = kind not in (None, "tensor_type")
            what = f"type {str(kind).removesuffix('_type')}" if known else "no known element type"
            self.findings.add("input_type", f"{role} {value.name!r} has {what}")

    def _outputs(
        self, proto: onnx.GraphProto, scope: _Scope, nodes: list[ir.Node], top: bool, label: str
    ) -> list[ir.Value]:
        outputs: list[ir.Value] = []
        seen: set[ir.Value] = set()
        for info in proto.output:
            value = scope.values.get(info.name)
            if value is None and not top and self._lookup(info.name, len(self.scopes) - 1) is not None:
                outer = self._lookup(info.name, len(self.scopes) - 1)
                node = ir.Node("", "Identity", [outer], version=self.opsets.get("", NEWEST_OPSET))
                nodes.append(node)
                value = node.outputs[0]
                value.name = info.name
            if value is None:
                self.findings.add("output", f"{info.name!r} of the {label}")
                continue
            if value.type is None:
                self._set_type(value, info.type, "output" if top else "")
            if top and value in seen:  # outputs are told apart by name
                self.findings.add("duplicate", f"output {info.name!r}")
            seen.add(value)
            outputs.append(value)
        if not outputs:
            self.findings.add("output", f"the {label} has no outputs")
        return outputs

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _declare(
        self, nodes: Sequence[onnx.NodeProto], scope: _Scope, initializers: dict[ir.Value, None], label: str
    ) -> list[tuple[onnx.NodeProto, list[ir.Value]]]:
        """Define all node outputs first, because files may be unsorted; constants become initializers at once."""
        kept = []
        for proto in nodes:
            if not proto.op_type:
                self.findings.add("unnamed", f"a node of the {label} without an operator type ({proto.name!r})")
                continue
            names = [text(name) for name in proto.output]
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx") and not self.in_function:
                if len(names) == 1 and names[0]:
                    value = self._constant(partial(self._constant_node, proto, names[0]), names[0])
                    self._define(value, scope)
                    initializers[value] = None
                else:
                    self.findings.add("arity", f"Constant {proto.name!r} has {len(names)} outputs, 1 is possible")
                continue
            outputs = [ir.Value(name=name) for name in names]
            for value in outputs:
                if value.name:
                    self._define(value, scope)
            kept.append((proto, outputs))
        return kept

    def _constant_node(self, proto: onnx.NodeProto, name: str) -> ir.TensorProtocol | None:
        found = [attribute(a, self.reader, _no_graph, name) for a in proto.attribute]
        if any(a is None for a in found):
            return None
        return constant({a.name: a for a in found if a is not None}, name)

    def _nodes(self, declared: list[tuple[onnx.NodeProto, list[ir.Value]]], label: str) -> list[ir.Node]:
        nodes: list[ir.Node] = []
        position: dict[ir.Value, int] = {v: i for i, (_, outputs) in enumerate(declared) for v in outputs}
        needs: list[set[int]] = []
        is_sorted = True
        for index, (proto, outputs) in enumerate(declared):
            uses: set[ir.Value] = set()
            inputs = [self._input(name, proto, uses) for name in proto.input]
            domain = "" if proto.domain == "ai.onnx" else text(proto.domain)
            self.standard_nodes += domain == ""
            attributes = self.attributes(proto.attribute, f"{proto.op_type} {proto.name!r}", uses)
            version = self.opsets.get("") if domain == "" else None
            nodes.append(
                ir.Node(
                    domain,
                    text(proto.op_type),
                    inputs,
                    attributes,
                    overload=text(proto.overload),
                    outputs=outputs,
                    version=version,
                    name=text(proto.name),
                )
            )
            before = {position[v] for v in uses if v in position}
            needs.append(before)
            is_sorted = is_sorted and all(p < index for p in before)
        return nodes if is_sorted else self._sorted(nodes, needs, label)

    def _input(self, name: str, proto: onnx.NodeProto, uses: set[ir.Value]) -> ir.Value | None:
        if not name:
            return None
        value = self._lookup(name, len(self.scopes))
        if value is None:
            self.findings.add("dangling", f"{name!r}, input of {proto.op_type} {proto.name!r}")
            return None
        uses.add(value)
        return value

    def _lookup(self, name: str, depth: int) -> ir.Value | None:
        """The value visible under ``name`` in the innermost of the first ``depth`` graphs that defines it."""
        for level in range(depth - 1, -1, -1):
            value = self.scopes[level].values.get(name)
            if value is not None:
                for inner in self.scopes[level + 1 :]:
                    inner.captured.add(value)
                return value
        return None

    def attributes(
        self, protos: Sequence[onnx.AttributeProto], label: str, uses: set[ir.Value] | None = None
    ) -> list[ir.Attr]:
        """The attributes of one node; values that its subgraphs capture are added to ``uses``."""
        found: dict[str, ir.Attr] = {}

        def subgraph(proto: onnx.GraphProto, inner: str) -> ir.Graph:
            graph, captured = self.graph(proto, inner)
            if uses is not None:
                uses.update(captured)
            return graph

        for proto in protos:
            name = text(proto.name)
            if not name:
                self.findings.add("unnamed", f"an attribute of {label} without a name")
                continue
            if name in found:
                self.findings.add("attribute", f"{label}: attribute {name!r} is given twice")
            if proto.ref_attr_name and not self.in_function:
                self.findings.add("attribute", f"{label}: attribute {name!r} refers to a function's attribute")
                continue
            try:
                item = attribute(proto, self.reader, subgraph, label)
            except BadAttribute as error:
                self.findings.add("attribute", f"{label}: attribute {name!r}: {error}")
            except BadTensor as error:
                self.findings.add("tensor", f"attribute {name!r} of {label} {error}")
            else:
                if item is not None:
                    found[name] = item
        return list(found.values())

    def _sorted(self, nodes: list[ir.Node], needs: list[set[int]], label: str) -> list[ir.Node]:
        """Stable topological order; a cycle is noted with the nodes on it."""
        waiting = [len(before) for before in needs]
        followers: list[list[int]] = [[] for _ in nodes]
        for index, before in enumerate(needs):
            for p in before:
                followers[p].append(index)
        ready = [i for i, n in enumerate(waiting) if n == 0]
        order: list[int] = []
        while ready:
            index = heapq.heappop(ready)
            order.append(index)
            for follower in followers[index]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    heapq.heappush(ready, follower)
        if len(order) < len(nodes):
            left = set(range(len(nodes))) - set(order)
            path: dict[int, None] = {}
            current = min(left)
            while current not in path:
                path[current] = None
                current = min(p for p in needs[current] if p in left)
            members = list(path)[list(path).index(current) :]
            for index in reversed(members):
                self.findings.add("cycle", f"{nodes[index].op_type} {nodes[index].name!r} of the {label}")
            return nodes
        return [nodes[i] for i in order]


def _no_graph(proto: onnx.GraphProto, label: str) -> ir.Graph:
    raise BadAttribute("a Constant cannot hold a graph")


def _shape(proto: onnx.TensorShapeProto) -> ir.Shape:
    """Declared dimensions; zero and negative ones count as open (some exporters write -1 or 0 for "any")."""
    dims: list[int | str | None] = []
    for dim in proto.dim:
        if dim.WhichOneof("value") == "dim_value":
            dims.append(dim.dim_value if dim.dim_value > 0 else None)
        else:
            dims.append(text(dim.dim_param) or None)
    return ir.Shape(dims)
