"""Cutting a graph at nodes that ONNX Runtime cannot run: runs of ordinary nodes between single foreign nodes.

``onnx.reference`` runs the foreign ones. Every piece is a model of its own; values pass between pieces by name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Piece:
    """One step of a cut graph. ``passes`` names the values that later pieces read."""

    model: ir.Model
    foreign: bool
    passes: tuple[str, ...] = ()


def split(model: ir.Model, foreign: Collection[str]) -> list[Piece]:
    """Pieces in execution order; ``foreign`` names top-level nodes. ``model`` is taken apart."""
    graph = model.graph
    if not foreign:
        return [Piece(model, False)]
    stage = _stages(graph, foreign)
    wanted = {v.name or "" for v in graph.outputs}
    graph.outputs.clear()
    groups: dict[tuple[int, int], list[ir.Node]] = {}
    for index, node in enumerate(graph):
        cut = node.name in foreign
        groups.setdefault((stage[node], index + 1 if cut else 0), []).append(node)
    reads = {key: _reads(nodes) for key, nodes in groups.items()}
    pieces = []
    for key in sorted(groups):
        later = {name for other, names in reads.items() if other != key for name in names}
        made = [v for node in groups[key] for v in node.outputs]
        outputs = [v for v in made if v.name in wanted or v.name in later]
        passes = tuple(v.name or "" for v in made if v.name in later)
        pieces.append(Piece(_model(model, groups[key], reads[key], outputs), bool(key[1]), passes))
    return pieces


def owner(graph: ir.Graph, name: str) -> str:
    """Name of the top-level node that is, or whose body holds, the node called ``name``; empty when there is none."""
    for node in graph:
        if node.name == name or any(inner.name == name for inner in inner_nodes(node)):
            return node.name or ""
    return ""


def _stages(graph: ir.Graph, foreign: Collection[str]) -> dict[ir.Node, int]:
    """Number of foreign nodes on the longest path to each node."""
    made: dict[str, ir.Node] = {}
    stage: dict[ir.Node, int] = {}
    for node in graph:
        level = 0
        for name in _reads([node]):
            before = made.get(name)
            if before is not None:
                level = max(level, stage[before] + (before.name in foreign))
        stage[node] = level
        made.update((v.name or "", node) for v in node.outputs)
    return stage


def inner_nodes(node: ir.Node) -> list[ir.Node]:
    """Nodes of the bodies in ``node``."""
    bodies = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    return [inner for body in bodies for inner in body.all_nodes()]


def _reads(nodes: list[ir.Node]) -> dict[str, ir.Value]:
    """Values that ``nodes`` and the bodies in them read from outside, by name."""
    every = [n for node in nodes for n in (node, *inner_nodes(node))]
    made = {v for n in every for v in n.outputs}
    bodies = [a.as_graph() for n in every for a in n.attributes.values() if a.type == ir.AttributeType.GRAPH]
    for body in bodies:
        made.update((*body.inputs, *body.initializers.values()))
    found: dict[str, ir.Value] = {}
    for value in (*(v for n in every for v in n.inputs), *(v for body in bodies for v in body.outputs)):
        if value is not None and value.name and value not in made:
            found.setdefault(value.name, value)
    return found


def _model(source: ir.Model, nodes: list[ir.Node], reads: dict[str, ir.Value], outputs: list[ir.Value]) -> ir.Model:
    inputs = [v for v in reads.values() if v.const_value is None or v.producer() is not None]
    constants = [v for v in reads.values() if v not in inputs]
    # The same values serve several pieces: each piece gets copies of what enters it.
    twins = {v: ir.Value(name=v.name, shape=v.shape, type=v.type, const_value=v.const_value) for v in reads.values()}
    source.graph.remove(nodes)
    for node in nodes:
        for inner in (node, *inner_nodes(node)):
            for index, value in enumerate(inner.inputs):
                if value in twins:
                    inner.replace_input_with(index, twins[value])
            for attribute in inner.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    results = attribute.as_graph().outputs
                    for index, value in enumerate(results):
                        if value in twins:
                            results[index] = twins[value]
    graph = ir.Graph(
        [twins[v] for v in inputs],
        outputs,
        nodes=nodes,
        initializers=[twins[v] for v in constants],
        opset_imports=dict(source.opset_imports),
        name="piece",
    )
    return ir.Model(graph, ir_version=source.ir_version)
