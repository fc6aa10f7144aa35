"""Telling the collection about models that run outside the device runtime (``ais_bench``, ``asc run``).

While nothing is collected, ``current()`` is None and nothing else happens.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from asc_devkit import om, perf
from asc_devkit.profiling.collect.spool import EXECUTION

if TYPE_CHECKING:
    from asc_devkit.profiling.collect.collector import Collector

_STREAM: Final = 2  # what the vendor's tools show for the first stream of a model
_models = itertools.count(1)
_tasks = itertools.count()
_free: dict[tuple[int, int], int] = {}
_lock = threading.Lock()
_current: Collector | None = None


def current() -> Collector | None:
    """The collection of this process, None when there is none."""
    return _current


def set_current(collector: Collector | None) -> None:
    """Make ``collector`` the one that hears of everything."""
    global _current
    _current = collector


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the runtime's observers get it: monotonic nanoseconds."""

    name: str
    thread: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Task:
    """An execution as the runtime's observers get it."""

    device: int
    stream: int
    kind: str
    name: str
    task_id: int
    model_id: int
    thread: int
    queued_ns: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int
    detail: tuple[perf.OpTime, ...]


@dataclass
class Watched:
    """A loaded model. Its chip decides the simulated times; gears are estimated when they first run."""

    file: om.OmFile
    name: str
    soc: str
    device: int = 0
    model_id: int = field(default_factory=lambda: next(_models))
    _estimates: dict[int | None, perf.Estimate] = field(default_factory=dict)

    def estimate(self, gear: int | None) -> perf.Estimate:
        """Predicted times of one execution."""
        if gear not in self._estimates:
            from asc_devkit import soc

            self._estimates[gear] = perf.estimate(self.file.to_ir(gear), soc.resolve(self.soc).soc)
        return self._estimates[gear]

    def called(self, name: str, start_ns: int, end_ns: int) -> None:
        """A call that queued nothing."""
        collector = _current
        if collector is not None:
            collector.api(Call(name, threading.get_native_id(), start_ns, end_ns))

    def executed(self, start_ns: int, end_ns: int, gear: int | None = None) -> None:
        """One execution, measured on the host; the device starts when it was queued or when it is free."""
        collector = _current
        if collector is None:
            return
        found = self.estimate(gear)
        thread = threading.get_native_id()
        with _lock:
            start = max(start_ns, _free.get((self.device, _STREAM), 0))
            end = start + max(round(found.total_us * 1e3), 1)
            _free[self.device, _STREAM] = end
        collector.device(self.device, found.soc)
        collector.api(Call("aclmdlExecute", thread, start_ns, end_ns))
        times = (start_ns, start, end, start_ns, end_ns)
        task = Task(
            self.device,
            _STREAM,
            EXECUTION,
            self.name,
            next(_tasks),
            self.model_id,
            thread,
            *times,
            detail=found.operators,
        )
        collector.task(task)


def model(file: om.OmFile, name: str, soc_version: str = "", device: int = 0) -> Watched:
    """Watch a model: ``name`` is its file, ``soc_version`` the chip (default: the one it was converted for)."""
    return Watched(file, name, soc_version or str(file.attrs.get("soc_version", "")), device)
