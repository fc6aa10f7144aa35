"""Chains of operators that only rename dimensions: Reshape, Flatten, Squeeze, Unsqueeze."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class ReshapeRemove(NodePass):
    """reshape2(reshape1(x)) -> Reshape(x, final shape); or x itself when the shapes are equal."""

    name = "ReshapeRemovePass"
    level = 1
    ops = RESHAPES

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inner = ed.producer(node.inputs[0], *RESHAPES)
        if inner is None:
            return Outcome.NONE
        source, out = inner.inputs[0], node.outputs[0]
        after = ed.dims(out)
        if source is None or after is None or not ed.dominates(source, node):
            return Outcome.MATCHED
        if ed.dims(source) == after:
            ed.alias(out, source)
        else:
            ed.replace(out, reshape(ed, source, after, node))
        return Outcome.CHANGED


def reshape(ed: Editor, source: ir.Value, dims: tuple[int, ...], of: ir.Node) -> ir.Value:
    """A Reshape of ``source`` to static ``dims`` in place of node ``of``."""
    target = np.array(dims, dtype=np.int64)
    return ed.op("Reshape", [source, target], {"allowzero": 1 if 0 in dims else None}, name=of.name or "")
