"""Listens to the runtime and keeps what it hears: an observer (``npu.device.observe``) that writes raw data.

On the program's threads an event costs one list append; a thread of its own writes the lists out.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from asc_devkit import files
from asc_devkit.perf import OpTime
from asc_devkit.profiling.collect.spool import EXECUTION, FACTS, Slices, kernel_row
from asc_devkit.profiling.writers import tree as trees

WRITE_EVERY_S: Final = 1.0


@dataclass(frozen=True)
class Plan:
    """What to collect. ``settings`` are switches by option name; ``launch`` marks the trees of one ``msprof`` command;
    ``devices`` whose tasks are kept (None: all)."""

    output: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    launch: str = ""
    command: str = ""
    devices: frozenset[int] | None = None

    @property
    def delay_ns(self) -> int:
        return round(float(self.settings.get("delay") or 0) * 1e9)

    @property
    def duration_ns(self) -> int | None:
        seconds = self.settings.get("duration")
        return round(float(seconds) * 1e9) if seconds else None


class Collector:
    """One collection of one process. ``start`` and ``stop`` once; the tree appears with the first event, or at ``start``
    when ``always``."""

    def __init__(self, plan: Plan, *, always: bool = False) -> None:
        self.plan = plan
        self.tree: Path | None = None
        self._always = always
        self._calls: list[tuple[str, str, int, int, int]] = []
        self._tasks: list[tuple[int, tuple[Any, ...], Any]] = []
        self._marks: list[tuple[Any, ...]] = []
        self._devices: dict[int, str] = {}
        self._kernels: dict[int, tuple[int, OpTime]] = {}
        self._plans: dict[tuple[int, ...], int] = {}
        self._streams: dict[str, Slices] = {}
        self._facts = ""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._writer: threading.Thread | None = None
        self._begin = self._from = self._until = 0

    # --- the observer ------------------------------------------------------------------------------------------------
    def api(self, call: Any) -> None:
        """A call of the public API has returned."""
        if self._from <= call.start_ns <= self._until:
            self._calls.append((call.name, "acl", call.thread, call.start_ns, call.end_ns))

    def task(self, task: Any) -> None:
        """A task of a device has finished."""
        wanted = self.plan.devices
        if self._from <= task.queued_ns <= self._until and (wanted is None or task.device in wanted):
            row = (
                task.kind,
                task.stream,
                task.task_id,
                task.model_id,
                task.name,
                task.thread,
                task.queued_ns,
                task.start_ns,
                task.end_ns,
                task.host_start_ns,
                task.host_end_ns,
            )
            self._tasks.append((task.device, row, task.detail))

    def mark(self, message: str, kind: str, start_ns: int, end_ns: int, *, range_id: int = 0, thread: int = 0) -> None:
        """The program marked a point or a range; times of the monotonic clock, ``thread`` that began it (0: this one)."""
        here = threading.get_native_id()
        if self._from <= start_ns <= self._until:
            self._marks.append((message, kind, thread or here, start_ns, end_ns, here, 0, range_id))

    def device(self, number: int, soc: str) -> None:
        """A device takes part; ``soc`` is its chip (a ``Soc.name``)."""
        self._devices[number] = soc

    # --- begin and end -----------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to collect. Raises ``CannotWrite`` when the output folder cannot be made (if ``always``)."""
        self._begin = time.monotonic_ns()
        self._from = self._begin + self.plan.delay_ns
        length = self.plan.duration_ns
        self._until = self._from + length if length is not None else (1 << 63)
        self._offset = time.time_ns() - time.monotonic_ns()
        if self._always:
            self._write()
        self._writer = threading.Thread(target=self._keep_writing, name="asc-profiling", daemon=True)
        self._writer.start()

    def stop(self) -> Path | None:
        """End the collection and write what is left; the tree, None when nothing happened."""
        self._until = min(self._until, time.monotonic_ns())
        self._wake.set()
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(timeout=10)
        self._write()
        self._describe(end_ns=time.monotonic_ns())
        for stream in self._streams.values():
            stream.close()
        return self.tree

    def _keep_writing(self) -> None:
        while not self._wake.wait(WRITE_EVERY_S):
            try:
                self._write()
            except OSError:
                return  # a full disk must not end the program; stop() reports it

    def _write(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
            tasks, self._tasks = self._tasks, []
            marks, self._marks = self._marks, []
            if not (calls or tasks or marks or self._always or self.tree):
                return
            if self.tree is None:
                self.tree = trees.new_tree(self.plan.output, self._begin + self._offset)
            host = self.tree / "host" / "data"
            by_device: dict[int, list[list[Any]]] = {}
            for device, row, detail in tasks:
                if device not in self._devices:
                    self._devices[device] = _runtime_chip()
                by_device.setdefault(device, []).append([*row, self._reference(host, row[0], detail)])
            self._stream(host, "asc_api").write(calls)
            self._stream(host, "asc_mark").write(marks)
            for device, rows in by_device.items():
                self._stream(self.tree / f"device_{device}" / "data", "asc_task").write(rows)
            self._describe(end_ns=0)

    def _stream(self, folder: Path, name: str) -> Slices:
        found = self._streams.get(f"{folder}/{name}")
        if found is None:
            found = self._streams[f"{folder}/{name}"] = Slices(folder, name)
        return found

    def _reference(self, host: Path, kind: str, detail: Any) -> int:
        """Line number of the kernel or of the model's plan, written at its first use."""
        if isinstance(detail, OpTime):
            return self._kernel(host, detail)
        if not isinstance(detail, tuple) or kind != EXECUTION:
            return -1
        key = tuple(map(id, detail))  # the rows are kept, so their ids stay theirs
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = len(self._plans)
            self._stream(host, "asc_plan").write([[self._kernel(host, op) for op in detail]])
        return known

    def _kernel(self, host: Path, op: OpTime) -> int:
        known = self._kernels.get(id(op))
        if known is None:
            known = self._kernels[id(op)] = (len(self._kernels), op)
            self._stream(host, "asc_kernel").write([kernel_row(op)])
        return known[0]

    def _describe(self, end_ns: int) -> None:
        if self.tree is None:
            return
        facts = {
            "format": "asc-devkit/profile/1",
            **trees.ORIGIN,
            "process": os.getpid(),
            "command": self.plan.command,
            "launch": self.plan.launch,
            "settings": dict(self.plan.settings),
            "begin_ns": self._begin,
            "end_ns": end_ns,
            "clock_offset": self._offset,
            "devices": {str(number): soc for number, soc in sorted(self._devices.items())},
            "host": trees.host_facts(),
        }
        text = json.dumps(facts, indent=1)
        if text != self._facts:
            self._facts = text
            files.write_text(self.tree / "host" / "data" / FACTS, text)


def _runtime_chip() -> str:
    """The chip of the device runtime's devices."""
    from asc_devkit.npu.device import runtime

    return str(runtime.current().soc.name)
