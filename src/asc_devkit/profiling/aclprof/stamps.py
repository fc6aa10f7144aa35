"""Markers and ranges that a program sets (msproftx): stamps, push/pop, ranges across threads, steps. Host times."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import Final

from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.profiling.aclprof.constants import STEP_END, STEP_START
from asc_devkit.profiling.aclprof.control import control

_LONGEST: Final = 4096  # characters of a message that are kept
_MOST_STAMPS: Final = 1_000_000  # programs that never destroy theirs must not eat all memory


@dataclass
class _Stamp:
    message: str = ""


class Stamps:
    """All stamps, open ranges and steps of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamps: dict[int, _Stamp] = {}
        self._ranges: dict[int, tuple[str, int, int]] = {}
        self._steps: dict[int, tuple[int, int | None]] = {}
        self._pushed = threading.local()
        self._handles = itertools.count(0x6000_0000, 16)
        self._numbers = itertools.count(1)

    def create(self) -> int:
        """A new stamp's handle; 0 when there are too many."""
        with self._lock:
            if len(self._stamps) >= _MOST_STAMPS:
                return 0
            handle = next(self._handles)
            self._stamps[handle] = _Stamp()
        return handle

    def destroy(self, handle: int) -> None:
        """Forget a stamp."""
        with self._lock:
            self._stamps.pop(handle, None)

    def set_message(self, handle: int, message: str, length: int) -> None:
        """What the stamp says; ``length`` characters of it."""
        self._get(handle).message = message[: min(max(length, 0), _LONGEST)]

    def mark(self, handle: int) -> None:
        """A point in time."""
        now = time.monotonic_ns()
        _tell(self._get(handle).message, "marker", now, now)

    def mark_message(self, message: str) -> None:
        """A point in time with its message at once (``mark_ex``)."""
        now = time.monotonic_ns()
        _tell(message[:_LONGEST], "marker_ex", now, now)

    def push(self, handle: int) -> None:
        """Begin a range of this thread."""
        stack: list[tuple[str, int]] = self._pushed.__dict__.setdefault("stack", [])
        stack.append((self._get(handle).message, time.monotonic_ns()))

    def pop(self) -> None:
        """End the range this thread began last. Fault: there is none."""
        stack: list[tuple[str, int]] = self._pushed.__dict__.setdefault("stack", [])
        if not stack:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", "This thread has pushed no stamp.", fix="Pair push and pop.")
        message, start = stack.pop()
        _tell(message, "push/pop", start, time.monotonic_ns())

    def range_start(self, handle: int) -> int:
        """Begin a range that any thread may end; its number."""
        message = self._get(handle).message
        with self._lock:
            number = next(self._numbers)
            self._ranges[number] = (message, time.monotonic_ns(), threading.get_native_id())
        return number

    def range_stop(self, number: int) -> None:
        """End a range. Fault: unknown number."""
        with self._lock:
            found = self._ranges.pop(number, None)
        if found is None:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Range {number} was not started.")
        message, start, thread = found
        _tell(message, "start/end", start, time.monotonic_ns(), number, thread)

    def create_step(self) -> int:
        """A new step counter's handle."""
        with self._lock:
            handle = next(self._handles)
            self._steps[handle] = (0, None)
        return handle

    def destroy_step(self, handle: int) -> None:
        """Forget a step counter."""
        with self._lock:
            self._steps.pop(handle, None)

    def step(self, handle: int, tag: int) -> None:
        """Begin or end a step (tags 0 and 1). Faults: unknown handle or tag, an end without a beginning."""
        with self._lock:
            if handle not in self._steps or tag not in (STEP_START, STEP_END):
                raise DeviceFault("ACL_ERROR_INVALID_PARAM", "Unknown step information or tag.")
            count, begun = self._steps[handle]
            now = time.monotonic_ns()
            if tag == STEP_START:
                self._steps[handle] = (count + 1, now)
                return
            if begun is None:
                raise DeviceFault(
                    "ACL_ERROR_INVALID_PARAM", "The step was not begun.", fix="Mark ACL_STEP_START first."
                )
            self._steps[handle] = (count, None)
        _tell(f"step {count}", "push/pop", begun, now)

    def _get(self, handle: int) -> _Stamp:
        found = self._stamps.get(handle)
        if found is None:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{handle!r} is not a stamp.")
        return found


def _tell(message: str, kind: str, start: int, end: int, number: int = 0, thread: int = 0) -> None:
    for collector in control.collectors():
        collector.mark(message, kind, start, end, range_id=number, thread=thread)


stamps = Stamps()
