"""Prices a GE graph operator by operator: launch, then the pipes overlapped, with what L2 holds at that moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, MEMBERS, Engine
from asc_devkit.om import mbatch
from asc_devkit.ops.catalogue import Cost
from asc_devkit.perf import contraction, movement, rates, vector
from asc_devkit.perf.coefficients import interval
from asc_devkit.perf.counters import Counters, Traffic, counters
from asc_devkit.perf.gemm import memory_gbps
from asc_devkit.perf.l2 import L2
from asc_devkit.perf.rates import Rates
from asc_devkit.perf.result import Estimate, OpTime
from asc_devkit.perf.view import NodeView, Work, nbytes
from asc_devkit.soc import Soc

Formula = Callable[[NodeView, Rates], Work]

_FORMULAS: Final[Mapping[Cost, Formula]] = {
    Cost.MATMUL: contraction.matmul,
    Cost.CONV: contraction.convolution,
    Cost.ATTENTION: contraction.attention,
    Cost.RNN: contraction.recurrence,
    Cost.ELEMENTWISE: vector.elementwise,
    Cost.QUANT: vector.elementwise,
    Cost.REDUCE: vector.reduce,
    Cost.NORM: vector.normalise,
    Cost.SOFTMAX: vector.softmax,
    Cost.POOL: vector.pool,
    Cost.MOVEMENT: movement.movement,
    Cost.TRANSPOSE: movement.transpose,
    Cost.GATHER: movement.gather,
}
_CUBE_COSTS: Final = frozenset({Cost.MATMUL, Cost.CONV, Cost.ATTENTION, Cost.RNN})
# What the unit that moves results out of L0C does on the way costs no vector time.
_ON_THE_WAY: Final = frozenset({"Relu", "LeakyRelu", "PRelu", "BiasAdd", "Cast", "AscendQuant", "AscendDequant"})


def estimate(model: ir.Model, soc: Soc, *, inputs_in_l2: bool = False) -> Estimate:
    """Times of all nodes of ``model`` (a GE graph) on ``soc``, in execution order.

    First uses of weights and model inputs come from device memory; what an operator wrote is found in L2 by its
    readers while it fits. ``inputs_in_l2`` starts with model inputs and weights in L2 (as in a training step, where
    a producer just wrote them). Unknown dimensions count as 1 and are named in the note.
    A model with gears is priced at its largest gear, as a note says.
    """
    walk = _Walk(rates.of(soc.name), inputs_in_l2)
    gear = mbatch.largest(model)
    walk.graph(model.graph if gear is None else gear[1].graph)
    return Estimate(
        soc=soc.name,
        operators=tuple(walk.times),
        gap_us=walk.rates.k.gap_us,
        borrowed=dict(walk.rates.borrowed),
        notes=(*walk.notes(), *([] if gear is None else [f"of gear {gear[0]}, the largest"])),
    )


@dataclass(frozen=True, slots=True)
class _Pipes:
    """Times of one kernel, microseconds; ``memory_us`` is device memory, ``l2_us`` traffic between L2 and cores."""

    total_us: float
    launch_us: float
    cube_us: float
    vector_us: float
    mte1_us: float
    memory_us: float
    l2_us: float
    counters: Counters

    @property
    def bound_by(self) -> str:
        """The pipe that is busy longest, ``launch`` when starting takes longer than any of them."""
        candidates = {
            "cube": max(self.cube_us, self.mte1_us),
            "vector": self.vector_us,
            "memory": self.memory_us,
            "l2": self.l2_us,
            "launch": self.launch_us,
        }
        return max(candidates, key=candidates.__getitem__)


class _Walk:
    """The state of one pass over the graph: clock, L2 content, results."""

    def __init__(self, chip: Rates, warm: bool) -> None:
        self.rates = chip
        self.warm = warm
        self.l2 = L2(chip.l2_bytes * chip.k.l2_usable)
        self.roots: dict[ir.Value, ir.Value] = {}
        self.times: list[OpTime] = []
        self.clock = 0.0
        lenders = sorted({lender for _, lender in chip.borrowed})
        self.basis = "estimated"
        if chip.foreign:
            self.basis += f" (figures the chip's sources lack are those of {', '.join(lenders)})"

    def graph(self, graph: ir.Graph) -> None:
        if self.warm:
            for value in (*graph.initializers.values(), *graph.inputs):
                self.l2.write(value, nbytes(value))
        for node in graph:
            self.node(node)

    def node(self, node: ir.Node) -> None:
        spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
        engine = node.meta.get(ENGINE) or (spec.engine if spec else None)
        if node.domain != GE_DOMAIN or engine is Engine.HOST:
            self._idle(node, Engine.HOST, Cost.HOST, "runs on the host CPU; its time is not part of device time")
            return
        cost = spec.cost if spec else Cost.ELEMENTWISE
        if node.op_type == "If":
            self._branches(node)
            return
        if cost in (Cost.FREE, Cost.HOST) or engine is Engine.LOCAL:
            self._alias(node)
            self._idle(node, Engine.LOCAL, Cost.FREE, "no task")
            return
        if cost is Cost.AICPU or engine is Engine.AICPU:
            self._aicpu(node)
            return
        members = node.attributes.get(MEMBERS)
        if members is not None:
            work = self._group(node, members.as_graph())
        elif spec is not None and spec.flops is not None:
            work = vector.declared(NodeView(node), self.rates, spec.flops(node), spec.engine is Engine.CUBE)
        else:
            work = _work(node, cost, self.rates)
        if spec is None:
            work.note = (
                f"{node.op_type} is not in the catalogue; priced as an elementwise operator. {work.note}".strip()
            )
        self._kernel(node, cost, work)

    def _kernel(self, node: ir.Node, cost: Cost, work: Work) -> None:
        pipes = self._pipes(node, work)
        low, high = self._interval(cost.value)
        view_partial = any(v.shape is None or not v.shape.is_static() for v in node.outputs if v.name)
        if view_partial:
            low, high = low * 0.5, high * 2
            work.note = f"sizes not known before the run, counted as 1. {work.note}".strip()
        engine = Engine.CUBE if work.cube_us else Engine.VECTOR
        self._record(
            OpTime(
                name=node.name or node.op_type,
                type=node.op_type,
                us=pipes.total_us,
                lo80=pipes.total_us * low,
                hi80=pipes.total_us * high,
                bound_by=pipes.bound_by,
                basis=self.basis,
                engine=engine.value,
                block_dim=work.blocks,
                cube_us=pipes.cube_us,
                vector_us=pipes.vector_us,
                mte_us=max(pipes.mte1_us, pipes.memory_us, pipes.l2_us),
                launch_us=pipes.launch_us,
                flops=work.flops,
                bytes_read=sum(size for _, size in work.reads),
                bytes_written=work.written,
                start_us=self._start(),
                cost=cost.value,
                note=work.note,
                counters=pipes.counters,
            )
        )

    def _pipes(self, node: ir.Node, work: Work) -> _Pipes:
        chip, k = self.rates, self.rates.k
        traffic = self._traffic(node, work)
        from_memory = traffic.memory_read + traffic.memory_written
        moved = sum(size for _, size in work.reads) + work.written + work.l2_bytes
        share = min(1.0, work.blocks / (chip.cores if work.cube_us else chip.vectors))
        used = share * chip.cores
        drawn = float(memory_gbps(chip, used)) * 1e3 * k.memory_efficiency_vector * work.bandwidth
        memory_us = from_memory / drawn
        # Half of the cores still draw about 70 % of what all draw from L2.
        l2_us = moved / (chip.l2_gbps * 1e3 * k.l2_efficiency * share**0.5 * work.l2_bandwidth)
        launch = k.launch_base_us + k.launch_per_block_us * work.blocks
        power = k.overlap_power
        busy = work.cube_us**power + work.vector_us**power + work.mte1_us**power + max(memory_us, l2_us) ** power
        body = busy ** (1 / power)
        # A kernel that does next to nothing has nothing to fill a pipeline with.
        head = work.head_us + min(work.fill_us, body)
        found = counters(node, work, traffic, mte1_us=work.mte1_us, memory_us=memory_us, l2_us=l2_us)
        return _Pipes(launch + head + body, launch, work.cube_us, work.vector_us, work.mte1_us, memory_us, l2_us, found)

    def _traffic(self, node: ir.Node, work: Work) -> Traffic:
        """Who is served by L2 and who by device memory."""
        hits = misses = written = 0.0
        for value, size in work.reads:
            hit, pushed = self.l2.read(self.roots.get(value, value), size, nbytes(value))
            written += pushed
            if hit:
                hits += size
            else:
                misses += size
        missed_writes = 0.0
        for value in node.outputs:
            pushed = self.l2.write(value, nbytes(value))
            written += pushed
            if nbytes(value) > self.l2.capacity:
                missed_writes += nbytes(value)
            else:
                hits += nbytes(value)
        return Traffic(misses, written, hits, misses + missed_writes)

    def _group(self, node: ir.Node, members: ir.Graph) -> Work:
        """One kernel for all members: their cube and vector work overlap, values between them stay on chip."""
        work = Work(reads=[(v, nbytes(v)) for v in node.inputs if v is not None])
        work.written = sum(nbytes(v) for v in node.outputs)
        has_cube = False
        for member in members:
            spec = ops.lookup(member.op_type)
            cost = spec.cost if spec else Cost.ELEMENTWISE
            if cost in (Cost.FREE, Cost.HOST, Cost.AICPU):
                continue
            part = _work(member, cost, self.rates)
            work.flops += part.flops
            work.cube_flops += part.cube_flops
            work.l0a_bytes += part.l0a_bytes
            work.l0b_bytes += part.l0b_bytes
            if cost in _CUBE_COSTS:
                has_cube = True
                work.blocks = max(work.blocks, part.blocks)
                work.cube_us += part.cube_us
                work.mte1_us += part.mte1_us
                work.l2_bytes += part.l2_bytes
                work.bandwidth = part.bandwidth
                work.head_us += part.head_us
                work.fill_us = max(work.fill_us, part.fill_us)
                work.note = part.note
            elif not (has_cube and member.op_type in _ON_THE_WAY):
                work.vector_us += part.vector_us
                work.blocks = max(work.blocks, part.blocks)
                if has_cube and self.rates.split_cores:
                    work.l2_bytes += 2 * part.written  # cube cores hand over to vector cores through L2
        if has_cube:
            work.blocks = min(work.blocks, self.rates.cores)
        return work

    def _branches(self, node: ir.Node) -> None:
        """The slower branch of an ``If`` is what may happen; its operators join the timeline."""
        self._idle(node, Engine.LOCAL, Cost.FREE, "the slower branch is counted")
        walks = []
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                walk = _Walk(self.rates, warm=False)
                walk.graph(attribute.as_graph())
                walks.append(walk)
        slower = max(walks, key=lambda w: w.clock, default=None)
        if slower is not None:
            start = self._start()
            self.times += [replace(t, start_us=t.start_us + start) for t in slower.times]
            self.clock = start + slower.clock if slower.clock else self.clock

    def _aicpu(self, node: ir.Node) -> None:
        read = sum(nbytes(v) for v in node.inputs if v is not None)
        written = sum(nbytes(v) for v in node.outputs)
        k = self.rates.k
        total = k.aicpu_base_us + (read + written) / k.aicpu_gbps / 1e3
        low, high = self._interval(Cost.AICPU.value)
        self._record(
            OpTime(
                name=node.name or node.op_type,
                type=node.op_type,
                us=total,
                lo80=total * low,
                hi80=total * high,
                bound_by="aicpu",
                basis=self.basis,
                engine=Engine.AICPU.value,
                launch_us=k.aicpu_base_us,
                bytes_read=read,
                bytes_written=written,
                start_us=self._start(),
                cost=Cost.AICPU.value,
                note="runs on the AI CPU",
                counters=counters(node, Work(written=written), Traffic(read, written, 0.0, read + written)),
            )
        )

    def _idle(self, node: ir.Node, engine: Engine, cost: Cost, note: str) -> None:
        self.times.append(
            OpTime(
                name=node.name or node.op_type,
                type=node.op_type,
                us=0.0,
                lo80=0.0,
                hi80=0.0,
                bound_by="host" if cost is Cost.HOST else "none",
                basis=self.basis,
                engine=engine.value,
                start_us=self.clock,
                cost=cost.value,
                note=note,
            )
        )

    def _alias(self, node: ir.Node) -> None:
        source = node.inputs[0] if node.inputs else None
        if source is not None:
            for value in node.outputs:
                self.roots[value] = self.roots.get(source, source)

    def _start(self) -> float:
        return self.clock + self.rates.k.gap_us if self.clock else 0.0

    def _record(self, time: OpTime) -> None:
        self.clock = time.start_us + time.us
        self.times.append(time)

    def notes(self) -> list[str]:
        """What the reader of the totals must know."""
        chip = self.rates
        found = []
        if chip.borrowed:
            figures = ", ".join(f"{figure} ({lender})" for figure, lender in chip.borrowed)
            found.append(f"No public source gives these figures of {chip.soc.name}; a relative's are used: {figures}.")
        if chip.soc.generation not in _CALIBRATED:
            found.append(
                f"No measured kernel of the {chip.soc.series} family stands behind the coefficients; "
                "they come from Ascend 910B and 950, and the intervals are wider for it."
            )
        hosts = sum(t.bound_by == "host" for t in self.times)
        if hosts:
            found.append(f"{hosts} operators run on the host; their time and the copies to and fro are not included.")
        unknown = [t.type for t in self.times if "not in the catalogue" in t.note]
        if unknown:
            found.append(f"Priced as plain elementwise work, being unknown: {', '.join(sorted(set(unknown)))}.")
        return found

    def _interval(self, cost: str) -> tuple[float, float]:
        low, high = interval(cost)
        if self.rates.foreign or self.rates.soc.generation not in _CALIBRATED:
            # No measured row of this chip family stands behind the coefficients.
            return low**1.5, high**1.5
        return low, high


# Families with public measured kernels among those the coefficients and intervals were set on.
_CALIBRATED: Final = frozenset({"910B", "910_93", "950"})


def _work(node: ir.Node, cost: Cost, chip: Rates) -> Work:
    work = _FORMULAS.get(cost, vector.elementwise)(NodeView(node), chip)
    if cost in _CUBE_COSTS:
        work.cube_flops = work.flops
    return work
