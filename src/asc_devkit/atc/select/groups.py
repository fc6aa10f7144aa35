"""Collapsing annotated groups into one fused GE node that keeps its members as a sub-graph.

The fused node has the type, name and attributes of its main member (the first cube operator, else the first member);
its inputs are the main member's followed by the other values that enter the group.
"""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, GROUP, IMPL_MODE, MEMBERS, ORIGIN_OPS, PASSES, Engine


def collapse(model: ir.Model) -> int:
    """Collapse every group of the root graph in place; returns how many fused nodes were made.

    A group is dissolved (its members stay single) when it lost a member, when a Cast or TransData cuts it, or when more
    than its last member's output is used outside.
    """
    made = 0
    for graph in _graphs(model.graph):
        members: dict[int, list[ir.Node]] = defaultdict(list)
        for node in graph:
            if GROUP in node.meta:
                members[node.meta[GROUP]].append(node)
        for nodes in members.values():
            if len(nodes) > 1 and _is_closed(nodes):
                _fuse(graph, nodes)
                made += 1
            for node in nodes:
                node.meta.pop(GROUP, None)
    return made


def _graphs(graph: ir.Graph) -> list[ir.Graph]:
    found = [graph]
    for node in graph:
        if node.domain == GE_DOMAIN:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    found += _graphs(attribute.as_graph())
    return found


def _is_closed(nodes: list[ir.Node]) -> bool:
    inside = set(nodes)
    if any(node.domain != GE_DOMAIN for node in nodes):
        return False
    for node in nodes[:-1]:
        for value in node.outputs:
            if value.is_graph_output() or any(user not in inside for user, _ in value.uses()):
                return False
    connected = all(
        any(v is not None and v.producer() in inside for v in node.inputs)
        or any(user in inside for out in node.outputs for user, _ in out.uses())
        for node in nodes
    )
    floats = {v.dtype for n in nodes for v in n.outputs if v.dtype is not None and v.dtype.is_floating_point()}
    return connected and len(floats) <= 1


def _main(nodes: list[ir.Node]) -> ir.Node:
    for node in nodes:
        spec = ops.lookup(node.op_type)
        if spec is not None and spec.engine is Engine.CUBE:
            return node
    return nodes[0]


def copy_type(value: ir.Value) -> ir.TypeProtocol | None:
    """The value's type as an object of its own: IR types are mutable, and ``value.dtype = ...`` writes into them."""
    return ir.TensorType(value.dtype) if value.dtype is not None else value.type


def _fuse(graph: ir.Graph, nodes: list[ir.Node]) -> ir.Node:
    inside = set(nodes)
    main, last = _main(nodes), nodes[-1]
    entering: list[ir.Value | None] = [v if v is not None and v.producer() not in inside else None for v in main.inputs]
    while entering and entering[-1] is None:
        entering.pop()
    if main is not nodes[0] and any(v is not None and v.producer() in inside for v in main.inputs):
        entering = []
    for node in nodes:
        for value in node.inputs:
            if value is not None and value.producer() not in inside and value not in entering:
                entering.append(value)
    outputs = list(last.outputs)

    inner: dict[ir.Value, ir.Value] = {}
    formal: list[ir.Value] = []
    for value in entering:
        twin = ir.Value(name=None if value is None else value.name, shape=None, type=None)
        if value is not None:
            twin.shape, twin.type = value.shape, copy_type(value)
            twin.meta.update(value.meta)
            inner[value] = twin
        else:
            twin.name = f"{main.name}_absent_{len(formal)}"
        formal.append(twin)
    copies: list[ir.Node] = []
    for node in nodes:
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if v is None else inner[v] for v in node.inputs],
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
            name=node.name,
        )
        copy.meta.update({k: v for k, v in node.meta.items() if k != GROUP})
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.shape, new.type = old.name, old.shape, copy_type(old)
            new.meta.update(old.meta)
            inner[old] = new
        copies.append(copy)
    body = ir.Graph(formal, [inner[v] for v in outputs], nodes=copies, name=f"{main.name}/members")

    fused = ir.Node(
        GE_DOMAIN,
        main.op_type,
        entering,
        [*main.attributes.values(), ir.AttrGraph(MEMBERS, body)],
        num_outputs=len(outputs),
        name=main.name,
    )
    fused.meta[ENGINE] = main.meta.get(ENGINE)
    fused.meta[ORIGIN_OPS] = tuple(o for n in nodes for o in n.meta.get(ORIGIN_OPS, ()))
    fused.meta[PASSES] = tuple(dict.fromkeys(p for n in nodes for p in n.meta.get(PASSES, ())))
    if IMPL_MODE in main.meta:
        fused.meta[IMPL_MODE] = main.meta[IMPL_MODE]
    for old, new in zip(outputs, fused.outputs, strict=True):
        name = old.name
        new.shape, new.type = old.shape, copy_type(old)
        new.meta.update(old.meta)
        if DESC in old.meta:
            new.meta[DESC] = old.meta[DESC]
        old.name = None
        new.name = name
    graph.insert_after(last, fused)
    for old, new in zip(outputs, fused.outputs, strict=True):
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    for node in reversed(nodes):
        graph.remove(node, safe=True)
    return fused
