"""Unique names for all nodes and values, and the marks by which later stages find the user's own again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from asc_devkit.ge.desc import ORIGIN_OPS, ORIGIN_TENSOR


@dataclass
class Names:
    """Names taken so far in the whole model, subgraphs included (a name means one thing everywhere)."""

    values: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)  # last number tried per base, so that many equals stay cheap

    def value(self, base: str) -> str:
        """``base`` if free, else ``base_1``, ...; taken from now on."""
        return self._free(base, self.values)

    def node(self, base: str) -> str:
        """The same for a node."""
        return self._free(base, self.nodes)

    def _free(self, base: str, taken: set[str]) -> str:
        name = base
        while name in taken:
            self._next[base] = number = self._next.get(base, 0) + 1
            name = f"{base}_{number}"
        taken.add(name)
        return name


def name_everything(graph: ir.Graph) -> Names:
    """Name every node and value uniquely, keeping the user's names, and mark both with their origin.

    Sets ``ORIGIN_OPS`` on every node and ``ORIGIN_TENSOR`` on every node output.
    """
    names = Names()
    graphs = (graph, *graph.subgraphs())
    for one in graphs:  # outer graphs first: their names win
        for value in _leaves(one):
            _name(value, names)
        for node in one:
            for value in node.outputs:
                if value.name:
                    value.meta[ORIGIN_TENSOR] = value.name
                if value.name or value.uses() or value.is_graph_output():
                    _name(value, names)
    for one in graphs:
        for node in one:
            origin = node.name
            node.name = names.node(origin or f"{node.op_type}_{len(names.nodes)}")
            node.meta[ORIGIN_OPS] = ((origin or node.name, node.op_type),)
    return names


def _leaves(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from list(graph.initializers.values())


def _name(value: ir.Value, names: Names) -> None:
    wanted = value.name or "value"
    free = names.value(wanted)
    if free != value.name:
        value.name = free
