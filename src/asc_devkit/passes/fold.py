"""Constant folding: whatever depends on constants (or static shapes) only is computed once, here."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.evaluate import evaluate
from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor

# All results of one model together may exceed the constants they replace by this much.
GROWTH_BYTES = 256 << 20
# All results together, however short they live: bounds the time.
FOLDED_BYTES = 8 << 30


class ConstantFolding(NodePass):
    """f(constants) -> constant, and Shape/Size of a static shape -> constant.

    Random operators, control flow and DequantizeLinear (it would unpack int8 weights) stay; so do results that would
    make the model grow beyond the limits of ``ops.evaluate``.
    """

    name = "ConstantFoldingPass"
    level = 1
    numerics = (
        "constants are computed by numpy instead of at run time: last-bit differences in transcendental functions"
    )

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        if any(o.is_graph_output() for o in node.outputs):
            return Outcome.NONE
        if node.op_type in ("Shape", "Size"):
            dims = ed.dims(node.inputs[0])
            if dims is None:
                return Outcome.NONE
            inputs: list[Array | None] = [np.broadcast_to(np.int8(0), dims)]
        else:
            if not node.inputs or not all(v is None or ed.is_const(v) for v in node.inputs):
                return Outcome.NONE
            if node.attributes and any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
                return Outcome.NONE
            inputs = [ed.const(v) for v in node.inputs]
        results = evaluate(node, inputs)
        if results is None:
            return Outcome.MATCHED
        growth = sum(r.nbytes for r in results) - sum(self._released(v, node) for v in set(node.inputs))
        if (growth > 0 and ed.growth + growth > GROWTH_BYTES) or ed.folded > FOLDED_BYTES:
            return Outcome.MATCHED
        ed.growth += growth
        ed.folded += sum(r.nbytes for r in results)
        for out, array in zip(node.outputs, results, strict=False):
            if out.uses():
                ed.become_constant(out, array)
        ed.remove_if_dead(node)
        return Outcome.CHANGED

    @staticmethod
    def _released(value: ir.Value | None, node: ir.Node) -> int:
        """Bytes of a constant that only ``node`` reads."""
        if value is None or value.const_value is None or any(u.node is not node for u in value.uses()):
            return 0
        return value.const_value.nbytes
