"""ModelDef -> IR: the inverse of ``encode``, for our files and (as far as they tell) for those of the vendor's ATC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import (
    DESC,
    ENGINE,
    GE_DOMAIN,
    IMPL_MODE,
    ORIGIN_OPS,
    ORIGIN_TENSOR,
    PASSES,
    Engine,
    TensorDesc,
)
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om import attributes
from asc_devkit.om.container import broken
from asc_devkit.om.encode import BODIES, DOMAIN, OUTER

ReadWeight = Callable[[str, pb.TensorDescriptor], ir.TensorProtocol]
MAX_DEPTH = 24
_NODE_FACTS = frozenset(
    {"_asc_engine", "_datadump_original_op_names", "_datadump_original_op_types", "pass_name", "_op_impl_mode_enum",
     BODIES, DOMAIN}
)  # fmt: skip


def to_ir(model: pb.ModelDef, read_weight: ReadWeight) -> ir.Model:
    """Rebuild the graph. ``read_weight`` gives the (lazy) tensor of a Const's description.

    Raises ``AscError`` for references that lead nowhere, cycles, and bodies that are missing or nested too deeply.
    """
    if not model.graph:
        raise broken("it has no graph")
    graphs = {graph.name: graph for graph in model.graph[1:]}
    made = _Decoder(graphs, read_weight).graph(model.graph[0], {}, 0)
    result = ir.Model(made, ir_version=10)
    made.opset_imports.update({"": 23, GE_DOMAIN: 1})
    return result


class _Decoder:
    def __init__(self, graphs: Mapping[str, pb.GraphDef], read_weight: ReadWeight) -> None:
        self.graphs, self.read_weight = graphs, read_weight

    def graph(self, source: pb.GraphDef, outer: Mapping[str, ir.Value], depth: int) -> ir.Graph:
        """``outer``: values of enclosing graphs by name, for bodies that capture them."""
        if depth > MAX_DEPTH:
            raise broken("its sub-graphs are nested too deeply")
        places: dict[str, ir.Value | None] = {}
        inputs: list[tuple[int, ir.Value]] = []
        constants: list[ir.Value] = []
        nodes: list[ir.Node] = []
        outputs: list[ir.Value] = []
        scope = dict(outer)
        for op in _ordered(source):
            if op.type in ("Data", "AnnData"):
                self._data(op, places, inputs, outer)
            elif op.type in ("Const", "Constant"):
                value = self._const(op)
                places[f"{op.name}:0"] = value
                constants.append(value)
                scope[value.name or ""] = value
            elif op.type == "NetOutput":
                outputs += [v for v in (self._input(op, text, places) for text in op.input) if v is not None]
            else:
                node = self._node(op, places, scope, depth)
                nodes.append(node)
                for index, value in enumerate(node.outputs):
                    places[f"{op.name}:{index}"] = value
                    scope[value.name or ""] = value
            for _, value in inputs[-1:]:
                scope[value.name or ""] = value
        inputs.sort(key=lambda pair: pair[0])
        return ir.Graph(
            [value for _, value in inputs], outputs, nodes=nodes, initializers=constants, name=source.name or "main"
        )

    def _data(
        self,
        op: pb.OpDef,
        places: dict[str, ir.Value | None],
        inputs: list[tuple[int, ir.Value]],
        outer: Mapping[str, ir.Value],
    ) -> None:
        if OUTER in op.attr:
            name = op.attr[OUTER].s.decode("utf-8", "replace")
            if name not in outer:
                raise broken(f"body node {op.name} captures {name}, which does not exist outside")
            places[f"{op.name}:0"] = outer[name]
            return
        value = ir.Value(name=op.name)
        if op.output_desc:
            _describe(value, op.output_desc[0])
        value.name = value.name or op.name
        places[f"{op.name}:0"] = value
        index = op.attr["index"].i if "index" in op.attr else len(inputs)
        inputs.append((index, value))

    def _const(self, op: pb.OpDef) -> ir.Value:
        value = ir.Value(name=op.name)
        if op.output_desc:
            _describe(value, op.output_desc[0])
        value.name = value.name or op.name
        if "value" not in op.attr:
            raise broken(f"constant {op.name} has no value")
        stored = op.attr["value"].t
        if stored.data or stored.desc.dtype == pb.DT_STRING:
            attribute = attributes.decode("value", op.attr["value"])
            if attribute is None:
                raise broken(f"constant {op.name} has a value that does not fit its description")
            value.const_value = attribute.as_tensor()
        else:
            value.const_value = self.read_weight(op.name, stored.desc)
        if value.type is None:
            value.type = ir.TensorType(value.const_value.dtype)
        value.shape = ir.Shape(value.const_value.shape.numpy())
        return value

    def _input(self, op: pb.OpDef, text: str, places: Mapping[str, ir.Value | None]) -> ir.Value | None:
        if not text or text.endswith(":-1"):
            return None
        if text not in places:
            raise broken(f"operator {op.name} reads {text}, which nothing produces")
        return places[text]

    def _node(
        self, op: pb.OpDef, places: Mapping[str, ir.Value | None], scope: Mapping[str, ir.Value], depth: int
    ) -> ir.Node:
        inputs = [self._input(op, text, places) for text in op.input if not text.endswith(":-1")]
        domain, kind = GE_DOMAIN, op.type
        if "::" in kind:
            domain, _, kind = kind.rpartition("::")
            domain = "" if domain == "ai.onnx" else domain
        found = [attributes.decode(key, op.attr[key]) for key in sorted(op.attr) if key not in _NODE_FACTS]
        attrs = [a for a in found if a is not None]
        for name, body in zip(_texts(op, BODIES), op.subgraph_name, strict=False):
            if body not in self.graphs:
                raise broken(f"operator {op.name} has the body {body}, which is missing")
            inner = self.graph(self.graphs[body], scope, depth + 1)
            attrs.append(ir.AttrGraph(name, inner))
        outputs = [ir.Value(name="") for _ in op.output_desc]
        node = ir.Node(domain, kind, inputs, attrs, outputs=outputs, name=op.name)
        for index, (value, desc) in enumerate(zip(outputs, op.output_desc, strict=True)):
            _describe(value, desc)
            value.name = value.name or f"{op.name}:{index}"
        self._facts(node, op)
        return node

    def _facts(self, node: ir.Node, op: pb.OpDef) -> None:
        if "_asc_engine" in op.attr:
            text = op.attr["_asc_engine"].s.decode("utf-8", "replace")
            node.meta[ENGINE] = next((e for e in Engine if e.value == text), None)
        names, kinds = _texts(op, "_datadump_original_op_names"), _texts(op, "_datadump_original_op_types")
        if names:
            kinds += [""] * (len(names) - len(kinds))
            node.meta[ORIGIN_OPS] = tuple(zip(names, kinds, strict=False))
        if passes := _texts(op, "pass_name"):
            node.meta[PASSES] = tuple(passes)
        if "_op_impl_mode_enum" in op.attr and op.attr["_op_impl_mode_enum"].s:
            node.meta[IMPL_MODE] = op.attr["_op_impl_mode_enum"].s.decode("utf-8", "replace")


def _texts(op: pb.OpDef, name: str) -> list[str]:
    if name not in op.attr:
        return []
    return [s.decode("utf-8", "surrogateescape") for s in op.attr[name].list.s]


def _ordered(source: pb.GraphDef) -> list[pb.OpDef]:
    """Operators so that producers come first; the file's order where it already is one. Raises on cycles."""
    position = {op.name: index for index, op in enumerate(source.op)}
    if len(position) != len(source.op):
        raise broken("two operators have the same name")
    needs: list[set[int]] = []
    sorted_already = True
    for index, op in enumerate(source.op):
        sources = {position.get(text.rpartition(":")[0], -1) for text in op.input if text} - {-1}
        sorted_already &= all(s < index for s in sources)
        needs.append(sources)
    if sorted_already:
        return list(source.op)
    waiting = [len(s) for s in needs]
    users: list[list[int]] = [[] for _ in needs]
    for index, sources in enumerate(needs):
        for s in sources:
            users[s].append(index)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[pb.OpDef] = []
    while ready:
        index = ready.pop(0)
        order.append(source.op[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    if len(order) != len(source.op):
        raise broken("its operators form a cycle")
    return order


def _describe(value: ir.Value, desc: pb.TensorDescriptor) -> None:
    """Set name, type, origin shape and TensorDesc of ``value`` from its description."""
    value.name = desc.name
    row = dtypes.of_proto(desc.dtype)
    if row is not None and row.ir is not None:
        value.type = ir.TensorType(row.ir)
    stored = tuple(desc.shape.dim)
    attrs: Any = desc.attr
    origin = tuple(attrs["origin_shape"].list.i) if "origin_shape" in attrs else stored
    if -2 not in origin:
        value.shape = ir.Shape([d if d >= 0 else None for d in origin])
    if "origin_format" in attrs:
        groups = attrs["_fe_groups"].i if "_fe_groups" in attrs else 1
        fmt, _, packed = desc.layout.partition(":")
        if packed.isdigit():
            groups = int(packed)
        plain = attrs["origin_format"].s.decode("utf-8", "replace")
        value.meta[DESC] = TensorDesc(fmt, plain, stored, groups)
    if "_origin_tensor" in attrs:
        value.meta[ORIGIN_TENSOR] = attrs["_origin_tensor"].s.decode("utf-8", "replace")
