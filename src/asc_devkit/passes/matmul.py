"""Matrix products: biases and transposes of matrices go into Gemm."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.patterns import is_float


class MatMulBiasAddFusion(NodePass):
    """MatMul(a, b) + c of matrices, c one row -> Gemm(a, b, c)."""

    name = "MatMulBiasAddFusionPass"
    ops = ("Add",)
    numerics = "the bias is added in the accumulator"

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        for position in (0, 1):
            main = ed.sole_producer(node.inputs[position], "MatMul")
            bias = node.inputs[1 - position]
            if main is None or bias is None or not is_float(bias):
                continue
            a, b, out = ed.dims(main.inputs[0]), ed.dims(main.inputs[1]), ed.dims(node.outputs[0])
            shape = ed.dims(bias)
            if a is None or b is None or out is None or shape is None or len(a) != 2 or len(b) != 2:
                return Outcome.NONE
            if shape not in ((out[1],), (1, out[1]), (), (1,)) or out != (a[0], b[1]):
                return Outcome.MATCHED
            if not ed.is_const(bias) and len(shape) != 1:
                return Outcome.MATCHED
            array = ed.const(bias)
            row: ir.Value | Array = bias
            if array is not None and shape != (out[1],):
                row = np.array(np.broadcast_to(array.reshape(-1), (out[1],)))
            inputs = [main.inputs[0], main.inputs[1], row]
            ed.replace(node.outputs[0], ed.op("Gemm", inputs, name=main.name or ""))
            return Outcome.CHANGED
        return Outcome.NONE


class GemmTransFusion(NodePass):
    """Gemm or 2-D MatMul of Transpose(a) -> Gemm with transA; of Transpose(b) -> with transB."""

    name = "GemmTransFusionPass"
    ops = ("Gemm", "MatMul")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        inputs, flags, found = list(node.inputs), {}, False
        if ed.rank(inputs[0]) != 2 or ed.rank(inputs[1]) != 2 or not is_float(inputs[0]):
            return Outcome.NONE
        for i, flag in ((0, "transA"), (1, "transB")):
            flags[flag] = int(ed.attr(node, flag, 0))
            swap = ed.sole_producer(inputs[i], "Transpose")
            if swap is not None and list(ed.attr(swap, "perm", (1, 0))) == [1, 0]:
                inputs[i], flags[flag], found = swap.inputs[0], 1 - flags[flag], True
        if not found:
            return Outcome.NONE
        attrs = {k: v for k, v in node.attributes.items() if k not in flags}
        ed.replace(node.outputs[0], ed.op("Gemm", inputs, {**attrs, **flags}, name=node.name or ""))
        return Outcome.CHANGED
