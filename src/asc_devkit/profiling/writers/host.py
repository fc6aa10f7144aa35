"""Tables about the host and about whole executions: api_statistic, step_trace, msprof_tx, host usage."""

from __future__ import annotations

import os
from typing import Final

from asc_devkit.profiling.records import ApiCall, Execution, HostSample, Mark
from asc_devkit.profiling.writers.context import Context
from asc_devkit.profiling.writers.table import plain_us, text, time_us

NA: Final = "N/A"


class ApiStatistic:
    """api_statistic: measured times of each function (sums of squares are exact integers, so the variance is too)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._totals: dict[tuple[str, str], list[int]] = {}

    def call(self, call: ApiCall) -> None:
        spent = call.end_ns - call.start_ns
        found = self._totals.setdefault((call.level, call.name), [0, 0, spent, spent, 0])
        found[0] += 1
        found[1] += spent
        found[2] = min(found[2], spent)
        found[3] = max(found[3], spent)
        found[4] += spent * spent

    def close(self) -> None:
        table = self._context.table("api_statistic")
        devices = self._context.collection.devices
        device = str(devices[0].number) if devices else "host"
        for (level, name), (count, total, least, most, squares) in sorted(self._totals.items()):
            variance = (count * squares - total * total) / (count * count) / 1e6
            table.add(
                (
                    device,
                    level,
                    name,
                    plain_us(total),
                    count,
                    round(total / count / 1e3, 3),
                    plain_us(least),
                    plain_us(most),
                    variance,
                )
            )
        table.close()


def step_trace(context: Context, executions: tuple[Execution, ...]) -> None:
    """step_trace: one row per execution of a model. Inference has no forward and backward marks."""
    table = context.table("step_trace")
    ends: dict[int, int] = {}
    for one in executions:
        before = ends.get(one.device)
        gap = NA if before is None else plain_us(max(one.start_ns - before, 0))
        ends[one.device] = one.end_ns
        table.add(
            (
                one.device,
                one.infer_id,
                NA,
                NA,
                time_us(one.end_ns),
                plain_us(one.end_ns - one.start_ns),
                NA,
                NA,
                gap,
                one.model_id,
            )
        )
    table.close()


def msprof_tx(context: Context, marks: tuple[Mark, ...]) -> None:
    """msprof_tx: the program's own markers and ranges."""
    table = context.table("msprof_tx")
    process = context.collection.process
    for mark in marks:
        start, end = time_us(mark.start_ns), time_us(mark.end_ns)
        fixed = ("host", process, mark.thread, mark.category, mark.kind, 0, 0)
        table.add((*fixed, start, end, 0, text(mark.message), "default", NA, NA))
    table.close()


def host_usage(context: Context, samples: tuple[HostSample, ...]) -> None:
    """host_cpu_usage and host_mem_usage of the program's process (``--host-sys=cpu,mem``)."""
    if not samples:
        return
    parts = context.setting("host-sys", "").split(",")
    if "cpu" in parts:
        cpus = os.cpu_count() or 1
        occupied = max(min(-(-int(max(s.cpu_percent for s in samples)) // 100), cpus), 1)
        table = context.table("host_cpu_usage")
        table.add(("host", cpus, occupied, occupied))
        table.close()
    if "mem" in parts:
        peak = max(s.resident_bytes for s in samples) // 1024
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
        table = context.table("host_mem_usage")
        table.add(("host", whole, peak, min(peak * 5 // 4, whole)))
        table.close()
