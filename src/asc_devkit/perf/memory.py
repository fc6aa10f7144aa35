"""The static memory plan: when each value lives, where it lies, and whether the model fits the chip.

Sizes follow compiled models: bytes of the storage shape rounded up to 32, plus 32, placed on 512-byte boundaries.
Values inside a fused node need no memory; outputs of operators that run no task (Reshape, ...) share their input's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.om import mbatch
from asc_devkit.perf.lifetimes import ALIGN, Lifetimes, aligned, graphs, value_bytes
from asc_devkit.perf.placement import Block, place, side_by_side
from asc_devkit.soc import Soc


@dataclass(frozen=True)
class MemoryPlan:
    """All blocks and the totals in bytes. ``live`` is the bytes in use at each step of execution.

    ``blocks`` share one pool; the values inside the branches of an ``If`` (one branch runs) are one block of kind
    ``branches``. ``weights`` are another pool, alive all the time.
    ``unknown`` names values whose size cannot be told (dynamic shapes on the host); they are not counted.
    """

    blocks: tuple[Block, ...]
    weights: tuple[Block, ...]
    feature_bytes: int
    workspace_bytes: int
    live: tuple[int, ...]
    step_names: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Size of the weights pool."""
        return self.weights[-1].offset + self.weights[-1].size if self.weights else 0

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


def plan(model: ir.Model, soc: Soc, *, reuse: bool = True) -> MemoryPlan:
    """Lay the GE graph's values out, with gears those of the largest; ``reuse=False`` gives every value memory of its own.

    Best fit over the free gaps, in the order of first use. Inputs live from the start, outputs to the end.
    """
    gear = mbatch.largest(model)
    graph = model.graph if gear is None else gear[1].graph
    nodes = list(graph)
    lives = Lifetimes(graph, nodes)
    fit = place if reuse else side_by_side
    blocks, feature = fit(lives.wanted(fit))
    return MemoryPlan(
        blocks=tuple(blocks),
        weights=_weights(graph),
        feature_bytes=feature,
        workspace_bytes=max((_workspace(n, soc) for g in graphs(graph) for n in g), default=0),
        live=_live(blocks, max(len(nodes), 1)),
        step_names=tuple(n.name or n.op_type for n in nodes),
        unknown=tuple(lives.unknown),
    )


def _live(blocks: list[Block], steps: int) -> tuple[int, ...]:
    change = [0] * (steps + 1)
    for block in blocks:
        change[min(block.first, steps)] += block.size
        change[min(block.last + 1, steps)] -= block.size
    return tuple(accumulate(change[:steps]))


def _weights(graph: ir.Graph) -> tuple[Block, ...]:
    """Constants of the graph and of its branches, one after the other on 512-byte boundaries."""
    blocks, offset = [], 0
    for inner in graphs(graph):
        for value in inner.initializers.values():
            size = -(-(value_bytes(value) or 0) // ALIGN) * ALIGN
            if value.const_value is not None and size:
                blocks.append(Block(value.name or "", offset, size, 0, len(graph), "weight"))
                offset += size
    return tuple(blocks)


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
