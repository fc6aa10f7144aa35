"""Calls of model-local functions replaced by the functions' bodies; ``Constant`` nodes left over made initializers."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from asc_devkit.frontends.onnx.attributes import BadAttribute, constant
from asc_devkit.frontends.onnx.findings import Findings

MAX_NODES: Final = 1_000_000


def inline(model: ir.Model, findings: Findings) -> None:
    """Expand all calls in place and drop the functions. Faults go to ``findings``."""
    if not model.functions:
        return
    names = [value.name or "" for value in model.graph.outputs]
    if not _expandable(model, findings):
        return
    for function in model.functions.values():  # nodes carry their own opset, so the functions' may differ
        if "" in function.opset_imports:
            function.opset_imports[""] = model.opset_imports[""]
    try:
        InlinePass()(model)
    except (ValueError, AssertionError, RuntimeError, KeyError, TypeError, IndexError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        findings.add("function", str(cause)[:300])
        return
    model.functions.clear()
    _restore_outputs(model.graph, names)
    for graph in (model.graph, *model.graph.subgraphs()):
        _lift_constants(graph, findings)


def _expandable(model: ir.Model, findings: Findings) -> bool:
    """No function calls itself, and the expansion stays within bounds (nested calls can multiply)."""
    sizes: dict[ir.OperatorIdentifier, int] = {}
    active: set[ir.OperatorIdentifier] = set()

    def size(nodes: list[ir.Node], depth: int) -> int:
        total = 0
        for node in nodes:
            key = node.op_identifier()
            function = model.functions.get(key)
            if function is None:
                total += 1
                continue
            if key in active or depth > 200:
                raise _Recursive("::".join(key[:2]))
            if key not in sizes:
                active.add(key)
                sizes[key] = size(list(function.all_nodes()), depth + 1)
                active.discard(key)
            total += sizes[key]
        return total

    try:
        total = size(list(model.graph.all_nodes()), 0)
    except _Recursive as error:
        findings.add("function", f"{error} calls itself")
        return False
    if total > MAX_NODES:
        findings.add("function", f"expanded they make {total} nodes, at most {MAX_NODES} are possible")
        return False
    return True


class _Recursive(Exception):
    pass


def _restore_outputs(graph: ir.Graph, names: list[str]) -> None:
    """A function that hands an input through may have taken an output's name away: give it back by an Identity."""
    for index, name in enumerate(names):
        value = graph.outputs[index]
        if value.name == name:
            continue
        node = ir.Node("", "Identity", [value], version=graph.opset_imports[""])
        graph.append(node)
        node.outputs[0].name = name
        node.outputs[0].type = value.type
        graph.outputs[index] = node.outputs[0]


def _lift_constants(graph: ir.Graph, findings: Findings) -> None:
    taken = {v.name for v in graph.inputs} | set(graph.initializers)
    for node in list(graph):
        if node.op_type != "Constant" or node.domain != "":
            continue
        old = node.outputs[0]
        name = old.name or "constant"
        while name in taken:
            name += "_"
        taken.add(name)
        try:
            tensor = constant(node.attributes, name)
        except BadAttribute as error:
            findings.add("attribute", f"{name}: {error}")
            continue
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=shape)
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        graph.remove(node)
        if value.uses() or value in graph.outputs:
            graph.register_initializer(value)
