"""The devices of a process: contexts, the current context of each thread, handles, and what is left over at the end.

``ASC_SOC`` names the chip (default Ascend310P3), ``ASC_DEVICES`` how many there are (default 1), ``ASC_RUN_MODE`` whether
the program runs on a ``host`` beside the device (default) or on the ``device`` itself.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from asc_devkit import soc
from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.device.memory import HOST, Memory
from asc_devkit.npu.device.reports import Subscriptions
from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.npu.device.streams import Event, Stream

DEFAULT_SOC: Final = "Ascend310P3"
MAX_DEVICES: Final = 64
_FALLBACK_BYTES: Final = 8 << 30  # a chip whose memory no source gives, on no known board
_T = TypeVar("_T")


@dataclass(eq=False)
class Context:
    """What a thread works in: a device, a default stream, streams of its own."""

    device: int
    default_stream: Stream
    implicit: bool = False
    streams: dict[int, Stream] = field(default_factory=dict)
    site: str = ""


@dataclass(frozen=True)
class Leak:
    """Something that was made and not given back."""

    kind: str
    bytes: int
    site: str

    def __str__(self) -> str:
        size = f" of {self.bytes} bytes" if self.bytes else ""
        return f"{self.kind}{size} made at {self.site}"


class Handles:
    """Numbers that stand for objects in calls: never reused, so a stale one is recognised."""

    def __init__(self) -> None:
        self._numbers = itertools.count(0x1000, 0x10)
        self._objects: dict[int, Any] = {}

    def add(self, item: Any) -> int:
        number = next(self._numbers)
        self._objects[number] = item
        return number

    def get(self, number: int, kind: type[_T], status: str = "ACL_ERROR_INVALID_PARAM") -> _T:
        """The object. Raises ``DeviceFault`` with ``status`` when the number stands for nothing of that kind."""
        item = self._objects.get(number)
        if type(item) is not kind and not isinstance(item, kind):
            known = "nothing" if item is None else f"a {type(item).__name__}"
            raise DeviceFault(
                status,
                f"Handle {number:#x} is {known}, not a {kind.__name__}.",
                cause="It was destroyed before, or never created.",
            )
        return item

    def remove(self, number: int, kind: type[_T], status: str = "ACL_ERROR_INVALID_PARAM") -> _T:
        item = self.get(number, kind, status)
        self._objects.pop(number, None)
        return item

    def of(self, item: Any) -> int:
        """The number of an object, 0 when it has none."""
        return next((number for number, other in list(self._objects.items()) if other is item), 0)

    def items(self) -> list[Any]:
        return list(self._objects.values())


class Runtime:
    """Everything the process has on its devices. ``chip_given``: the user chose the chip, so models of others do not
    load."""

    def __init__(self, chip: str | None = None, devices: int | None = None, run_mode: str | None = None) -> None:
        named = chip or os.environ.get("ASC_SOC") or ""
        self.chip_given = bool(named)
        self.soc = soc.resolve(named or DEFAULT_SOC).soc
        self.device_count = _count() if devices is None else devices
        mode = run_mode or os.environ.get("ASC_RUN_MODE") or "host"
        if mode not in ("host", "device"):
            raise AscError(Problem("ASC4020", f"ASC_RUN_MODE={mode[:50]} is unknown.", fix="Use host or device."))
        self.run_on_device = mode == "device"
        room = _memory_bytes(self.soc)
        self.memory = Memory(dict.fromkeys(range(self.device_count), room), unified=self.run_on_device)
        self.handles = Handles()
        self.subscriptions = Subscriptions()
        self.leaks: list[Leak] = []
        self._numbers = itertools.count(1)
        self._defaults: dict[int, Context] = {}
        self._uses: dict[int, int] = {}
        self._local = threading.local()
        self._lock = threading.RLock()

    # Devices

    def set_device(self, device: int) -> None:
        """Make the default context of ``device`` current on this thread."""
        self._check_device(device)
        with self._lock:
            context = self._defaults.get(device)
            if context is None:
                context = Context(device, self._stream(device), implicit=True, site=call_site())
                self.handles.add(context)
                self._defaults[device] = context
                self._uses[device] = 0
            self._uses[device] += 1
        self._local.context = context

    def reset_device(self, device: int, force: bool = False) -> None:
        """Undo one ``set_device``; with the last one everything on the device goes."""
        self._check_device(device)
        with self._lock:
            if device not in self._defaults and not self._on(device):
                return
            self._uses[device] = 0 if force else max(0, self._uses.get(device, 0) - 1)
            if self._uses[device]:
                return
            contexts = self._on(device)
            self._defaults.pop(device, None)
        for context in contexts:
            self._close(context, force, left_over=not context.implicit)
        for block in self.memory.release_device(device):
            kind = "image memory" if block.family == "dvpp" else "device memory"
            self.leaks.append(Leak(kind, block.size, block.site))
        if getattr(self._local, "context", None) in contexts:
            self._local.context = None

    def _on(self, device: int) -> list[Context]:
        return [c for c in self.handles.items() if isinstance(c, Context) and c.device == device]

    def _check_device(self, device: int) -> None:
        if not 0 <= device < self.device_count:
            raise DeviceFault(
                "ACL_ERROR_RT_INVALID_DEVICEID",
                f"There is no device {device}.",
                fix=f"Devices are 0 to {self.device_count - 1}; ASC_DEVICES sets how many there are.",
            )

    # Contexts

    def create_context(self, device: int) -> int:
        """A new context, current on this thread; its handle."""
        self._check_device(device)
        context = Context(device, self._stream(device), site=call_site())
        number = self.handles.add(context)
        self._local.context = context
        return number

    def destroy_context(self, number: int) -> None:
        context = self.handles.get(number, Context, "ACL_ERROR_RT_CONTEXT_NULL")
        if context.implicit:
            raise DeviceFault(
                "ACL_ERROR_INVALID_PARAM",
                "A default context is destroyed by resetting its device.",
                fix="Call acl.rt.reset_device.",
            )
        self._close(context, False, left_over=False)
        if getattr(self._local, "context", None) is context:
            self._local.context = self._defaults.get(context.device)

    def set_context(self, number: int) -> None:
        self._local.context = self.handles.get(number, Context, "ACL_ERROR_RT_CONTEXT_NULL")

    def context_handle(self) -> int:
        """Handle of this thread's context."""
        return self.handles.of(self.context())

    def context(self) -> Context:
        """This thread's context. Raises ``DeviceFault`` (107002) when it has none."""
        context: Context | None = getattr(self._local, "context", None)
        if context is None or context.default_stream is None:
            raise DeviceFault(
                "ACL_ERROR_RT_CONTEXT_NULL",
                "This thread has no context.",
                cause="acl.rt.set_device or acl.rt.set_context was not called on this thread, or the context is gone.",
                fix="Call acl.rt.set_context on each thread that uses the device.",
            )
        return context

    @property
    def device(self) -> int:
        """Device of this thread's context."""
        return self.context().device

    def _close(self, context: Context, force: bool, left_over: bool) -> None:
        number = self.handles.of(context)
        if left_over:
            self.leaks.append(Leak("context", 0, context.site))
        for handle, stream in list(context.streams.items()):
            self.leaks.append(Leak("stream", 0, stream.site))
            self._end(stream, force)
            if self.handles.of(stream):
                self.handles.remove(handle, Stream)
        self._end(context.default_stream, force)
        context.streams.clear()
        if number:
            self.handles.remove(number, Context)

    # Streams and events

    def create_stream(self) -> int:
        context = self.context()
        stream = self._stream(context.device)
        number = self.handles.add(stream)
        context.streams[number] = stream
        return number

    def destroy_stream(self, number: int, force: bool = False) -> None:
        """Finish (or with ``force`` drop) what is queued, then remove the stream."""
        stream = self.handles.get(number, Stream, "ACL_ERROR_RT_STREAM_CONTEXT")
        self._end(stream, force)
        self.handles.remove(number, Stream, "ACL_ERROR_RT_STREAM_CONTEXT")
        for context in self._on(stream.device):
            context.streams.pop(number, None)

    def stream(self, number: int) -> Stream:
        """The stream of a handle; 0 is the context's default stream."""
        if number == 0:
            return self.context().default_stream
        return self.handles.get(number, Stream, "ACL_ERROR_RT_STREAM_CONTEXT")

    def streams(self, device: int) -> list[Stream]:
        """All streams of a device."""
        contexts = self._on(device)
        return [s for c in contexts for s in (c.default_stream, *list(c.streams.values()))]

    def event(self, number: int) -> Event:
        return self.handles.get(number, Event, "ACL_ERROR_RT_INVALID_HANDLE")

    def next_stream_number(self) -> int:
        """A number for a stream the runtime uses inside (each loaded model has one)."""
        return next(self._numbers)

    def _stream(self, device: int) -> Stream:
        return Stream(device, next(self._numbers))

    def _end(self, stream: Stream, force: bool) -> None:
        if force:
            self.subscriptions.drop(stream)
        stream.close(force)
        self.subscriptions.drop(stream)

    # The end

    def leftovers(self) -> list[Leak]:
        """What exists now or was swept away by a reset without having been given back."""
        found = list(self.leaks)
        for block in self.memory.live():
            kind = (
                "host memory" if block.device == HOST else "device memory" if block.family == "rt" else "image memory"
            )
            found.append(Leak(kind, block.size, block.site))
        for item in self.handles.items():
            if isinstance(item, Context) and item.implicit:
                found.append(Leak(f"device {item.device} not reset", 0, item.site))
            else:
                found.append(Leak(type(item).__name__.lower(), 0, getattr(item, "site", "unknown")))
        return found


def _count() -> int:
    text = os.environ.get("ASC_DEVICES") or "1"
    if not text.isdecimal() or not 1 <= int(text) <= MAX_DEVICES:
        raise AscError(
            Problem("ASC4021", f"ASC_DEVICES={text[:50]} is no number of devices.", fix=f"Use 1 to {MAX_DEVICES}.")
        )
    return int(text)


def _memory_bytes(chip: soc.Soc) -> int:
    if chip.memory_bytes is not None:
        return chip.memory_bytes
    return max((board.bytes_per_chip for board in soc.boards(chip.generation)), default=_FALLBACK_BYTES)


_current: Runtime | None = None
_current_lock = threading.Lock()


def current() -> Runtime:
    """The runtime of this process, made from the environment when first asked for."""
    global _current
    if _current is None:
        with _current_lock:
            if _current is None:
                _current = Runtime()
    return _current


def renew() -> None:
    """Forget everything: the next call of ``current`` starts afresh (after finalize, and in a forked child, whose
    parent's contexts and threads it does not have)."""
    global _current
    _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew)
