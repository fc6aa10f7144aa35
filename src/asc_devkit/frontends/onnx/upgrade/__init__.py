"""Operators of any opset rewritten to the canonical one, by the adapters of one table.

An adapter is a small function for one operator and one opset step; it edits the node in place. What it cannot convert
exactly it refuses, and the refusal names the node. Called by ``load``.
"""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.frontends.onnx.findings import Findings
from asc_devkit.frontends.onnx.names import Names
from asc_devkit.frontends.onnx.schema import Facts, facts, first_version, violations
from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal
from asc_devkit.frontends.onnx.upgrade.table import DOWN, UP
from asc_devkit.frontends.onnx.upgrade.types import Types
from asc_devkit.ops.catalogue import CANONICAL_OPSET, newer_domain

CANONICAL_IR: int = 11  # the IR version that came with opset 23

__all__ = ["upgrade"]


def upgrade(model: ir.Model, names: Names, findings: Findings, warnings: list[str], keep_newer: bool = False) -> None:
    """Bring every standard node of the model and its subgraphs to ``CANONICAL_OPSET``, in place.

    Also checks each node against its operator's schema at the opset it was written for. Faults go to ``findings``.
    ``keep_newer``: forms newer than that which cannot be rewritten stay, in the domain ``newer_domain``.
    """
    _graph(model.graph, Types(findings), names, findings, warnings, keep_newer)
    if findings.counts or findings.extra:
        return
    model.graph.opset_imports[""] = CANONICAL_OPSET
    model.ir_version = CANONICAL_IR


def _graph(
    graph: ir.Graph, types: Types, names: Names, findings: Findings, warnings: list[str], keep_newer: bool
) -> None:
    """Nodes in order, the bodies of a node before the node: whatever a node depends on is converted before it."""
    for node in list(graph):
        for item in node.attributes.values():
            if item.type == ir.AttributeType.GRAPH:
                _graph(item.as_graph(), types, names, findings, warnings, keep_newer)
            elif item.type == ir.AttributeType.GRAPHS:
                for body in item.as_graphs():
                    _graph(body, types, names, findings, warnings, keep_newer)
        if node.domain == "":
            _node(node, types, names, findings, warnings, keep_newer)


def _node(node: ir.Node, types: Types, names: Names, findings: Findings, warnings: list[str], keep_newer: bool) -> None:
    version = node.version or CANONICAL_OPSET
    form = facts(node.op_type, version)
    if form is None:
        form = _newer_form(node, version, warnings)
        if form is None:  # not a standard operator at all: named by the stage that lists unsupported operators
            node.version = None
            return
        version = form.since
    faults = violations(node, form)
    for kind, sentence in faults:
        findings.add(kind, sentence)
    if faults:
        return
    is_newer = keep_newer and form.since > CANONICAL_OPSET
    attributes = list(node.attributes.values())
    edit = Edit(node, types, names, warnings)
    try:
        if version < 6 and "consumed_inputs" in form.attributes:
            edit.pop("consumed_inputs")
        for since, adapt in UP.get(node.op_type, ()):
            if since > version:
                adapt(edit)
        if form.since > CANONICAL_OPSET and node.op_type in DOWN:
            DOWN[node.op_type](edit)
        elif is_newer and (first_version(node.op_type) or 0) > CANONICAL_OPSET:
            node.domain = newer_domain(version)
    except Refusal as refusal:
        if is_newer:
            node.attributes.clear()
            node.attributes.update((a.name, a) for a in attributes)
            node.domain = newer_domain(version)
        else:
            findings.add("convert", f"{node.op_type} {node.name!r} (opset {version}): {refusal}")
    node.version = None


def _newer_form(node: ir.Node, version: int, warnings: list[str]) -> Facts | None:
    first = first_version(node.op_type)
    if first is None or first <= version:
        return None
    warnings.append(
        f"{node.op_type} {node.name!r} exists since opset {first} but the model is written for opset {version}; "
        f"it is taken as opset {first}"
    )
    return facts(node.op_type, first)
