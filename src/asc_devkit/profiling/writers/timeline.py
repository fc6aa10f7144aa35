"""The timeline ``msprof_*.json`` in Chrome's trace format: host calls as measured, device tasks as simulated.

Processes and their numbers follow the vendor's files (real trees): ``(pid << 10) | (sort index << 5) | device``. That the
device side is simulated stands in the label of its process and in the arguments of every event.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

from asc_devkit.profiling.pmu import Pmu
from asc_devkit.profiling.records import ApiCall, DeviceTask, HostSample, Mark
from asc_devkit.profiling.writers.context import Context
from asc_devkit.profiling.writers.operators import task_kind

SIMULATED: Final = "NPU, simulated by asc-devkit"
MEASURED: Final = "CPU"
# name -> (sort index, label, part of reports.json that switches it)
PROCESSES: Final = {
    "MsTx": (1, MEASURED, "msproftx"),
    "CANN": (2, MEASURED, "cann"),
    "CPU Usage": (5, MEASURED, "cpu_usage"),
    "Memory Usage": (6, MEASURED, "memory_usage"),
    "Ascend Hardware": (8, SIMULATED, "ascend"),
    "AI Core Freq": (9, SIMULATED, "freq"),
    "AI Core Utilization": (10, SIMULATED, "ascend"),
    "Overlap Analysis": (11, SIMULATED, "overlap_analyse"),
    "HBM": (12, SIMULATED, "hbm"),
    "DDR": (13, SIMULATED, "ddr"),
}
_OVERLAP: Final = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
_MODES: Final = (("aclmdl", "ACL_MODEL"), ("aclrt", "ACL_RTS"), ("acldvpp", "ACL_DVPP"), ("aclvdec", "ACL_DVPP"))


def stamp(ns: int) -> str:
    """A time as trace viewers of the vendor's files expect it: text, microseconds with three digits."""
    return f"{ns // 1000}.{ns % 1000:03d}"


class Timeline:
    """Writes events as they come; ``close`` names the file or the slices."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._parts: list[Path] = []
        self._handle: io.TextIOWrapper | None = None
        self._size = 0
        self._known: set[tuple[int, int]] = set()
        self._headers: list[str] = []
        self._computing: dict[int, tuple[int, int]] = {}

    # --- what is shown -----------------------------------------------------------------------------------------------
    def call(self, call: ApiCall) -> None:
        """A call on the host; one that queued tasks starts an arrow to them."""
        pid = self._process("CANN", 0)
        if pid is None:
            return
        self._thread(pid, call.thread, f"Thread {call.thread}", call.thread)
        prefix = "AscendCL@" if call.level == "acl" else ""
        mode = next((m for start, m in _MODES if call.name.startswith(start)), "ACL_OP")
        self._event(
            name=prefix + call.name,
            pid=pid,
            tid=call.thread,
            ts=stamp(call.start_ns),
            dur=(call.end_ns - call.start_ns) / 1e3,
            args={
                "Thread Id": call.thread,
                "Mode": mode,
                "level": call.level,
                "id": call.name,
                "item_id": "0",
                "connection_id": call.connection,
            },
            ph="X",
        )
        if call.connection:
            self._flow("s", call.connection, pid, call.thread, call.start_ns)

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        """A task on its stream, and its part in the overlap analysis."""
        self._overlap(task, counters)
        pid = self._process("Ascend Hardware", task.device)
        if pid is None:
            return
        self._thread(pid, task.stream, f"Stream {task.stream}", task.stream)
        kind = counters.task_type if counters is not None else task_kind(task, counters)
        args: dict[str, Any] = {
            "Model Id": task.model_id,
            "Task Type": kind,
            "Physic Stream Id": task.stream,
            "Task Id": task.task_id,
            "Batch Id": 0,
            "Subtask Id": 4294967295,
            "connection_id": task.connection or -1,
            "time": "simulated",
        }
        if counters is not None and (core := counters.aic or counters.aiv) is not None:
            args["Aicore Time(ms)"] = round(core.us / 1e3, 6)
            args["Total Cycle"] = core.cycles
        self._event(
            name=task.name,
            pid=pid,
            tid=task.stream,
            ts=stamp(task.start_ns),
            dur=task.duration_ns / 1e3,
            args=args,
            ph="X",
        )
        if task.connection:
            self._flow("f", task.connection, pid, task.stream, task.start_ns)

    def mark(self, mark: Mark) -> None:
        """A marker or range of the program."""
        pid = self._process("MsTx", 0)
        if pid is None:
            return
        self._thread(pid, mark.thread, f"Thread {mark.thread}", mark.thread)
        self._event(
            name=mark.message,
            pid=pid,
            tid=mark.thread,
            ts=stamp(mark.start_ns),
            dur=(mark.end_ns - mark.start_ns) / 1e3,
            args={"event_type": mark.kind, "category": mark.category},
            ph="X",
        )

    def counter(self, process: str, device: int, name: str, time_ns: int, **values: float) -> None:
        """A point of a curve."""
        pid = self._process(process, device)
        if pid is not None:
            self._event(name=name, pid=pid, tid=0, ts=stamp(time_ns), args=values, ph="C")

    def host(self, sample: HostSample) -> None:
        """What the program used on the host: measured."""
        self.counter("CPU Usage", 0, "CPU Avg", sample.time_ns, usage=round(sample.cpu_percent, 3))
        self.counter("Memory Usage", 0, "Memory Usage", sample.time_ns, usage=sample.resident_bytes // 1024)

    # --- how it is written -------------------------------------------------------------------------------------------
    def close(self) -> list[Path]:
        """Finish; the files in order."""
        for device in list(self._computing):
            self._emit_computing(device)
        if not self._parts:
            self._open()
        self._end()
        found = []
        for index, part in enumerate(self._parts):
            piece = f"_slice_{index}" if len(self._parts) > 1 else ""
            found.append(part.rename(self._context.folder / f"msprof{piece}_{self._context.stamp}.json"))
        return found

    def pid(self, process: str, device: int) -> int:
        """Number of a process in the trace."""
        return (self._context.collection.process << 10) | (PROCESSES[process][0] << 5) | device

    def _process(self, process: str, device: int) -> int | None:
        """The number of a process, announced on first use; None when it is switched off."""
        order, label, part = PROCESSES[process]
        parts = self._context.options.timeline_parts
        if parts and not parts.get(part, False):
            return None
        pid = self.pid(process, device)
        if (pid, -1) not in self._known:
            self._known.add((pid, -1))
            for name, args in (
                ("process_name", {"name": process}),
                ("process_labels", {"labels": label}),
                ("process_sort_index", {"sort_index": order}),
            ):
                self._header(name=name, pid=pid, tid=0, args=args, ph="M")
        return pid

    def _thread(self, pid: int, tid: int, name: str, order: int) -> None:
        if (pid, tid) not in self._known:
            self._known.add((pid, tid))
            self._header(name="thread_name", pid=pid, tid=tid, args={"name": name}, ph="M")
            self._header(name="thread_sort_index", pid=pid, tid=tid, args={"sort_index": order}, ph="M")

    def _flow(self, phase: str, connection: int, pid: int, tid: int, time_ns: int) -> None:
        event = {"name": f"HostToDevice{connection}", "ph": phase, "cat": "HostToDevice", "id": str(connection)}
        if phase == "f":
            event["bp"] = "e"
        self._event(**event, pid=pid, tid=tid, ts=stamp(time_ns))

    def _overlap(self, task: DeviceTask, counters: Pmu | None) -> None:
        if counters is None:
            return
        start, end = self._computing.get(task.device, (task.start_ns, task.start_ns))
        if task.start_ns > end:
            self._emit_computing(task.device)
            self._interval(task.device, 3, end, task.start_ns)
            start = end = task.start_ns
        self._computing[task.device] = (start, max(end, task.end_ns))

    def _emit_computing(self, device: int) -> None:
        start, end = self._computing.pop(device)
        if end > start:
            self._interval(device, 0, start, end)

    def _interval(self, device: int, row: int, start: int, end: int) -> None:
        pid = self._process("Overlap Analysis", device)
        if pid is None:
            return
        for tid, name in enumerate(_OVERLAP):
            self._thread(pid, tid, name, tid)
        name = _OVERLAP[row]
        self._event(
            name=name,
            pid=pid,
            tid=row,
            ts=stamp(start),
            dur=(end - start) / 1e3,
            args={"analysis_type": name, "time": "simulated"},
            ph="X",
        )

    def _header(self, **event: Any) -> None:
        """Metadata, repeated at the head of every slice."""
        line = json.dumps(event)
        self._write(line)
        self._headers.append(line)

    def _event(self, **event: Any) -> None:
        self._write(json.dumps(event))

    def _write(self, line: str) -> None:
        limit = self._context.options.slice_bytes
        if self._handle is None or (limit and self._size + len(line) > limit):
            self._open()
            for header in self._headers:
                self._line(header)
        self._line(line)

    def _line(self, line: str) -> None:
        assert self._handle is not None
        text = line if self._size <= 1 else ",\n" + line
        self._handle.write(text)
        self._size += len(text)

    def _open(self) -> None:
        self._end()
        part = self._context.folder / f".msprof.{len(self._parts)}.part"
        self._handle = part.open("w", encoding="ascii")
        self._handle.write("[")
        self._size = 1
        self._parts.append(part)

    def _end(self) -> None:
        if self._handle is not None:
            self._handle.write("]\n")
            self._handle.close()
            self._handle = None
