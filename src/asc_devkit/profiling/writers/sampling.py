"""Sampling mode: what cores, buffers and memory did in every period of a fixed frequency. Everything is simulated.

A kernel of n blocks keeps the first n cores of its kind busy; what it moves and computes is spread evenly over its time.
Values are added up per period and core and written when no earlier kernel can come any more; idle periods are not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.perf.counters import Counters
from asc_devkit.perf.rates import Rates
from asc_devkit.profiling.pmu import CoreTime, Pmu, buffer_bytes
from asc_devkit.profiling.records import DeviceTask
from asc_devkit.profiling.schema import metric_columns
from asc_devkit.profiling.schema.metrics import core_layout
from asc_devkit.profiling.writers.context import Context
from asc_devkit.profiling.writers.database import Database, pmu_name, pmu_value
from asc_devkit.profiling.writers.table import time_us
from asc_devkit.profiling.writers.timeline import Timeline

Array = np.ndarray[Any, Any]
_BUSY: Final = ("busy", "cube", "vector", "mte1", "mte2", "store")  # microseconds
_MOVED: Final = ("l1_write", "l0a_write", "l0b_write", "l0c_write_cube", "ub_read", "ub_write", "l2_read", "l2_write")
# Families with memory on the package (vendor documents); the others have DDR or LPDDR.
_HBM: Final = frozenset({"910", "910B", "910_93", "950"})
# A hundred samples a second for an hour on 48 cores would be 17 million rows.
MOST_PERIODS: Final = 200_000


@dataclass(frozen=True, slots=True)
class _Side:
    """One kind of core of one device."""

    device: int
    kind: str

    @property
    def file(self) -> str:
        return "ai_core_utilization" if self.kind == "AIC" else "ai_vector_core_utilization"


class CoreSampling:
    """ai_core_utilization, ai_vector_core_utilization, asc_core_samples, and their curves (``--aic-mode=sample-based``)."""

    def __init__(self, context: Context, timeline: Timeline | None, database: Database) -> None:
        self._context = context
        self._timeline, self._database = timeline, database
        self._period_ns = round(1e9 / float(context.setting("aic-freq", "100")))
        self._group = context.setting("aic-metrics", "PipeUtilization")
        self._table = context.table("asc_core_samples")
        # (side, period) -> cores + 1 rows of differences: row 0 starts a value, row n ends it.
        self._open: dict[tuple[_Side, int], Array] = {}
        self._sums: dict[_Side, tuple[Array, list[str]]] = {}
        self._periods = 0

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is None or task.op is None:
            return
        chip = self._context.chips[task.device]
        self._flush(task.device, task.start_ns // self._period_ns)
        for core, side in (
            (counters.aic, _Side(task.device, "AIC")),
            (counters.aiv, _Side(task.device, "AIV")),
        ):
            if core is not None:
                self._add(task, counters, chip, core, side)

    def close(self) -> None:
        for device in {side.device for side, _ in self._open}:
            self._flush(device, None)
        self._table.close()
        for side in sorted(self._sums, key=lambda s: (s.kind, s.device)):
            self._summary(side)

    def _cores(self, side: _Side) -> int:
        chip = self._context.chips[side.device]
        return chip.cores if side.kind == "AIC" else chip.vectors

    def _add(self, task: DeviceTask, counters: Pmu, chip: Rates, core: CoreTime, side: _Side) -> None:
        assert task.op is not None
        cores = min(core.blocks, self._cores(side))
        moved = self._moved(task, chip, side)
        row = np.array([*self._busy(counters, core, side), *(moved[m] / cores for m in _MOVED)])
        first, last = task.start_ns // self._period_ns, (task.end_ns - 1) // self._period_ns
        for period in range(first, last + 1):
            inside = min(task.end_ns, (period + 1) * self._period_ns) - max(task.start_ns, period * self._period_ns)
            table = self._open.get((side, period))
            if table is None:
                table = self._open[side, period] = np.zeros((self._cores(side) + 1, len(row)))
            table[0] += row * (inside / task.duration_ns)
            table[cores] -= row * (inside / task.duration_ns)
        self._weigh(counters, core, side, cores)

    def _busy(self, counters: Pmu, core: CoreTime, side: _Side) -> list[float]:
        prefix = {"AIC": "aic_", "AIV": "aiv_"}[side.kind] if counters.values.get("total_cycles") is None else ""
        names = ("mac", "vec", "mte1", "mte2", "fixpipe" if prefix == "aic_" else "mte3")
        found = [counters.values.get(f"{prefix}{name}_time(us)", 0.0) for name in names]
        return [core.us, *(float(v) if not isinstance(v, str) else 0.0 for v in found)]

    def _moved(self, task: DeviceTask, chip: Rates, side: _Side) -> dict[str, float]:
        assert task.op is not None
        found = task.op.counters or Counters()
        size = buffer_bytes(task.op, chip)
        own = side.kind == "AIC" or task.op.cube_us == 0
        size["l2_read"], size["l2_write"] = (found.core_read, found.core_written) if own else (0.0, 0.0)
        if core_layout(chip.soc) == "split":
            hidden = ("ub_",) if side.kind == "AIC" else ("l1_", "l0")
            size = {name: 0.0 if name.startswith(hidden) else value for name, value in size.items()}
        return size

    def _weigh(self, counters: Pmu, core: CoreTime, side: _Side, cores: int) -> None:
        """Metrics of the group, weighted by core time, for the table of averages."""
        layout = "unified" if counters.values.get("total_cycles") is not None else "split"
        prefix = "" if layout == "unified" else side.kind.lower() + "_"
        names = [
            c
            for c in metric_columns(self._group, layout)
            if c.startswith(prefix)
            and "_time(us)" not in c
            and "cycles" not in c
            and not c.startswith(("aicore_", "cube_u"))
        ]
        if side not in self._sums:
            self._sums[side] = (
                np.zeros((self._cores(side) + 1, len(names) + 1)),
                [c.removeprefix(prefix) for c in names],
            )
        table, _ = self._sums[side]
        values = [counters.values.get(name, 0) for name in names]
        row = np.array([1.0, *(float("nan") if isinstance(v, str) else float(v) for v in values)]) * core.us
        table[0] += row
        table[cores] -= row

    def _flush(self, device: int, before: int | None) -> None:
        done = [k for k in self._open if k[0].device == device and (before is None or k[1] < before)]
        for side, period in sorted(done, key=lambda k: (k[1], k[0].kind)):
            self._period(side, period, np.cumsum(self._open.pop((side, period)), axis=0)[:-1])

    def _period(self, side: _Side, period: int, cores: Array) -> None:
        self._periods += 1
        if self._periods > MOST_PERIODS:
            return
        chip = self._context.chips[side.device]
        mhz = chip.cube_mhz if side.kind == "AIC" else chip.vector_mhz
        length_us = self._period_ns / 1e3
        begin = period * self._period_ns
        share = np.clip(cores[:, : len(_BUSY)] / length_us * 100, 0, 100)
        rate = np.maximum(cores[:, len(_BUSY) :] / length_us / 1e3, 0)
        peaks = _peaks(chip)
        for number in range(len(cores)):
            if cores[number, 0] <= 1e-9:
                continue
            busy, moved = [float(v) for v in share[number]], [float(v) for v in rate[number]]
            used = [min(100 * moved[_MOVED.index(name)] / peak, 100.0) for name, peak in peaks.items()]
            self._table.add((side.device, time_us(begin), side.kind, number, *busy, *moved, *used))
            self._database.add(
                "SAMPLE_PMU_TIMELINE",
                (
                    side.device,
                    begin,
                    round(cores[number, 0] * mhz),
                    busy[0],
                    mhz,
                    number,
                    self._database.string(side.kind),
                ),
            )
        if self._timeline is not None:
            label = "Core" if side.kind == "AIC" else "Vector Core"
            for number in range(len(cores)):
                value = round(float(share[number, 0]), 3)
                self._timeline.counter(
                    "AI Core Utilization", side.device, f"{label} {number}", begin, **{"utilization(%)": value}
                )
            mean = round(float(share[:, 0].mean()), 3)
            average = "Average" if side.kind == "AIC" else "Vector Average"
            self._timeline.counter("AI Core Utilization", side.device, average, begin, **{"utilization(%)": mean})

    def _summary(self, side: _Side) -> None:
        differences, names = self._sums[side]
        sums = np.cumsum(differences, axis=0)[:-1]
        table = self._context.table(side.file, extra=names)
        rows: list[tuple[str, Array]] = [(str(n), sums[n]) for n in range(len(sums))]
        rows.append(("Average", sums.sum(axis=0)))
        for core, row in rows:
            spent = row[0]
            values = [float(v) / spent if spent > 1e-9 else 0.0 for v in row[1:]]
            table.add((side.device, core, *("N/A" if v != v else v for v in values)))
            if core == "Average":
                continue
            for name, value in zip(names, values, strict=True):
                if value == value:
                    metric = self._database.string(pmu_name(name))
                    row_ = (side.device, metric, pmu_value(name, value), int(core), self._database.string(side.kind))
                    self._database.add("SAMPLE_PMU_SUMMARY", row_)
        table.close()


def _peaks(chip: Rates) -> dict[str, float]:
    """Peak rates of one core's paths in GB/s, by which their use is judged."""
    l1 = chip.l2_gbps / chip.cores
    a, b = (rate * chip.cube_mhz / 1e3 for rate in (chip.l1_to_l0a_bpc, chip.l1_to_l0b_bpc))
    return {"l1_write": l1, "l0a_write": a, "l0b_write": b}


class MemorySampling:
    """hbm or ddr: device memory bandwidth per period (``--sys-hardware-mem=on``)."""

    def __init__(self, context: Context, timeline: Timeline | None, database: Database) -> None:
        self._context = context
        self._timeline, self._database = timeline, database
        self._period_ns = round(1e9 / float(context.setting("sys-hardware-mem-freq", "50")))
        self._open: dict[tuple[int, int], list[float]] = {}
        self._totals: dict[int, list[float]] = {}
        self._span: dict[int, tuple[int, int]] = {}

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        found = task.op.counters if task.op is not None else None
        if counters is None or found is None:
            return
        first, last = task.start_ns // self._period_ns, (task.end_ns - 1) // self._period_ns
        self._flush(task.device, first)
        totals = self._totals.setdefault(task.device, [0.0, 0.0])
        begin, end = self._span.get(task.device, (task.start_ns, task.end_ns))
        self._span[task.device] = (begin, max(end, task.end_ns))
        totals[0] += found.memory_read
        totals[1] += found.memory_written
        for period in range(first, last + 1):
            inside = min(task.end_ns, (period + 1) * self._period_ns) - max(task.start_ns, period * self._period_ns)
            share = inside / task.duration_ns
            row = self._open.setdefault((task.device, period), [0.0, 0.0])
            row[0] += found.memory_read * share
            row[1] += found.memory_written * share

    def close(self) -> None:
        for device in {d for d, _ in self._open}:
            self._flush(device, None)
        for name in ("HBM", "DDR"):
            devices = [d for d in sorted(self._totals) if self._kind(d) == name]
            table = self._context.table(name.lower())
            for device in devices:
                begin, end = self._span[device]
                seconds = max(end - begin, 1) / 1e9
                read, written = (size / seconds / 1e6 for size in self._totals[device])
                table.add((device, "Average", read, written))
            table.close()

    def _kind(self, device: int) -> str:
        return "HBM" if self._context.chips[device].soc.generation in _HBM else "DDR"

    def _flush(self, device: int, before: int | None) -> None:
        for key in sorted(k for k in self._open if k[0] == device and (before is None or k[1] < before)):
            read, written = (size * 1e9 / self._period_ns for size in self._open.pop(key))
            begin = key[1] * self._period_ns
            kind = self._kind(device)
            if self._timeline is not None:
                for name, value in (("Read(MB/s)", read), ("Write(MB/s)", written)):
                    self._timeline.counter(kind, device, name, begin, value=round(value / 1e6, 3))
            if kind == "HBM":
                for name, value in (("read", read), ("write", written)):
                    self._database.add("HBM", (device, begin, value, 0, self._database.string(name)))
            else:
                self._database.add("DDR", (device, begin, read, written))


class AiCpuShare:
    """cpu_usage: the share of the collection in which the AI CPUs run kernels. What the control CPUs do is not modelled."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._busy: dict[int, int] = {}

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is not None:
            self._busy.setdefault(task.device, 0)
            if counters.task_type == "AI_CPU":
                self._busy[task.device] += task.duration_ns

    def close(self) -> None:
        table = self._context.table("cpu_usage")
        collection = self._context.collection
        span = max(collection.end_ns - collection.begin_ns, 1)
        for device, busy in sorted(self._busy.items()):
            cpus = self._context.chips[device].soc.ai_cpu_count or 1
            user = min(100.0 * busy / span / cpus, 100.0)
            table.add((device, "AICPU", user, 0.0, 0.0, 0.0, 0.0, 100.0 - user))
        table.close()
