"""Tables about operators: op_summary, op_statistic, task_time, aicpu, l2_cache and fusion_op. Device times: simulated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from asc_devkit.perf.counters import Counters, Operand
from asc_devkit.profiling.pmu import NOT_MODELLED, Pmu
from asc_devkit.profiling.records import NO_MODEL, DeviceTask
from asc_devkit.profiling.schema import metric_columns
from asc_devkit.profiling.schema.metrics import core_layout
from asc_devkit.profiling.writers.context import Context
from asc_devkit.profiling.writers.table import Cell, plain_us, text, time_us

NA: Final = "N/A"
# What the vendor calls the task of each engine.
KERNEL_TYPES: Final = {
    "AI_CORE": "KERNEL_AICORE",
    "AI_VECTOR_CORE": "KERNEL_AIVEC",
    "MIX_AIC": "KERNEL_MIX_AIC",
    "AI_CPU": "KERNEL_AICPU",
}
TASK_TYPES: Final = {
    "memcpy": "MEMCPY_ASYNC",
    "memset": "MEMCPY_ASYNC",
    "event_record": "EVENT_RECORD",
    "event_wait": "EVENT_WAIT",
    "event_reset": "EVENT_RESET",
    "callback": "CALLBACK",
    "image": "DVPP",
}
_DTYPES: Final = {"BFLOAT16": "DT_BF16", "STRING": "STRING", "UNDEFINED": "UNDEFINED"}


def task_kind(task: DeviceTask, counters: Pmu | None) -> str:
    """Name of the task for task_time and the timeline."""
    if counters is not None:
        return KERNEL_TYPES[counters.task_type]
    return TASK_TYPES.get(task.kind, task.kind.upper())


def operand_texts(operands: Iterable[Operand]) -> tuple[str, str, str]:
    """Shapes (in quotes of their own), types and formats, ``;`` between operands, as op_summary has them."""
    listed = list(operands)
    shapes = ";".join(",".join(map(str, o.shape)) for o in listed)
    types = ";".join(_DTYPES.get(o.dtype, o.dtype) for o in listed)
    return f'"{shapes}"' if listed else NA, types or NA, ";".join(o.format for o in listed) or NA


def operator_state(found: Counters | None) -> str:
    """``dynamic`` when a size is not known before the run."""
    if found is None:
        return NA
    return "dynamic" if any(d < 0 for o in (*found.inputs, *found.outputs) for d in o.shape) else "static"


class Waits:
    """Time between the end of the previous kernel of a device and the start of the next."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}

    def of(self, task: DeviceTask) -> int:
        """Nanoseconds, 0 for the first kernel and for overlapping ones."""
        before = self._ends.get(task.device)
        self._ends[task.device] = max(task.end_ns, before or 0)
        return 0 if before is None else max(task.start_ns - before, 0)


class OpSummary:
    """op_summary: one row per kernel."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waits = Waits()
        self._layouts = {core_layout(c.soc) for c in context.chips.values()} or {"split"}
        self._group = context.metrics
        extra = (
            [c for layout in sorted(self._layouts) for c in metric_columns(self._group, layout)] if self._group else []
        )
        self._extra = list(dict.fromkeys(extra))
        self._table = context.table("op_summary", layout="2024", extra=self._extra)
        self._static: dict[int, tuple[Cell, ...]] = {}

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is None or task.op is None:
            return
        wait = self._waits.of(task)
        detailed = self._context.detailed
        known = self._static.get(id(task.op))
        if known is None:
            known = self._static[id(task.op)] = self._fixed(task)
        mix: Cell = counters.mix_block_num if detailed else NA
        row: list[Cell] = [
            task.device,
            task.model_id,
            task.task_id,
            task.stream,
            text(task.name),
            text(task.op.type) if detailed else NA,
            operator_state(task.op.counters) if detailed else NA,
            counters.task_type if detailed else NA,
            time_us(task.start_ns),
            plain_us(task.duration_ns),
            plain_us(wait),
            counters.block_num if detailed else 0,
            mix,
            *known,
        ]
        missing: Cell = NOT_MODELLED if counters.task_type == "AI_CPU" else 0
        row += [counters.values.get(name, missing) for name in self._extra]
        self._table.add(row)

    def _fixed(self, task: DeviceTask) -> tuple[Cell, ...]:
        """HF32 flag, operands and context number: the same in every execution."""
        if not self._context.detailed:
            return (NA,) * 8
        found = (task.op.counters if task.op else None) or Counters()
        return ("NO", *operand_texts(found.inputs), *operand_texts(found.outputs), NA)

    def close(self) -> None:
        self._table.close()


class TaskTime:
    """task_time: every task of every stream."""

    def __init__(self, context: Context) -> None:
        self._table = context.table("task_time")

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        self._table.add(
            (
                task.device,
                text(task.name) if counters is not None else NA,
                task_kind(task, counters),
                task.stream,
                task.task_id,
                plain_us(task.duration_ns),
                time_us(task.start_ns),
                time_us(task.end_ns),
            )
        )

    def close(self) -> None:
        self._table.close()


class OpStatistic:
    """op_statistic: totals per operator type and engine."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._totals: dict[tuple[int, str, str], list[int]] = {}

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is None or task.op is None:
            return
        spent = task.duration_ns
        found = self._totals.setdefault((task.device, task.op.type, counters.task_type), [0, 0, spent, spent])
        found[0] += 1
        found[1] += spent
        found[2] = min(found[2], spent)
        found[3] = max(found[3], spent)

    def close(self) -> None:
        table = self._context.table("op_statistic")
        for device in sorted({key[0] for key in self._totals}):
            mine = {key: v for key, v in self._totals.items() if key[0] == device}
            whole = sum(v[1] for v in mine.values())
            for (_, kind, engine), (count, total, least, most) in sorted(mine.items(), key=lambda item: -item[1][1]):
                table.add(
                    (
                        device,
                        text(kind),
                        engine,
                        count,
                        plain_us(total),
                        plain_us(least),
                        round(total / count / 1e3, 3),
                        plain_us(most),
                        100.0 * total / whole if whole else 0.0,
                    )
                )
        table.close()


class AiCpu:
    """aicpu: kernels on the AI CPU (``--aicpu=on``). The model knows a fixed cost and the time to move the operands."""

    def __init__(self, context: Context) -> None:
        self._table = context.table("aicpu")

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is None or task.op is None or counters.task_type != "AI_CPU":
            return
        total = task.duration_ns / 1e3
        dispatch = min(task.op.launch_us, total)
        work = total - dispatch
        self._table.add(
            (
                task.device,
                time_us(task.start_ns),
                text(task.name),
                work,
                0.0,
                work,
                dispatch,
                total,
                task.stream,
                task.task_id,
            )
        )

    def close(self) -> None:
        self._table.close()


class L2Cache:
    """l2_cache: hit rate of each kernel's traffic (``--l2=on``)."""

    def __init__(self, context: Context) -> None:
        self._table = context.table("l2_cache")

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        found = task.op.counters if task.op is not None else None
        if counters is None or found is None or counters.task_type == "AI_CPU":
            return
        moved = found.core_read + found.core_written
        missed = min(found.l2_miss, moved)
        hit = (moved - missed) / moved if moved else 0.0
        # What a miss pushes out is counted where the model writes dirty lines back.
        victim = min(found.memory_written / moved, 1.0) if moved else 0.0
        self._table.add((task.device, task.stream, task.task_id, hit, victim, text(task.name)))

    def close(self) -> None:
        self._table.close()


class FusionOp:
    """fusion_op: kernels that stand for several operators of the user's model, with what they read and write."""

    def __init__(self, context: Context, models: dict[int, str]) -> None:
        self._context = context
        self._models = models
        self._seen: dict[tuple[int, int, int], DeviceTask] = {}

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        found = task.op.counters if task.op is not None else None
        if counters is None or found is None or task.model_id == NO_MODEL or len(found.origins) < 2:
            return
        self._seen.setdefault((task.device, task.model_id, id(task.op)), task)

    def close(self) -> None:
        table = self._context.table("fusion_op")
        for (device, model, _), task in self._seen.items():
            assert task.op is not None
            found = task.op.counters or Counters()
            read = sum(o.size_bytes for o in found.inputs if not o.constant) / 1024
            weight = sum(o.size_bytes for o in found.inputs if o.constant) / 1024
            written = sum(o.size_bytes for o in found.outputs) / 1024
            name = self._models.get(model, "")
            origins = ";".join(found.origins)
            row = (device, text(name), model, text(task.name), text(origins), read, written, weight, 0.0)
            table.add((*row, read + written + weight))
        table.close()
