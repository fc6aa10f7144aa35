"""What both directions of conversion share: copying values, graphs and foreign nodes, finishing a converted node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ops.emit import Emitter, Names, Rejected, Scope, widened

IR_VERSION = 10
MAX_DEPTH = 32
# What a conversion function raises on a node whose attributes or inputs are not those of its operator.
MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError
)  # fmt: skip


class Walk:
    """A new graph grows beside the given one; ``values`` maps old values to new ones."""

    emitter: type[Emitter]
    wide: ir.DataType | None = None

    def __init__(self, source: ir.Model) -> None:
        self.source = source
        self.names = Names(set(_all_names(source.graph, 0)))
        self.values: dict[ir.Value, ir.Value | None] = {}

    def model(self) -> ir.Model:
        graph = self.graph(self.source.graph)
        graph.opset_imports.update(self.opsets())
        made = ir.Model(
            graph,
            ir_version=max(self.source.ir_version or 0, IR_VERSION),
            producer_name=self.source.producer_name,
            producer_version=self.source.producer_version,
            metadata_props=dict(self.source.metadata_props),
        )
        made.meta.update(self.source.meta)
        return made

    def opsets(self) -> dict[str, int]:
        raise NotImplementedError

    def node(self, node: ir.Node, scope: Scope) -> None:
        raise NotImplementedError

    def graph(self, source: ir.Graph, foreign: bool = False) -> ir.Graph:
        """A converted (or, for bodies of host operators, copied) graph; outer values it captures are mapped."""
        scope = Scope()
        inputs = [self.copy_value(v) for v in source.inputs]
        for value in source.initializers.values():
            if value not in self.values:
                scope.initializers.append(self.copy_value(value))
            else:  # an input with a default: the default is dropped, the input stays
                continue
        for node in source:
            if foreign:
                self.copy_node(node, scope)
            else:
                self.node(node, scope)
        outputs = [self.mapped(v, node=None) for v in source.outputs]
        made = ir.Graph(
            inputs,
            [v for v in outputs if v is not None],
            nodes=scope.nodes,
            initializers=scope.initializers,
            doc_string=source.doc_string,
            name=source.name,
            metadata_props=dict(source.metadata_props),
        )
        made.meta.update(source.meta)
        return made

    def copy_value(self, old: ir.Value) -> ir.Value:
        new = ir.Value(name=self.names.keep(old.name or ""), shape=old.shape)
        self.describe(old, new)
        tensor = old.const_value
        if tensor is not None:
            new.const_value = self.tensor(tensor)
        self.values[old] = new
        return new

    def describe(self, old: ir.Value, new: ir.Value) -> None:
        """Give ``new`` the shape, type and meta of ``old``."""
        if old.shape is not None:
            new.shape = old.shape
        if old.type is not None:
            new.type = _type(old.type, self.wide)
        new.meta.update(old.meta)

    def tensor(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        return tensor

    def mapped(self, old: ir.Value | None, node: ir.Node | None) -> ir.Value | None:
        if old is None:
            return None
        try:
            return self.values[old]
        except KeyError:
            where = "the graph outputs" if node is None else f"{node.op_type} {node.name}"
            raise AscError(
                Problem(
                    "E14001",
                    f"{where}: value {old.name} is used before it is made",
                    "the nodes of the graph are not in execution order, or a value belongs to another graph",
                    "export the model again",
                    (old.name or "?",),
                    "EE2001",
                )
            ) from None

    def copy_node(self, node: ir.Node, scope: Scope) -> ir.Node:
        """The same operator over mapped values; bodies are copied unconverted."""
        attrs = [
            ir.AttrGraph(a.name, self.graph(a.as_graph(), foreign=True))
            if a.type == ir.AttributeType.GRAPH
            else self.attribute(a)
            for a in node.attributes.values()
        ]
        made = ir.Node(
            node.domain,
            node.op_type,
            [self.mapped(v, node) for v in node.inputs],
            attrs,
            overload=node.overload,
            num_outputs=len(node.outputs),
            name=node.name,
        )
        made.meta.update(node.meta)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            self.bind(old, new)
        scope.nodes.append(made)
        return made

    def stand_in(self, node: ir.Node, scope: Scope) -> None:
        """A node without attributes for one that failed, so that the walk can go on and find all problems."""
        inputs = [self.mapped(v, node) for v in node.inputs]
        made = ir.Node(node.domain, node.op_type, inputs, num_outputs=len(node.outputs), name=node.name)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            self.bind(old, new)
        scope.nodes.append(made)

    def attribute(self, attribute: ir.Attr) -> ir.Attr:
        return attribute

    def bind(self, old: ir.Value, new: ir.Value) -> None:
        """Let ``new`` stand for ``old``: name, shape, type, meta."""
        if old.name:
            new.name = self.names.keep(old.name)
        elif new.name is None:
            new.name = ""
        self.describe(old, new)
        self.values[old] = new

    def emit(self, node: ir.Node, scope: Scope) -> Emitter:
        inputs = [self.mapped(v, node) for v in node.inputs]
        return self.emitter(node, inputs, scope, self.names, self.wide)

    def finish(self, e: Emitter, made: ir.Value | Sequence[ir.Value], identity: str) -> None:
        """Bind the results of a conversion function to the node's outputs and name what it created."""
        node = e.node
        results = [made] if isinstance(made, ir.Value) else list(made)
        for index in range(len(results), len(node.outputs)):
            if e.used(index):
                raise Rejected(f"output {index} cannot be computed", "Drop the uses of that output.")
        own = {v for n in e.created for v in n.outputs}
        for old, new in zip(node.outputs, results, strict=False):
            if new not in own:  # an input handed through, or one value for two outputs
                new = e.op(identity, [new])
            else:
                own.remove(new)
            self.bind(old, new)
        base = node.name or node.outputs[0].name or node.op_type
        main = e.created[-1] if not node.outputs else self.values[node.outputs[0]].producer()  # type: ignore[union-attr]
        for created in e.created:
            created.name = base if created is main else self.names.fresh(f"{base}/{created.op_type}")
            for value in created.outputs:
                if value.name is None:
                    value.name = self.names.fresh(f"{base}/{created.op_type}:out")


def _type(old: ir.TypeProtocol, wide: ir.DataType | None) -> ir.TypeProtocol:
    """An own copy of a type (dtypes are changed in place later) with ``wide`` for half floats, also in sequences."""
    if isinstance(old, ir.SequenceType | ir.OptionalType):
        return type(old)(_type(old.elem_type, wide))
    if isinstance(old, ir.TensorType):
        dtype = widened(old.dtype, wide)
        assert dtype is not None
        return ir.TensorType(dtype)
    return old


def _all_names(graph: ir.Graph, depth: int) -> Iterator[str]:
    """Names of all values and nodes, bodies and members included."""
    if depth > MAX_DEPTH:
        raise AscError(Problem("E13014", "control flow is nested too deeply", f"more than {MAX_DEPTH} bodies"))
    for value in (*graph.inputs, *graph.initializers.values()):
        if value.name:
            yield value.name
    for node in graph:
        if node.name:
            yield node.name
        for value in node.outputs:
            if value.name:
                yield value.name
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _all_names(attribute.as_graph(), depth + 1)
