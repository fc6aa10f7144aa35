"""Reading raw data back: ``read(tree)`` gives the ``Collection`` that ``writers.export`` turns into files."""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from asc_devkit.errors import AscError, Problem
from asc_devkit.perf import OpTime
from asc_devkit.profiling.collect.spool import EXECUTION, FACTS, kernel_of, slices
from asc_devkit.profiling.records import NO_MODEL, ApiCall, Collection, Device, DeviceTask, Execution, HostSample, Mark

_LONGEST_LINE: Final = 1 << 20
_LARGEST_FACTS: Final = 1 << 20
_TASK_IDS: Final = 1 << 16  # task numbers are 16 bits wide on the device


def facts(tree: Path) -> dict[str, Any]:
    """What the collection says about itself. Raises ``AscError`` for folders that hold no raw data of this toolkit."""
    path = tree / "host" / "data" / FACTS
    try:
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST_FACTS else ""
        found = json.loads(text)
        if found["format"] != "asc-devkit/profile/1":
            raise ValueError("format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AscError(
            Problem(
                "ASC6002",
                f"{tree} holds no raw data that can be exported here.",
                cause="It was collected by another tool (the vendor's raw data are binary), or is damaged.",
                fix="Export it with the tool that collected it; the analysis commands read exported files of any origin.",
                nodes=(str(path),),
            )
        ) from error
    return dict(found)


def read(tree: Path) -> Collection:
    """The collection in ``tree``; lines that were cut off (a killed program) are left out."""
    about = facts(tree)
    try:
        offset, begin, end = int(about["clock_offset"]), int(about["begin_ns"]), int(about["end_ns"])
        devices = tuple(Device(int(n), str(soc)) for n, soc in about["devices"].items())
        reader = _Reader(tree, offset, [d.number for d in devices])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(tree, str(error)) from error
    last = max((item.end_ns for item in reader.items), default=0)
    return Collection(
        process=int(about.get("process", 0)),
        command=str(about.get("command", "")),
        begin_ns=begin + offset,
        end_ns=end + offset if end else max(last, begin + offset),
        settings={str(k): str(v) for k, v in dict(about.get("settings") or {}).items()},
        devices=devices,
        api_calls=_Again(reader.calls),
        device_tasks=_Again(reader.tasks),
        executions=tuple(reader.executions()),
        marks=tuple(reader.marks()),
        host_samples=tuple(reader.samples()),
        host=dict(about.get("host") or {}),
    )


class _Again:
    """An iterable that starts anew each time."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(self._make())


@dataclass(frozen=True, slots=True)
class _Item:
    """A line of a task file, times since 1970."""

    device: int
    kind: str
    stream: int
    model_id: int
    name: str
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int
    reference: int
    connection: int
    infer_id: int = 0


class _Reader:
    def __init__(self, tree: Path, offset: int, devices: Iterable[int]) -> None:
        self._tree, self._offset = tree, offset
        self._host = tree / "host" / "data"
        self.kernels = [kernel_of(row) for row in _rows(self._host, "asc_kernel")]
        self.plans = [
            [self.kernels[i] for i in row if 0 <= i < len(self.kernels)] for row in _rows(self._host, "asc_plan")
        ]
        starts: dict[int, list[int]] = {}
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, (_, _, thread, start, end) in enumerate(_rows(self._host, "asc_api"), 1):
            starts.setdefault(thread, []).append(end)
            spans.setdefault(thread, []).append((start, number))
        self._ends, self._spans = starts, spans
        self._used: set[int] = set()
        self.items = sorted(
            (item for number in devices for item in self._items(number)), key=lambda i: (i.device, i.start_ns)
        )
        self._count()

    def _items(self, device: int) -> Iterator[_Item]:
        for row in _rows(self._tree / f"device_{device}" / "data", "asc_task"):
            kind, stream, _, model, name, thread, queued, start, end, host_start, host_end, reference = row
            yield _Item(
                device=device,
                kind=str(kind),
                stream=int(stream),
                model_id=int(model) if model >= 0 else NO_MODEL,
                name=str(name),
                start_ns=int(start) + self._offset,
                end_ns=int(end) + self._offset,
                host_start_ns=int(host_start) + self._offset,
                host_end_ns=int(host_end) + self._offset,
                reference=int(reference),
                connection=self._connection(thread, queued),
            )

    def _connection(self, thread: int, queued: int) -> int:
        """Number of the call that queued a task: the one of its thread that was under way."""
        ends = self._ends.get(thread, [])
        at = bisect_left(ends, queued)
        if at == len(ends):
            return 0
        start, number = self._spans[thread][at]
        if start > queued:
            return 0
        self._used.add(number)
        return number

    def _count(self) -> None:
        """Number the executions of each model."""
        counts: dict[tuple[int, int], int] = {}
        for index, item in enumerate(self.items):
            if item.kind == EXECUTION:
                key = (item.device, item.model_id)
                counts[key] = counts.get(key, 0) + 1
                self.items[index] = replace(item, infer_id=counts[key])

    def calls(self) -> Iterator[ApiCall]:
        for number, (name, level, thread, start, end) in enumerate(_rows(self._host, "asc_api"), 1):
            connection = number if number in self._used else 0
            yield ApiCall(name, level, thread, start + self._offset, end + self._offset, connection)

    def marks(self) -> Iterator[Mark]:
        for message, kind, thread, start, end, end_thread, category, range_id in _rows(self._host, "asc_mark"):
            begin, finish = start + self._offset, end + self._offset
            yield Mark(message, kind, thread, begin, finish, end_thread, category, range_id)

    def samples(self) -> Iterator[HostSample]:
        for when, percent, resident in _rows(self._host, "asc_host"):
            yield HostSample(int(when), float(percent), int(resident))

    def executions(self) -> Iterator[Execution]:
        for i in self.items:
            if i.kind == EXECUTION:
                name = Path(i.name).stem or i.name
                times = (i.start_ns, i.end_ns, i.host_start_ns, i.host_end_ns)
                yield Execution(i.device, i.stream, i.model_id, name, i.infer_id, *times)

    def tasks(self) -> Iterator[DeviceTask]:
        """All tasks, device by device in order of time; executions as the operators they consist of."""
        for device in sorted({i.device for i in self.items}):
            numbers: dict[int, int] = {}
            waiting: list[tuple[int, int, DeviceTask]] = []
            serial = 0
            for item in (i for i in self.items if i.device == device):
                while waiting and waiting[0][0] <= item.start_ns:
                    yield _numbered(heapq.heappop(waiting)[2], numbers)
                for task in self._expand(item):
                    serial += 1
                    heapq.heappush(waiting, (task.start_ns, serial, task))
            while waiting:
                yield _numbered(heapq.heappop(waiting)[2], numbers)

    def _expand(self, item: _Item) -> Iterator[DeviceTask]:
        if item.kind != EXECUTION:
            op = self.kernels[item.reference] if 0 <= item.reference < len(self.kernels) else None
            if op is not None or item.end_ns >= item.start_ns:
                yield self._task(item, item.name, item.start_ns, item.end_ns, op)
            return
        if 0 <= item.reference < len(self.plans):
            for op in self.plans[item.reference]:
                if op.us <= 0:
                    continue  # no task on the device
                start = item.start_ns + round(op.start_us * 1e3)
                yield self._task(item, op.name, start, start + max(round(op.us * 1e3), 1), op)

    def _task(self, item: _Item, name: str, start: int, end: int, op: OpTime | None) -> DeviceTask:
        return DeviceTask(
            device=item.device,
            stream=item.stream,
            task_id=0,
            kind="kernel" if op is not None else item.kind,
            name=name,
            model_id=item.model_id,
            infer_id=item.infer_id,
            start_ns=start,
            end_ns=end,
            op=op,
            connection=item.connection,
        )


def _numbered(task: DeviceTask, numbers: dict[int, int]) -> DeviceTask:
    """The task with its number within the stream."""
    number = numbers.get(task.stream, 0)
    numbers[task.stream] = number + 1
    return replace(task, task_id=number % _TASK_IDS)


def _rows(folder: Path, name: str) -> Iterator[Any]:
    """Lines of a stream; one that is cut off ends its slice."""
    for path in slices(folder, name):
        with path.open("rb") as handle:
            while line := handle.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise _damaged(path, "a line is too long")
                if not line.endswith(b"\n"):
                    break
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> AscError:
    return AscError(
        Problem(
            "ASC6003",
            f"The raw data of {path} are damaged: {why}.",
            fix="Collect again.",
            nodes=(str(path),),
        )
    )
