"""Runs node passes to a fixpoint with one worklist: after a change only the neighbourhood is looked at again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from asc_devkit.errors import AscError
from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.report import FusionReport

# A rewrite system that does not shrink the graph must still stop.
REWRITES_PER_NODE = 30


def _attempt(item: NodePass, node: ir.Node, ed: Editor) -> Outcome:
    """Try one pass at one node; a replacement that does not fit (it raises before it replaces) leaves no trace."""
    try:
        return item.rewrite(node, ed)
    except AscError:
        ed.rollback()
        return Outcome.MATCHED


def run(passes: Sequence[NodePass], ed: Editor, report: FusionReport, nodes: Iterable[ir.Node] | None = None) -> int:
    """Try ``passes`` (in this order at each node) until nothing matches; returns the number of rewrites."""
    counts = {p: report.count(p.name) for p in passes}
    anywhere = [p for p in passes if not p.ops]
    by_type: dict[str, list[NodePass]] = {}
    for op_type in {op for p in passes for op in p.ops}:
        by_type[op_type] = [p for p in passes if not p.ops or op_type in p.ops]
    queue = deque(nodes if nodes is not None else (n for g in ed.model.graphs() for n in g))
    waiting = set(queue)
    budget = REWRITES_PER_NODE * len(queue) + 1000
    matched: set[tuple[NodePass, ir.Node]] = set()
    done = 0
    while queue and done < budget:
        node = queue.popleft()
        waiting.discard(node)
        if node.graph is None or node.domain:
            continue
        for item in by_type.get(node.op_type, anywhere):
            started = time.perf_counter()
            ed.begin(item.name, node)
            outcome = _attempt(item, node, ed)
            count = counts[item]
            if outcome is Outcome.CHANGED:
                again = ed.commit()
                count.match_times += 1
                count.effect_times += 1
                done += 1
                for other in again:
                    if other not in waiting:
                        waiting.add(other)
                        queue.append(other)
                if node.graph is not None and node not in waiting:
                    waiting.add(node)
                    queue.append(node)
            elif outcome is Outcome.MATCHED and (item, node) not in matched:
                matched.add((item, node))
                count.match_times += 1
            count.seconds += time.perf_counter() - started
            if outcome is Outcome.CHANGED:
                break
    return done
