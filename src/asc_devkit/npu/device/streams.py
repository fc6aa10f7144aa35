"""Streams: queues of tasks, each worked off in order by a thread of its own; and the events that order them.

A task that fails leaves its fault in the stream; the next synchronisation reports it, as on the device. By default the
stream goes on with its other tasks (``continue``); in mode ``stop`` it drops them until the fault was reported.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from asc_devkit.errors import AscError
from asc_devkit.npu.device import observe
from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.device.status import DeviceFault

CONTINUE, STOP = 0, 1
_IDLE_S: Final = 10.0  # a worker without tasks ends after this long and is made again when needed
now_ns = time.monotonic_ns


@dataclass(slots=True)
class Task:
    """What a stream does next. ``price`` tells how long the device would take, in microseconds, and the operators it
    consists of (rows of the performance model); it is asked only when somebody looks at device time."""

    kind: str
    name: str
    run: Callable[[], None]
    price: Callable[[], tuple[float, tuple[Any, ...]]] | None = None
    model_id: int = -1
    queued_ns: int = 0
    thread: int = 0


class Clock:
    """Device time of one stream, kept only while somebody looks (an observer, or an event that has been made)."""

    needed = False
    _ids = 0
    _lock = threading.Lock()

    def __init__(self, device: int, stream: int) -> None:
        self.device, self.stream = device, stream
        self.free_ns = 0

    def stamp(self, task: Task, host_start: int, host_end: int) -> int:
        """Account for ``task``, publish it, and return the device time of its end."""
        us, operators = task.price() if task.price is not None else (0.0, ())
        start = max(task.queued_ns, self.free_ns)
        end = start + round(us * 1e3)
        self.free_ns = end
        if not observe.active():
            return end
        detail: Any = operators if task.kind == "model" else next(iter(operators), None)
        observe.publish_task(
            observe.DeviceTask(
                self.device, self.stream, task.kind, task.name, "" if detail is None or task.kind == "model" else detail.type,
                self._id(), task.model_id, task.thread, task.queued_ns, start, end, us, host_start, host_end, detail,
            )
        )  # fmt: skip
        return end

    @classmethod
    def _id(cls) -> int:
        with cls._lock:
            cls._ids += 1
            return cls._ids


class Stream:
    """A queue of tasks. ``number`` is what profiles show."""

    def __init__(self, device: int, number: int) -> None:
        self.device, self.number = device, number
        self.site = call_site()
        self.failure_mode = CONTINUE
        self.attributes: dict[int, Any] = {}
        self.subscriber: Any = None  # reports.Reports of the thread that runs this stream's callbacks
        self.clock = Clock(device, number)
        self.fault: BaseException | None = None
        self.on_fault: Callable[[Stream, Task, BaseException], None] | None = None
        self._tasks: deque[Task] = deque()
        self._submitted = self._done = 0
        self._condition = threading.Condition()
        self._worker: threading.Thread | None = None
        self._closing = False

    def submit(self, task: Task) -> None:
        """Queue a task; returns at once."""
        task.queued_ns, task.thread = now_ns(), threading.get_native_id()
        with self._condition:
            if self._closing:
                raise DeviceFault("ACL_ERROR_RT_STREAM_CONTEXT", "The stream is being destroyed.")
            self._tasks.append(task)
            self._submitted += 1
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"asc-stream-{self.number}", daemon=True)
                self._worker.start()
            self._condition.notify_all()

    def synchronize(self, timeout_s: float | None = None) -> None:
        """Wait until everything queued so far is done; raise what failed since the last time (or a time-out)."""
        with self._condition:
            goal = self._submitted
            if not self._condition.wait_for(lambda: self._done >= goal, timeout_s):
                raise DeviceFault(
                    "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
                    f"The stream still has {goal - self._done} tasks after {timeout_s:g} s.",
                )
            fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    @property
    def complete(self) -> bool:
        """True when nothing is queued or running."""
        return self._done >= self._submitted

    def abort(self) -> None:
        """Drop what has not begun."""
        with self._condition:
            self._done += len(self._tasks)
            self._tasks.clear()
            self._condition.notify_all()

    def close(self, force: bool = False) -> None:
        """Finish (or drop) what is queued and end the worker."""
        if force:
            self.abort()
        with self._condition:
            self._condition.wait_for(lambda: self._done >= self._submitted)
            self._closing = True
            self._condition.notify_all()

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._tasks and not self._condition.wait_for(lambda: self._tasks or self._closing, _IDLE_S):
                    self._worker = None
                    return
                if not self._tasks:
                    return
                task = self._tasks.popleft()
                skipped = self.fault is not None and self.failure_mode == STOP
            if not skipped:
                self._run(task)
            del task  # what it holds must not outlive it while this thread waits
            with self._condition:
                self._done += 1
                self._condition.notify_all()

    def _run(self, task: Task) -> None:
        begun = now_ns()
        try:
            task.run()
        except Exception as error:
            fault = error if isinstance(error, AscError) else _internal(task, error)
            with self._condition:
                if self.fault is None:
                    self.fault = fault
            if self.on_fault is not None:
                self.on_fault(self, task, fault)
        if Clock.needed or observe.active():
            self.clock.stamp(task, begun, now_ns())


def _internal(task: Task, error: Exception) -> DeviceFault:
    return DeviceFault(
        "ACL_ERROR_RT_INTERNAL_ERROR",
        f"The task {task.name or task.kind} failed.",
        cause=f"{type(error).__name__}: {error}",
    )


class _Mark:
    """One recording of an event."""

    __slots__ = ("device_ns", "done")

    def __init__(self) -> None:
        self.done = False
        self.device_ns = 0


class Event:
    """A point in a stream that others can wait for. A new recording replaces the one before."""

    def __init__(self, flag: int = 0) -> None:
        Clock.needed = True
        self.flag = flag
        self.site = call_site()
        self._mark: _Mark | None = None
        self._waits = 0  # streams that still have to pass it
        self._condition = threading.Condition()

    @property
    def recorded(self) -> bool:
        """The last recording has been reached (also when there was none)."""
        mark = self._mark
        return mark is None or mark.done

    @property
    def awaited(self) -> bool:
        """A stream is still to pass it."""
        return self._waits > 0

    def record(self, stream: Stream) -> None:
        """Mark the end of what ``stream`` has been given so far."""
        mark = _Mark()

        def reach() -> None:
            mark.device_ns = max(stream.clock.free_ns, task.queued_ns)
            with self._condition:
                mark.done = True
                self._condition.notify_all()

        task = Task("event_record", "", reach)
        self._mark = mark
        stream.submit(task)

    def hold_back(self, stream: Stream) -> None:
        """Let ``stream`` go on only after the last recording made so far."""
        mark = self._mark
        with self._condition:
            self._waits += 1

        def pass_by() -> None:
            with self._condition:
                if mark is not None:
                    self._condition.wait_for(lambda: mark.done)
                    stream.clock.free_ns = max(stream.clock.free_ns, mark.device_ns)
                self._waits -= 1

        stream.submit(Task("event_wait", "", pass_by))

    def reset(self, stream: Stream) -> None:
        """Forget the recording, in the order of ``stream``."""
        before = self._mark

        def forget() -> None:
            if self._mark is before:
                self._mark = None

        stream.submit(Task("event_reset", "", forget))

    def synchronize(self, timeout_s: float | None = None) -> None:
        """Wait for the last recording made so far."""
        mark = self._mark
        with self._condition:
            if mark is not None and not self._condition.wait_for(lambda: mark.done, timeout_s):
                raise DeviceFault("ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", f"The event is not reached after {timeout_s:g} s.")

    def timestamp_ns(self) -> int:
        """Device time of the recording. Raises ``DeviceFault`` before it is reached."""
        mark = self._mark
        if mark is None or not mark.done:
            raise DeviceFault(
                "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID",
                "The event has no time yet.",
                fix="Record it, and synchronise its stream before asking.",
            )
        return mark.device_ns


def elapsed_ms(start: Event, end: Event) -> float:
    """Device time between two recordings, in milliseconds. Raises ``DeviceFault`` when they are the wrong way round."""
    first, last = start.timestamp_ns(), end.timestamp_ns()
    if last < first:
        raise DeviceFault("ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL", "The end event was recorded before the start event.")
    return (last - first) / 1e6
