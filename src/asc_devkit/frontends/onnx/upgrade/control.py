"""Adapter for the batched Scan of opset 8."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.frontends.onnx.names import Names
from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal


def batched_scan(e: Edit) -> None:
    """Scan-8 ran over axis 1 for every row of axis 0: a Scan-9 over the rows whose body is a Scan-9 over axis 0.

    Sequence lengths that differ per row cannot be expressed.
    """
    if e.input(0) is not None:
        raise Refusal("it uses sequence_lens; export with opset 9 or later")
    scanned = e.attr("num_scan_inputs")
    values = [e.input(i) for i in range(1, len(e.node.inputs))]
    if None in values:
        raise Refusal("one of its inputs is absent")
    body: ir.Graph = e.attr("body")
    directions = e.attr("directions")
    inner_inputs = [_like(value, e.names) for value in body.inputs]
    inner_outputs = [_like(value, e.names) for value in body.outputs]
    attributes = [ir.AttrGraph("body", body), ir.AttrInt64("num_scan_inputs", scanned)]
    if directions:
        attributes.append(ir.AttrInt64s("scan_input_directions", tuple(directions)))
    inner = ir.Node(
        "", "Scan", inner_inputs, attributes, outputs=inner_outputs, name=e.names.node(f"{e.node.name}/rows")
    )
    rows = ir.Graph(inner_inputs, inner_outputs, nodes=[inner], name=f"{body.name or 'body'}_rows")
    e.node.attributes.pop("body")
    e.rename("Scan", values, {"num_scan_inputs": len(values)})
    e.node.attributes["body"] = ir.AttrGraph("body", rows)


def _like(value: ir.Value, names: Names) -> ir.Value:
    return ir.Value(name=names.value(f"{value.name}_rows"), type=value.type)
