"""What a collection consists of, before it becomes files. Times are nanoseconds since 1970 unless a name says otherwise.

Host times are measured. Device times are simulated: a task starts when it was queued or when its stream is free, and
takes what the performance model predicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from asc_devkit.perf import OpTime

NO_MODEL: Final = 4294967295  # what the vendor's files write for tasks outside models


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of a public function on the host: measured. ``connection`` ties it to the tasks it queued (0: none)."""

    name: str
    level: str
    thread: int
    start_ns: int
    end_ns: int
    connection: int = 0


@dataclass(frozen=True, slots=True)
class DeviceTask:
    """One task on a device: simulated. ``op`` is the operator it runs (None for copies, events and the like).

    ``kind`` is the runtime's word (``kernel``, ``memcpy``, ``event_record``, ...), ``name`` the operator or what the task
    is called; ``infer_id`` counts the executions of the model from 1 (0 outside models).
    """

    device: int
    stream: int
    task_id: int
    kind: str
    name: str
    model_id: int
    infer_id: int
    start_ns: int
    end_ns: int
    op: OpTime | None = None
    connection: int = 0

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a whole model on a stream, device times simulated, host times measured."""

    device: int
    stream: int
    model_id: int
    model: str
    infer_id: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker or range the program set itself (msproftx): measured on the host. Equal times: a point."""

    message: str
    kind: str
    thread: int
    start_ns: int
    end_ns: int
    end_thread: int = 0
    category: int = 0
    range_id: int = 0


@dataclass(frozen=True, slots=True)
class HostSample:
    """One look at the program's process on the host: measured. CPU in per cent of one core, memory in bytes."""

    time_ns: int
    cpu_percent: float
    resident_bytes: int


@dataclass(frozen=True)
class Device:
    """A device that took part: its number and the chip it stands for (a ``Soc.name``)."""

    number: int
    soc: str


@dataclass(frozen=True)
class Collection:
    """Everything one process left behind.

    ``settings`` are the collection switches by option name. Tasks and calls may be many: they are read through
    ``tasks()``/``calls()``, which can be called again.
    """

    process: int
    command: str
    begin_ns: int
    end_ns: int
    settings: Mapping[str, str]
    devices: tuple[Device, ...]
    api_calls: Iterable[ApiCall] = ()
    device_tasks: Iterable[DeviceTask] = ()
    executions: tuple[Execution, ...] = ()
    marks: tuple[Mark, ...] = ()
    host_samples: tuple[HostSample, ...] = ()
    host: Mapping[str, Any] = field(default_factory=dict)

    def tasks(self) -> Iterator[DeviceTask]:
        """Device tasks in the order of their streams."""
        return iter(self.device_tasks)

    def calls(self) -> Iterator[ApiCall]:
        """Host calls in the order they returned."""
        return iter(self.api_calls)
