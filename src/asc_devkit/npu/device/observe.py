"""Watching the runtime: every API call and every device task is published to whoever subscribed.

``subscribe`` an object with the two methods of ``Observer``. While nobody listens the runtime only reads ``active()``.
Observers are called on the thread that made the call or ran the task, so they must be quick and thread-safe; what they
raise is not caught.

Two clocks appear. *Host* times are measured on this machine. *Device* times are simulated: a task starts when it was
queued or when its stream is free, whichever is later, and takes what the performance model predicts. Both count
nanoseconds of ``time.monotonic_ns``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of the public API: ``name`` as the C interface spells it (``aclrtMemcpy``), measured host times.

    ``thread`` is the system's number of the thread (``threading.get_native_id``), here and in ``DeviceTask``.
    """

    name: str
    thread: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class DeviceTask:
    """One task of a stream.

    ``kind``: ``model`` (a whole execution), ``kernel`` (a single operator), ``memcpy``, ``memset``, ``event_record``,
    ``event_wait``, ``event_reset``, ``callback`` or ``image``. ``name`` is the model's file or the operator's name, ``op_type``
    the operator's type; ``task_id`` counts within the process; ``model_id`` is -1 outside models. ``queued_ns`` is host
    time. ``start_ns``/``end_ns`` are device times, ``simulated_us`` their length; ``host_start_ns``/``host_end_ns`` say when
    this CPU did the work. ``detail`` is what the performance model says: of a kernel its ``perf.OpTime``, of a model the
    tuple of them, whose ``start_us`` count from ``start_ns``; else None.
    """

    device: int
    stream: int
    kind: str
    name: str
    op_type: str
    task_id: int
    model_id: int
    thread: int
    queued_ns: int
    start_ns: int
    end_ns: int
    simulated_us: float
    host_start_ns: int
    host_end_ns: int
    detail: Any = None


class Observer(Protocol):
    """Who listens."""

    def api(self, call: ApiCall) -> None:
        """A call has returned."""

    def task(self, task: DeviceTask) -> None:
        """A task has finished."""


_lock = threading.Lock()
_observers: tuple[Observer, ...] = ()


def subscribe(observer: Observer) -> None:
    """Let ``observer`` hear everything from now on."""
    global _observers
    with _lock:
        if observer not in _observers:
            _observers = (*_observers, observer)


def unsubscribe(observer: Observer) -> None:
    """Stop telling ``observer``; calls and tasks under way may still reach it."""
    global _observers
    with _lock:
        _observers = tuple(o for o in _observers if o is not observer)


def active() -> bool:
    """True when somebody listens."""
    return bool(_observers)


def publish_api(call: ApiCall) -> None:
    """Tell all observers of a call."""
    for observer in _observers:
        observer.api(call)


def publish_task(task: DeviceTask) -> None:
    """Tell all observers of a task."""
    for observer in _observers:
        observer.task(task)
