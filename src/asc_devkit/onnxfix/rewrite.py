"""Replaces what the real ATC lacks, round by round, until nothing changes: replacements may hold such operators too."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from asc_devkit.frontends.onnx.findings import Findings
from asc_devkit.frontends.onnx.names import Names
from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal
from asc_devkit.frontends.onnx.upgrade.types import Types
from asc_devkit.onnxfix.rules import RULES
from asc_devkit.ops import acceptance, functions
from asc_devkit.ops.catalogue import newer_opset
from asc_devkit.ops.emit import Rejected
from asc_devkit.ops.infer import infer

MAX_ROUNDS: Final = 8


@dataclass
class Rewritten:
    """``replaced``: operators by type and how many; ``kept``: why a node stays as it is, by its name."""

    replaced: Counter[str] = field(default_factory=Counter)
    kept: dict[str, str] = field(default_factory=dict)


def rewrite(model: ir.Model) -> Rewritten:
    """Rewrite ``model`` (canonical form, shapes inferred) in place."""
    done = Rewritten()
    names = names_of(model)
    for _ in range(MAX_ROUNDS):
        types = Types(Findings())
        changed = False
        for graph in list(model.graphs()):
            for node in list(graph):
                if node.graph is graph and not _accepted(node):
                    changed |= _replace(node, types, names, done)
        if not changed:
            break
        infer(model)
    return done


def _accepted(node: ir.Node) -> bool:
    return acceptance.accepts(node.op_type, node.domain, acceptance.NEWEST_OPSET)


def _replace(node: ir.Node, types: Types, names: Names, done: Rewritten) -> bool:
    standard = not node.domain or newer_opset(node.domain) is not None
    op_type, name = node.op_type, node.name or ""
    rule = RULES.get(op_type) if standard else None
    if rule is None and (node.domain or not standard):
        return False
    try:
        if rule is not None:
            rule(Edit(node, types, names, []))
            node.domain = ""
        else:
            _define(node, names)
    except Refusal as refusal:
        done.kept[name] = str(refusal)
        return False
    except Rejected as rejected:
        done.kept[name] = rejected.reason
        return False
    done.replaced[op_type] += 1
    return True


def _define(node: ir.Node, names: Names) -> None:
    """Put the nodes of ONNX's own definition in place of ``node``; raises ``Rejected`` when there is none."""
    found = functions.body(node)
    graph = node.graph
    assert graph is not None
    for value in found.constants:
        value.name = names.value(value.name or "constant")
        graph.register_initializer(value)
    own = {value for inner in found.nodes for value in inner.outputs}
    for inner in found.nodes:
        inner.name = names.node(inner.name or inner.op_type)
        inner.meta.update(node.meta)
        for value in inner.outputs:
            if value.name and value not in found.results:
                value.name = names.value(value.name)
        graph.insert_before(node, inner)
    for old, result in zip(list(node.outputs), found.results, strict=True):
        if not old.name or not (old.uses() or old.is_graph_output()):
            continue
        if result not in own:  # an input handed through
            copy = ir.Node("", "Identity", [result], name=names.node(f"{node.name}/Identity"))
            graph.insert_before(node, copy)
            result = copy.outputs[0]
        name = old.name
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        old.name = names.value(f"{node.name}/gone")
        result.name = name
        result.type = result.type or old.type
    graph.remove(node, safe=True)


def names_of(model: ir.Model) -> Names:
    """Names taken in ``model``."""
    found = Names()
    for graph in model.graphs():
        found.values.update(v.name for v in (*graph.inputs, *graph.initializers.values()) if v.name)
        for node in graph:
            found.nodes.add(node.name or "")
            found.values.update(v.name for v in node.outputs if v.name)
    return found
