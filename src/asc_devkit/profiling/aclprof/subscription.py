"""Subscribing to a model: the times of its operators, simulated, stream into a pipe while it runs.

The program reads records of ``RECORD.size`` bytes from the pipe and asks the ``get_op_*`` functions what they say. The
layout is this toolkit's own, as it is private in the vendor's library.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import struct
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.perf import OpTime
from asc_devkit.profiling.aclprof.constants import METRICS, MOST_NAME, MOST_TYPE
from asc_devkit.profiling.aclprof.control import control
from asc_devkit.profiling.collect import hook

# magic, model, start ns, end ns, cube flops, lengths of type and name, type, name
RECORD: Final = struct.Struct(f"<IIQQQHH{MOST_TYPE}s{MOST_NAME}s")
_MAGIC: Final = 0x41534350
_MOST_WAITING: Final = 10_000  # executions not yet read; later ones are dropped, as the pipe would block the device


@dataclass
class _Reader:
    """One subscription: an observer that writes records into the pipe from a thread of its own."""

    model: int
    descriptor: int
    waiting: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(_MOST_WAITING))
    thread: threading.Thread | None = None

    def api(self, call: Any) -> None:
        """Calls are not reported."""

    def task(self, task: Any) -> None:
        if task.model_id == self.model and isinstance(task.detail, tuple):
            try:
                self.waiting.put_nowait(task)
            except queue.Full:
                return

    def begin(self) -> None:
        self.thread = threading.Thread(target=self._work, name="asc-subscription", daemon=True)
        self.thread.start()
        hook.listen(self, on=True)

    def end(self) -> None:
        hook.listen(self, on=False)
        self.waiting.put(None)
        if self.thread is not None:
            self.thread.join(timeout=5)

    def _work(self) -> None:
        while (task := self.waiting.get()) is not None:
            data = b"".join(record(task.model_id, task.start_ns, op) for op in task.detail if op.us > 0)
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self.descriptor, view) :]
            except OSError:
                return  # the program closed its pipe


def record(model: int, begin_ns: int, op: OpTime) -> bytes:
    """One operator of an execution that began at ``begin_ns``."""
    start = begin_ns + round(op.start_us * 1e3)
    kind, name = (text.encode("utf-8", "replace") for text in (op.type, op.name))
    kind, name = kind[: MOST_TYPE - 1], name[: MOST_NAME - 1]
    flops = round(op.counters.cube_flops) if op.counters else 0
    return RECORD.pack(_MAGIC, model, start, start + round(op.us * 1e3), flops, len(kind), len(name), kind, name)


@dataclass(frozen=True, slots=True)
class OpInfo:
    """What one record says. Times in ns of the simulated device clock."""

    model: int
    start_ns: int
    end_ns: int
    cube_flops: int
    type: str
    name: str


def info(address: int, length: int, index: int) -> OpInfo:
    """Record ``index`` of ``length`` bytes at ``address``. Faults: no such record, or no records there."""
    if not 0 <= index < count(address, length):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"There is no operator {index} in the data.")
    data = ctypes.string_at(address + index * RECORD.size, RECORD.size)
    magic, model, start, end, flops, kind, name, types, names = RECORD.unpack(data)
    if magic != _MAGIC:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", "These are not the records of a subscription.")
    return OpInfo(
        model, start, end, flops, types[:kind].decode("utf-8", "replace"), names[:name].decode("utf-8", "replace")
    )


def count(address: int, length: int) -> int:
    """How many records ``length`` bytes hold. Fault: no whole number of them."""
    if not address or length < RECORD.size or length % RECORD.size:
        raise DeviceFault(
            "ACL_ERROR_INVALID_PARAM",
            f"{length} bytes are no whole number of records.",
            fix="Read multiples of acl.prof.get_op_desc_size() bytes.",
        )
    return length // RECORD.size


class Subscriptions:
    """Configurations and open subscriptions of this process."""

    def __init__(self) -> None:
        self._configs: dict[int, int] = {}
        self._readers: dict[int, _Reader] = {}
        self._handles = itertools.count(0x7000_0000, 16)
        self._lock = threading.Lock()

    @property
    def any(self) -> bool:
        """True while a model is subscribed."""
        return bool(self._readers)

    def create_config(self, times: int, metrics: int, descriptor: int) -> int:
        """A configuration's handle; 0 when it cannot be."""
        if metrics not in METRICS or descriptor < 0 or times not in (0, 1):
            return 0
        with self._lock:
            handle = next(self._handles)
            self._configs[handle] = descriptor
        return handle

    def destroy_config(self, handle: int) -> None:
        """Forget a configuration. Fault: unknown."""
        with self._lock:
            if self._configs.pop(handle, None) is None:
                raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{handle!r} is not a subscription configuration.")

    def subscribe(self, model: int, handle: int) -> None:
        """Let the pipe receive the operators of a model. Faults: twice, unknown configuration, a profile is being written."""
        with self._lock:
            if control.output is not None:
                raise DeviceFault("ACL_ERROR_PROF_API_CONFLICT", "acl.prof.init was called; finalize it first.")
            descriptor = self._configs.get(handle)
            if descriptor is None:
                raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{handle!r} is not a subscription configuration.")
            if model in self._readers:
                raise DeviceFault("ACL_ERROR_PROF_REPEAT_SUBSCRIBE", f"Model {model} is subscribed already.")
            self._readers[model] = reader = _Reader(model, descriptor)
        reader.begin()

    def unsubscribe(self, model: int) -> None:
        """End a subscription; everything executed so far is in the pipe then. Fault: not subscribed."""
        with self._lock:
            reader = self._readers.pop(model, None)
        if reader is None:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Model {model} is not subscribed.")
        reader.end()


subscriptions = Subscriptions()
control.subscribed = lambda: subscriptions.any
