"""Raw data of a running collection: lines of JSON that grow while the program runs, so that a killed one leaves them.

    host/data/asc_collection.json      what is collected, clocks, devices
    host/data/asc_api.slice_N          calls: [name, level, thread, start, end]
    host/data/asc_mark.slice_N         markers: [message, kind, thread, start, end, end thread, category, range]
    host/data/asc_kernel.slice_0       the performance model's rows, referred to by line number
    host/data/asc_plan.slice_0         operators of a model: lists of such numbers
    device_D/data/asc_task.slice_N     tasks and executions: [kind, stream, task, model, name, thread, queued, start, end,
                                       host start, host end, kernel or plan (-1: none)]

The vendor's binary raw formats are not written. Times are nanoseconds of the monotonic clock; ``clock_offset`` leads to
nanoseconds since 1970.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, Final

from asc_devkit.perf import OpTime
from asc_devkit.perf.counters import Counters, Operand

FACTS: Final = "asc_collection.json"
EXECUTION: Final = "model"
# A slice as large as the vendor's; readers take slices in turn.
SLICE_BYTES: Final = 64 << 20


class Slices:
    """One stream of lines, cut into files ``<name>.slice_<n>``."""

    def __init__(self, folder: Path, name: str, slice_bytes: int = SLICE_BYTES) -> None:
        self._folder, self._name, self._limit = folder, name, slice_bytes
        self._count = self.size = 0
        self._written = 0
        self._handle: IO[bytes] | None = None

    def write(self, rows: list[Any]) -> None:
        """Append rows and hand them to the system."""
        if not rows:
            return
        data = "".join([json.dumps(row) + "\n" for row in rows]).encode("ascii")
        if self._handle is None or self._written + len(data) > self._limit:
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = (self._folder / f"{self._name}.slice_{self._count}").open("ab")
            self._count += 1
            self._written = 0
        self._handle.write(data)
        self._handle.flush()
        self._written += len(data)
        self.size += len(data)

    def close(self) -> None:
        """Close the current slice."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def slices(folder: Path, name: str) -> list[Path]:
    """The slices of a stream in order."""
    found = [p for p in folder.glob(f"{name}.slice_*") if p.suffix.removeprefix(".slice_").isdecimal()]
    return sorted(found, key=lambda p: int(p.suffix.removeprefix(".slice_")))


def kernel_row(op: OpTime) -> list[Any]:
    """An ``OpTime`` as plain lists."""
    plain: list[Any] = [getattr(op, f.name) for f in fields(OpTime) if f.name != "counters"]
    counters: list[Any] | None = None
    if op.counters is not None:
        counters = [getattr(op.counters, f.name) for f in fields(Counters)]
        for index, f in enumerate(fields(Counters)):
            if f.name in ("inputs", "outputs"):
                counters[index] = [[o.shape, o.dtype, o.format, o.size_bytes, o.constant] for o in counters[index]]
    return [*plain, counters]


def kernel_of(row: list[Any]) -> OpTime:
    """The ``OpTime`` that ``kernel_row`` took apart. Raises ``TypeError``/``ValueError``/``IndexError`` for other rows."""
    *plain, counters = row
    names = [f.name for f in fields(OpTime) if f.name != "counters"]
    found: Counters | None = None
    if counters is not None:
        values = dict(zip((f.name for f in fields(Counters)), counters, strict=True))
        for side in ("inputs", "outputs"):
            values[side] = tuple(Operand(tuple(o[0]), o[1], o[2], o[3], o[4]) for o in values[side])
        values["origins"] = tuple(values["origins"])
        found = Counters(**values)
    return OpTime(**dict(zip(names, plain, strict=True)), counters=found)
