"""Callbacks: functions that a stream has run on a thread which asks for them with ``process_report``."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.npu.device.streams import Stream, Task


@dataclass(slots=True, eq=False)
class _Report:
    function: Callable[[Any], object]
    argument: Any
    done: threading.Event = field(default_factory=threading.Event)


class Reports:
    """The callbacks waiting for one thread, from all streams that thread subscribed to."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.streams: set[Stream] = set()
        self._waiting: deque[_Report] = deque()
        self._condition = threading.Condition()

    def process(self, timeout_s: float | None) -> None:
        """Run what waits; wait for a first callback up to ``timeout_s``.

        Raises ``DeviceFault`` (ACL_ERROR_RT_REPORT_TIMEOUT) when none came.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: self._waiting, timeout_s):
                raise DeviceFault("ACL_ERROR_RT_REPORT_TIMEOUT", "No callback came within the time.")
            found = list(self._waiting)
            self._waiting.clear()
        for report in found:
            try:
                report.function(report.argument)
            except Exception:
                sys.stderr.write("a stream callback raised:\n")
                traceback.print_exc()
            finally:
                report.done.set()

    def give(self, report: _Report) -> None:
        with self._condition:
            self._waiting.append(report)
            self._condition.notify_all()

    def release(self) -> None:
        """Let nobody wait for callbacks that will never run."""
        with self._condition:
            found = list(self._waiting)
            self._waiting.clear()
        for report in found:
            report.done.set()


class Subscriptions:
    """Which thread runs the callbacks of which stream."""

    def __init__(self) -> None:
        self._threads: dict[int, Reports] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def subscribe(self, thread: int, stream: Stream) -> None:
        with self._lock:
            if stream.subscriber is not None:
                raise DeviceFault("ACL_ERROR_RT_STREAM_SUBSCRIBE", "The stream has a subscriber already.")
            reports = self._threads.setdefault(thread, Reports(thread))
            reports.streams.add(stream)
            stream.subscriber = reports
            self._changed.notify_all()

    def unsubscribe(self, thread: int, stream: Stream) -> None:
        with self._lock:
            reports = self._threads.get(thread)
            if reports is None:
                raise DeviceFault("ACL_ERROR_RT_THREAD_SUBSCRIBE", f"Thread {thread} subscribed to no stream.")
            if stream.subscriber is not reports:
                raise DeviceFault("ACL_ERROR_RT_STREAM_SUBSCRIBE", "The thread did not subscribe to this stream.")
            stream.subscriber = None
            reports.streams.discard(stream)
            if not reports.streams:
                del self._threads[thread]
                reports.release()

    def drop(self, stream: Stream) -> None:
        """The stream goes away."""
        if stream.subscriber is not None:
            self.unsubscribe(stream.subscriber.thread, stream)

    def process(self, thread: int, timeout_s: float | None) -> None:
        """Run callbacks for ``thread``; a thread that is about to be subscribed may ask early."""
        with self._lock:
            if not self._changed.wait_for(lambda: thread in self._threads, timeout_s):
                raise DeviceFault("ACL_ERROR_RT_THREAD_SUBSCRIBE", f"Thread {thread} subscribed to no stream.")
            reports = self._threads[thread]
        reports.process(timeout_s)


def launch(function: Callable[[Any], object], argument: Any, block: bool, stream: Stream) -> None:
    """Queue a callback. ``block``: the stream waits until it has run."""
    reports: Reports | None = stream.subscriber
    if reports is None:
        raise DeviceFault(
            "ACL_ERROR_RT_STREAM_NO_CB_REG",
            "No thread runs the callbacks of this stream.",
            fix="Call acl.rt.subscribe_report first.",
        )
    report = _Report(function, argument)

    def hand_over() -> None:
        reports.give(report)
        if block:
            report.done.wait()

    stream.submit(Task("callback", getattr(function, "__name__", "callback"), hand_over))
