"""Removal of what no output depends on, and of conditions that are known."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.passes.declare import GraphPass, NodePass, Outcome
from asc_devkit.passes.editor import Editor


class Prune(GraphPass):
    """Nodes and constants that no graph output depends on are removed."""

    name = "PrunePass"
    level = 1

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        for node in reversed(graph):
            if not any(o.is_graph_output() or o.uses() for o in node.outputs):
                ed.begin(self.name, node)
                ed.remove_if_dead(node)
                ed.commit()
        remove_unused_constants(graph)


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and constants that no output of ``model`` depends on, in place."""
    ed = Editor(model)
    for graph in list(model.graphs()):
        Prune().run(graph, ed)


def remove_unused_constants(graph: ir.Graph) -> None:
    """Remove initializers nothing reads."""
    unused = [v for v in graph.initializers.values() if not (v.uses() or v.is_graph_output() or v.is_graph_input())]
    for value in unused:
        del graph.initializers[value.name or ""]


class CondRemove(NodePass):
    """If(constant) -> the body of the branch that is taken."""

    name = "CondRemovePass"
    level = 1
    ops = ("If",)

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        condition = ed.const(node.inputs[0])
        if condition is None or condition.size != 1:
            return Outcome.NONE
        branch = ed.attr(node, "then_branch" if condition.reshape(-1)[0] else "else_branch")
        if not isinstance(branch, ir.Graph) or branch.inputs:
            return Outcome.MATCHED
        results = list(branch.outputs)
        passed_through = {id(r) for r in results if r.producer() is None or r.producer().graph is not branch}  # type: ignore[union-attr]
        if len(results) != len(node.outputs) or len({id(r) for r in results}) != len(results):
            return Outcome.MATCHED
        if passed_through and any(o.is_graph_output() for o in node.outputs):
            return Outcome.MATCHED
        ed.inline(branch)
        for out, result in zip(node.outputs, results, strict=True):
            ed.replace(out, result)
        ed.remove_if_dead(node)
        return Outcome.CHANGED
