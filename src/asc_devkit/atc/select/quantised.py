"""Dynamically quantised models: which operators carry scales and integer sums, and so must not be squeezed into fp16.

Pattern: ``DynamicQuantizeLinear`` gives a scale; an integer product (MatMulInteger, ConvInteger) gives int32 sums up to
some ten million; ``Cast`` and ``Mul`` bring the sums back to real values. fp16 can hold neither the sums (65504) nor the
product of two scales (1e-6 is subnormal). Ascend's own dequantisation reads int32 and fp32 scales and writes fp16, so
these operators read and compute fp32 and only the last one writes the low type.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from asc_devkit.ge.desc import ORIGIN_OPS

INTEGER_PRODUCTS: Final = frozenset({"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"})
_PASSING: Final = frozenset({"Reshape", "Unsqueeze", "Squeeze", "Identity", "Transpose"})


def keep_fp32(graph: ir.Graph) -> tuple[set[ir.Node], set[ir.Node]]:
    """(operators wholly in fp32, operators that read fp32 and write the low type) of one graph."""
    scales: set[ir.Value] = set()
    sums: set[ir.Value] = set()
    whole: set[ir.Node] = set()
    last: set[ir.Node] = set()
    for node in graph:
        if node.op_type == "DynamicQuantizeLinear":
            scales.add(node.outputs[1])
        elif node.op_type in INTEGER_PRODUCTS or _carries_sum(node, sums):
            sums.update(node.outputs)
        elif node.op_type == "Cast" and (node.inputs[0] in sums or _dequantises_wide(node)):
            sums.add(node.outputs[0])
            whole.add(node)
        elif node.op_type == "Sub" and node.inputs[0] in sums:  # the zero point of a 16-bit integer
            sums.update(node.outputs)
            whole.add(node)
        elif node.op_type == "Mul" and any(v in sums for v in node.inputs):
            last.add(node)
        elif _carries_scale(node, scales):
            scales.update(node.outputs)
            whole.add(node)
    return whole, last


def _carries_sum(node: ir.Node, sums: set[ir.Value]) -> bool:
    """A bias added to integer sums, or a view of them."""
    integer = all(v.dtype == ir.DataType.INT32 for v in node.outputs)
    return integer and node.op_type in ("Add", "Sub", *_PASSING) and any(v in sums for v in node.inputs)


def _dequantises_wide(node: ir.Node) -> bool:
    """The first step of a DequantizeLinear whose integers have more digits than fp16."""
    source = node.inputs[0]
    wide = source is not None and source.dtype in (ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32)
    return wide and any(kind == "DequantizeLinear" for _, kind in node.meta.get(ORIGIN_OPS, ()))


def _carries_scale(node: ir.Node, scales: set[ir.Value]) -> bool:
    if node.op_type not in ("Mul", *_PASSING):
        return False
    values = [v for v in node.inputs if v is not None]
    return any(v in scales for v in values) and all(v in scales or v.const_value is not None for v in values)
