"""The static memory plan: when each value lives, where it lies, and whether the model fits the chip.

Sizes follow compiled models: bytes of the storage shape rounded up to 32, plus 32, placed on 512-byte boundaries.
Values inside a fused node need no memory; outputs of operators that run no task (Reshape, ...) share their input's.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, Engine, TensorDesc
from asc_devkit.soc import Soc

ALIGN = 512


@dataclass(frozen=True, slots=True)
class Block:
    """One value in device memory: byte ``offset`` and ``size``, alive from step ``first`` to ``last`` inclusive."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    kind: str = "feature"


@dataclass(frozen=True)
class MemoryPlan:
    """All blocks and the totals in bytes. ``live`` is the bytes in use at each step of execution.

    ``unknown`` names values whose size cannot be told (dynamic shapes on the host); they are not counted.
    """

    blocks: tuple[Block, ...]
    weight_bytes: int
    feature_bytes: int
    workspace_bytes: int
    live: tuple[int, ...]
    step_names: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.feature_bytes + self.workspace_bytes

    @property
    def peak_step(self) -> int:
        """The step at which most memory is in use."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def at_peak(self, count: int = 10) -> list[Block]:
        """The largest blocks alive at the peak."""
        step = self.peak_step
        alive = [b for b in self.blocks if b.first <= step <= b.last]
        return sorted(alive, key=lambda b: -b.size)[:count]

    def check(self, soc: Soc) -> None:
        """Raise ``AscError`` (EE3001) naming the largest tensors when the plan passes the chip's memory."""
        if soc.memory_bytes is None or self.total_bytes <= soc.memory_bytes:
            return
        raise AscError(
            Problem(
                "ASC3001",
                f"ATC memory allocation failed: the model needs {_gib(self.total_bytes)} "
                f"(weights {_gib(self.weight_bytes)}, features {_gib(self.feature_bytes)}), "
                f"{soc.name} has {_gib(soc.memory_bytes)}.",
                cause="The listed tensors take most of the memory at the worst moment.",
                fix="Use a smaller batch or input shape, a 16-bit precision mode, or a chip with more memory.",
                nodes=tuple(f"{b.name} ({_gib(b.size)})" for b in self.at_peak()),
                seed_class="EE3001",
            )
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 1 << 28 else f"{size / 2**20:.2f} MiB"


def aligned(size: int) -> int:
    """Bytes a tensor of ``size`` bytes takes: up to 32, plus 32, up to 512."""
    return -(-(-(-size // 32) * 32 + 32) // ALIGN) * ALIGN


def value_bytes(value: ir.Value) -> int | None:
    """Bytes of the value in its storage shape, None when unknown."""
    desc = value.meta.get(DESC)
    if value.dtype is None or value.dtype == ir.DataType.STRING:
        return None
    if isinstance(desc, TensorDesc) and desc.storage_shape and all(d >= 0 for d in desc.storage_shape):
        shape: Sequence[int] = desc.storage_shape
    elif value.shape is not None and value.shape.is_static():
        shape = [int(d) for d in value.shape]  # type: ignore[arg-type]
    else:
        return None
    count = 1
    for dim in shape:
        count *= dim
    return dtypes.nbytes(count, value.dtype)


def plan(model: ir.Model, soc: Soc, *, reuse: bool = True) -> MemoryPlan:
    """Lay the GE graph's values out; ``reuse=False`` gives every value memory of its own.

    Best fit over the free gaps, in the order of first use. Inputs live from the start, outputs to the end.
    """
    graph = model.graph
    nodes = list(graph)
    lives = _Lifetimes(graph, nodes)
    blocks, feature = (_best_fit if reuse else _side_by_side)(lives.wanted())
    weights = sum(
        -(-(value_bytes(v) or 0) // ALIGN) * ALIGN for v in graph.initializers.values() if v.const_value is not None
    )
    live = [0] * max(len(nodes), 1)
    for block in blocks:
        for step in range(max(block.first, 0), min(block.last, len(live) - 1) + 1):
            live[step] += block.size
    return MemoryPlan(
        blocks=tuple(blocks),
        weight_bytes=weights,
        feature_bytes=feature,
        workspace_bytes=max((_workspace(n, soc) for n in nodes), default=0),
        live=tuple(live),
        step_names=tuple(n.name or n.op_type for n in nodes),
        unknown=tuple(lives.unknown),
    )


class _Lifetimes:
    """First and last step of every value that needs memory; views count towards the value they look at."""

    def __init__(self, graph: ir.Graph, nodes: list[ir.Node]) -> None:
        self.root: dict[ir.Value, ir.Value] = {}
        self.first: dict[ir.Value, int] = {}
        self.last: dict[ir.Value, int] = {}
        self.unknown: list[str] = []
        for value in graph.inputs:
            self._born(value, 0, 0)
        for step, node in enumerate(nodes):
            for value in _used(node):
                self._used(value, step)
            for value in node.outputs:
                source = node.inputs[0] if node.inputs else None
                if node.meta.get(ENGINE) is Engine.LOCAL and source is not None and self._root(source) in self.first:
                    self.root[value] = self._root(source)
                else:
                    self._born(value, step, step)
        for value in graph.outputs:
            self._used(value, len(nodes))

    def _root(self, value: ir.Value) -> ir.Value:
        return self.root.get(value, value)

    def _born(self, value: ir.Value, first: int, last: int) -> None:
        self.first[value], self.last[value] = first, last

    def _used(self, value: ir.Value, step: int) -> None:
        root = self._root(value)
        if root in self.last:
            self.last[root] = max(self.last[root], step)

    def wanted(self) -> list[tuple[int, int, int, str]]:
        """(first, last, aligned size, name) in order of first use, larger ones first."""
        rows = []
        for value, first in self.first.items():
            size = value_bytes(value)
            if size is None:
                self.unknown.append(value.name or "")
            else:
                rows.append((first, self.last[value], aligned(size), value.name or ""))
        return sorted(rows, key=lambda r: (r[0], -r[2]))


def _used(node: ir.Node) -> list[ir.Value]:
    used = [v for v in node.inputs if v is not None]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and (node.domain != GE_DOMAIN or node.op_type == "If"):
            for inner in ir.traversal.RecursiveGraphIterator(attribute.as_graph()):
                used += [v for v in inner.inputs if v is not None]
            used += list(attribute.as_graph().outputs)
    return used


def _best_fit(wanted: list[tuple[int, int, int, str]]) -> tuple[list[Block], int]:
    free: list[tuple[int, int]] = []  # (offset, size), sorted by offset, never adjacent
    ending: list[tuple[int, int, int]] = []  # heap of (last step, offset, size)
    top = 0
    blocks: list[Block] = []
    for first, last, size, name in wanted:
        while ending and ending[0][0] < first:
            _, offset, freed = heapq.heappop(ending)
            _release(free, offset, freed)
        fitting = [(gap - size, offset) for offset, gap in free if gap >= size]
        if fitting:
            _, offset = min(fitting)
            _take(free, offset, size)
        elif free and free[-1][0] + free[-1][1] == top:
            offset = free.pop()[0]
            top = offset + size
        else:
            offset, top = top, top + size
        heapq.heappush(ending, (last, offset, size))
        blocks.append(Block(name, offset, size, first, last))
    return blocks, top


def _take(free: list[tuple[int, int]], offset: int, size: int) -> None:
    for index, (start, gap) in enumerate(free):
        if start == offset:
            free[index : index + 1] = [(start + size, gap - size)] if gap > size else []
            return


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    free.append((offset, size))
    free.sort()
    merged: list[tuple[int, int]] = []
    for start, gap in free:
        if merged and merged[-1][0] + merged[-1][1] == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + gap)
        else:
            merged.append((start, gap))
    free[:] = merged


def _side_by_side(wanted: list[tuple[int, int, int, str]]) -> tuple[list[Block], int]:
    blocks, top = [], 0
    for first, last, size, name in wanted:
        blocks.append(Block(name, top, size, first, last))
        top += size
    return blocks, top


def _workspace(node: ir.Node, soc: Soc) -> int:
    """Scratch of one operator: what its cores need to combine partial results (reductions, split matrix products).

    An estimate: one output of fp32 partial sums for matrix and reduce kernels, nothing for the rest.
    """
    from asc_devkit import ops
    from asc_devkit.ops.catalogue import Cost

    spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
    if spec is None or spec.cost not in (Cost.MATMUL, Cost.REDUCE, Cost.ATTENTION):
        return 0
    cores = soc.cube_core_count or 1
    size = value_bytes(node.outputs[0]) or 0
    return aligned(min(size * 2, cores * (soc.l0c_bytes or 1 << 18)))
