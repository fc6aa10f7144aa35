"""Loops with a fixed number of rounds: the body once per round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal
from asc_devkit.onnxfix.rules.recurrent import hand_over

MOST_NODES: Final = 20_000


def loop(e: Edit) -> None:
    """Trip count constant, condition true in every round (or absent)."""
    body = e.attr("body")
    trips, condition = e.const(0), e.const(1)
    if trips is None or (e.input(1) is not None and condition is None):
        raise Refusal("its number of rounds is known at run time only")
    rounds = max(int(trips.reshape(-1)[0]), 0)
    if condition is not None and not bool(condition.reshape(-1)[0]):
        rounds = 0
    if not _stays_true(body):
        raise Refusal("it can stop early: its body computes the condition")
    _bounded(body, rounds)
    state = [v for v in e.node.inputs[2:] if v is not None]
    scans: list[list[ir.Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    for number in range(rounds):
        results = _round(e, body, [np.array(number, np.int64), np.array(True), *state])
        state = results[1 : 1 + len(state)]
        for line, value in zip(scans, results[1 + len(state) :], strict=True):
            line.append(value)
    if scans and not rounds:
        raise Refusal("it makes no round, but has scan outputs")
    hand_over(e, [*state, *(_stacked(e, line, 0) for line in scans)])


def scan(e: Edit) -> None:
    body, count = e.attr("body"), e.attr("num_scan_inputs")
    carried = len(e.node.inputs) - count
    axes = [int(a) for a in e.attr("scan_input_axes", [0] * count)]
    reverse = [bool(d) for d in e.attr("scan_input_directions", [0] * count)]
    shape = e.shape(carried)
    length = None if shape is None else shape[axes[0]]
    if length is None or length < 1:
        raise Refusal("the length of the scanned axis is unknown; give --input-shape")
    _bounded(body, length)
    made = len(body.outputs) - carried
    out_axes = [int(a) for a in e.attr("scan_output_axes", [0] * made)]
    out_reverse = [bool(d) for d in e.attr("scan_output_directions", [0] * made)]
    state: list[Any] = list(e.node.inputs[:carried])
    lines: list[list[ir.Value]] = [[] for _ in range(made)]
    for step in range(length):
        given = []
        for i in range(count):
            at = length - 1 - step if reverse[i] else step
            given.append(e.before("Gather", [e.input(carried + i), np.array(at, np.int64)], {"axis": axes[i]}))
        results = _round(e, body, [*state, *given])
        state = results[:carried]
        for line, value in zip(lines, results[carried:], strict=True):
            line.append(value)
    stacked = [
        _stacked(e, line[::-1] if back else line, axis)
        for line, axis, back in zip(lines, out_axes, out_reverse, strict=True)
    ]
    hand_over(e, [*state, *stacked])


def _stays_true(body: ir.Graph) -> bool:
    """The condition that leaves the body is the one that entered, or a true constant."""
    value = body.outputs[0]
    while (maker := value.producer()) is not None and maker.op_type in ("Identity", "Cast") and maker.inputs[0]:
        value = maker.inputs[0]
    if value is body.inputs[1]:
        return True
    known = value.const_value
    return known is not None and bool(known.numpy().reshape(-1)[0])


def _bounded(body: ir.Graph, rounds: int) -> None:
    count = sum(1 for _ in body.all_nodes())
    if rounds * count > MOST_NODES:
        raise Refusal(f"{rounds} rounds of {count} nodes are more than {MOST_NODES} nodes")


def _stacked(e: Edit, values: Sequence[ir.Value], axis: int) -> ir.Value:
    where = np.array([axis], np.int64)
    return e.before("Concat", [e.before("Unsqueeze", [v, where]) for v in values], {"axis": axis})


def _round(e: Edit, body: ir.Graph, given: Sequence[Any]) -> list[ir.Value]:
    """The nodes of ``body`` once more in front of the loop, over ``given``; the values of its outputs."""
    known: dict[ir.Value, ir.Value | None] = {}
    for formal, actual in zip(body.inputs, given, strict=True):
        known[formal] = e.constant(actual, "round") if isinstance(actual, np.ndarray) else actual
    for value in body.initializers.values():
        known[value] = _copied(e, value)
    for node in body:
        made = _clone(e, node, known)
        e.graph.insert_before(e.node, made)
    return [known.get(v, v) for v in body.outputs]  # type: ignore[misc]


def _copied(e: Edit, value: ir.Value) -> ir.Value:
    name = e.names.value(value.name or "constant")
    made = ir.Value(name=name, type=value.type, shape=value.shape, const_value=value.const_value)
    e.graph.register_initializer(made)
    return made


def _clone(e: Edit, node: ir.Node, known: dict[ir.Value, ir.Value | None]) -> ir.Node:
    attributes = [
        ir.AttrGraph(a.name, _clone_graph(e, a.as_graph(), known)) if a.type == ir.AttributeType.GRAPH else a
        for a in node.attributes.values()
    ]
    inputs = [None if v is None else known.get(v, v) for v in node.inputs]
    made = ir.Node(
        node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs), name=e.names.node(node.name or "")
    )
    made.meta.update(e.node.meta)
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.name = e.names.value(old.name) if old.name else ""
        new.type, new.shape = old.type, old.shape
        known[old] = new
    return made


def _clone_graph(e: Edit, graph: ir.Graph, known: dict[ir.Value, ir.Value | None]) -> ir.Graph:
    inputs: list[ir.Value] = []
    constants: list[ir.Value] = []
    for value in (*graph.inputs, *graph.initializers.values()):
        made = ir.Value(
            name=e.names.value(value.name or "value"), type=value.type, shape=value.shape, const_value=value.const_value
        )
        known[value] = made
        (inputs if value in graph.inputs else constants).append(made)
    nodes = [_clone(e, node, known) for node in graph]
    outputs = [known.get(v, v) for v in graph.outputs]
    return ir.Graph(inputs, outputs, nodes=nodes, initializers=constants, name=graph.name)  # type: ignore[arg-type]


RULES = {"Loop": loop, "Scan": scan}
