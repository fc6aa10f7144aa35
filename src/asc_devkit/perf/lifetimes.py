"""From which step to which each value of a GE graph needs memory, and how much. Used by ``perf.memory``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, Engine, TensorDesc
from asc_devkit.perf.placement import Fit, Wanted

ALIGN: Final = 512


def aligned(size: int) -> int:
    """Bytes a tensor of ``size`` bytes takes: up to 32, plus 32, up to 512."""
    return -(-(-(-size // 32) * 32 + 32) // ALIGN) * ALIGN


def value_bytes(value: ir.Value) -> int | None:
    """Bytes of the value in its storage shape, None when unknown."""
    desc = value.meta.get(DESC)
    if value.dtype is None or value.dtype == ir.DataType.STRING:
        return None
    if isinstance(desc, TensorDesc) and desc.storage_shape and all(d >= 0 for d in desc.storage_shape):
        shape: Sequence[int] = desc.storage_shape
    elif value.shape is not None and value.shape.is_static():
        shape = [int(d) for d in value.shape]  # type: ignore[arg-type]
    else:
        return None
    count = 1
    for dim in shape:
        count *= dim
    return dtypes.nbytes(count, value.dtype)


def graphs(graph: ir.Graph) -> list[ir.Graph]:
    """The graph and the branches of its ``If`` operators, at any depth."""
    found = [graph]
    for node in graph:
        for branch in branches(node):
            found += graphs(branch)
    return found


def branches(node: ir.Node) -> list[ir.Graph]:
    if node.domain != GE_DOMAIN or node.op_type != "If":
        return []
    return [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]


class Lifetimes:
    """First and last step of every value that needs memory; views count towards the value they look at."""

    def __init__(self, graph: ir.Graph, nodes: list[ir.Node]) -> None:
        self.root: dict[ir.Value, ir.Value] = {}
        self.first: dict[ir.Value, int] = {}
        self.last: dict[ir.Value, int] = {}
        self.unknown: list[str] = []
        self.nested: list[tuple[int, ir.Node, list[Lifetimes]]] = []
        for value in graph.inputs:
            self._born(value, 0, 0)
        for step, node in enumerate(nodes):
            for value in _used(node):
                self._used(value, step)
            for value in node.outputs:
                source = node.inputs[0] if node.inputs else None
                if source is not None and self._root(source) in self.first and _is_view(node, source, value):
                    self.root[value] = self._root(source)
                else:
                    self._born(value, step, step)
            inner = [Lifetimes(branch, list(branch)) for branch in branches(node)]
            if inner:
                self.nested.append((step, node, inner))
        for value in graph.outputs:
            self._used(value, len(nodes))

    def _root(self, value: ir.Value) -> ir.Value:
        return self.root.get(value, value)

    def _born(self, value: ir.Value, first: int, last: int) -> None:
        self.first[value], self.last[value] = first, last

    def _used(self, value: ir.Value, step: int) -> None:
        root = self._root(value)
        if root in self.last:
            self.last[root] = max(self.last[root], step)

    def wanted(self, fit: Fit) -> list[Wanted]:
        """(first, last, aligned size, name, kind) in order of first use, larger ones first."""
        rows: list[Wanted] = []
        for step, node, inner in self.nested:
            most = max(fit(branch.wanted(fit))[1] for branch in inner)
            self.unknown += [name for branch in inner for name in branch.unknown]
            if most:
                rows.append((step, step, most, f"{node.name or node.op_type}/branches", "branches"))
        for value, first in self.first.items():
            size = value_bytes(value)
            if size is None:
                self.unknown.append(value.name or "")
            else:
                rows.append((first, self.last[value], aligned(size), value.name or "", "feature"))
        return sorted(rows, key=lambda r: (r[0], -r[2]))


def _is_view(node: ir.Node, source: ir.Value, value: ir.Value) -> bool:
    """True when the operator runs no task and its output is its input under another shape."""
    return node.meta.get(ENGINE) is Engine.LOCAL and value_bytes(value) == value_bytes(source)


def _used(node: ir.Node) -> list[ir.Value]:
    used = [v for v in node.inputs if v is not None]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and (node.domain != GE_DOMAIN or node.op_type == "If"):
            for inner in ir.traversal.RecursiveGraphIterator(attribute.as_graph()):
                used += [v for v in inner.inputs if v is not None]
            used += list(attribute.as_graph().outputs)
    return used
