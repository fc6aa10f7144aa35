"""Element types and shapes of values, found on demand while opsets are converted.

An adapter asks about its node's inputs; what those depend on stands before the node and is therefore canonical
already, so the toolkit's own inference (``ops.infer``) applies. Only what is asked for is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx.findings import Findings
from asc_devkit.ops.infer import infer_node

Shape = tuple[int | None, ...]


class Types:
    """Types of a model's values; nodes that contradict their inputs are reported to ``findings``."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._values: dict[ir.Value, np.ndarray[Any, Any]] = {}
        self._done: set[ir.Node] = set()

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Element type, None when unknown."""
        self._infer(value)
        return value.dtype

    def shape(self, value: ir.Value) -> Shape | None:
        """Dimensions with None for open ones; None when the rank is unknown."""
        self._infer(value)
        if value.shape is None:
            return None
        return tuple(d if isinstance(d, int) else None for d in value.shape)

    def _infer(self, value: ir.Value) -> None:
        """Infer everything that ``value`` depends on, first things first (graphs may be deeper than the call stack)."""
        producer = value.producer()
        stack = [producer] if producer is not None else []
        while stack:
            node = stack[-1]
            waiting = [p for p in _producers(node) if p not in self._done] if node not in self._done else []
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if node not in self._done:
                self._done.add(node)
                try:
                    infer_node(node, self._values)
                except AscError as error:
                    self.findings.extra += error.problems


def _producers(node: ir.Node) -> list[ir.Node]:
    used = [*node.inputs]
    for item in node.attributes.values():
        if item.type == ir.AttributeType.GRAPH:
            used += [v for inner in item.as_graph().all_nodes() for v in inner.inputs]
    found = (v.producer() for v in used if v is not None)
    return [p for p in found if p is not None and p.graph is node.graph]
