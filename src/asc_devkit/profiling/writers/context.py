"""What all writers of one export share: where to write, what was collected, which part is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from asc_devkit.perf.rates import Rates
from asc_devkit.profiling import pmu
from asc_devkit.profiling.pmu import Pmu
from asc_devkit.profiling.records import Collection, DeviceTask
from asc_devkit.profiling.writers.table import MOST_ROWS, Table


@dataclass(frozen=True)
class ExportOptions:
    """How to export.

    ``kind``: ``text`` (CSV, JSON and the database) or ``db`` (the database alone). ``model_id`` and ``iteration_id``
    (both or neither) keep one execution of one model. ``timeline_parts`` switches parts of the timeline off (``--reports``).
    ``slice_bytes`` cuts the timeline into files of that size (0: one file).
    """

    kind: str = "text"
    summary_format: str = "csv"
    model_id: int | None = None
    iteration_id: int | None = None
    timeline_parts: Mapping[str, bool] = field(default_factory=dict)
    slice_bytes: int = 0
    most_rows: int = MOST_ROWS


class Context:
    """One export: the folder the files grow in, the collection, the chips."""

    def __init__(self, collection: Collection, folder: Path, stamp: str, options: ExportOptions) -> None:
        self.collection = collection
        self.folder = folder
        self.stamp = stamp
        self.options = options
        self.chips: dict[int, Rates] = {d.number: pmu.chip(d.soc) for d in collection.devices}

    def setting(self, name: str, default: str = "off") -> str:
        """A collection switch."""
        return self.collection.settings.get(name, default)

    def on(self, name: str, default: str = "off") -> bool:
        """True when a collection switch is on in some way."""
        return self.setting(name, default) not in ("off", "")

    @property
    def detailed(self) -> bool:
        """True when operators have types, shapes and counters (``--task-time`` on or l1)."""
        return self.setting("task-time", "on") in ("on", "l1")

    @property
    def metrics(self) -> str:
        """The metric group of task-based counters; empty when none are collected."""
        if not self.detailed or not self.on("ai-core", "on") or self.setting("aic-mode", "task-based") != "task-based":
            return ""
        return self.setting("aic-metrics", "PipeUtilization")

    def wanted(self, task: DeviceTask) -> bool:
        """False for tasks outside the model and iteration that were asked for."""
        options = self.options
        return options.model_id is None or (task.model_id, task.infer_id) == (options.model_id, options.iteration_id)

    def table(self, name: str, *, layout: str | None = None, extra: Sequence[str] = ()) -> Table:
        """A table of the schema, in the format that was asked for."""
        return Table(
            self.folder,
            name,
            self.stamp,
            layout=layout,
            extra=extra,
            as_json=self.options.summary_format == "json",
            most_rows=self.options.most_rows,
        )


class Sink(Protocol):
    """A writer that is fed all tasks, device by device in order of time."""

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        """Take one task; ``counters`` belong to kernels."""

    def close(self) -> object:
        """Write what is left."""


class Counted:
    """Counters per kernel, computed once: executions repeat the same operators."""

    def __init__(self, chips: Mapping[int, Rates]) -> None:
        self._chips = chips
        self._known: dict[tuple[int, int, int], Pmu] = {}

    def of(self, task: DeviceTask) -> Pmu | None:
        """Counters of a kernel task, None for other tasks."""
        if task.op is None or task.duration_ns <= 0:
            return None
        key = (id(task.op), task.device, task.duration_ns)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = pmu.measure(task.op, self._chips[task.device], task.duration_ns)
        return found
