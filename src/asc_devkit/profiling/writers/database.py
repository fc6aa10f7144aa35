"""``msprof_*.db``: the same data as SQLite tables (schema: data/database.json). Units there: ns, bytes, bytes/s, MHz."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from asc_devkit import __version__
from asc_devkit.perf.counters import Counters
from asc_devkit.profiling.pmu import Pmu, select
from asc_devkit.profiling.records import ApiCall, DeviceTask, Mark
from asc_devkit.profiling.schema import enum_tables, metric_columns, table_columns, tables
from asc_devkit.profiling.schema.metrics import core_layout
from asc_devkit.profiling.writers.context import Context
from asc_devkit.profiling.writers.operators import operand_texts, operator_state, task_kind

VERSION: Final = "1.0.2"
_BATCH: Final = 20_000
_NONE: Final = 4294967295
# Empty tables that readers look into without asking whether they exist.
_ALWAYS: Final = (
    "MSTX_EVENTS",
    "COMMUNICATION_OP",
    "COMMUNICATION_TASK_INFO",
    "COMPUTE_TASK_INFO",
    "TASK",
    "CANN_API",
    "STRING_IDS",
)


def pmu_name(column: str) -> str:
    """The name of a metric in the database: without unit, whole times as ``*_total_time``."""
    name = column.partition("(")[0]
    return {"aicore_time": "aic_total_time", "aiv_time": "aiv_total_time"}.get(name, name)


def pmu_value(column: str, value: float) -> float:
    """The value of a metric in the database's units."""
    if column.endswith("(us)"):
        return value * 1e3
    return value * 1e9 if column.endswith("(GB/s)") else value


class Database:
    """Fills the tables in batches; ``close`` names the file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._path = context.folder / ".msprof_db.part"
        self._path.unlink(missing_ok=True)
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("BEGIN")
        self._strings: dict[str, int] = {}
        self._waiting: dict[str, list[tuple[Any, ...]]] = {}
        self._made: set[str] = set()
        self._tasks = 0
        self._kernels: dict[int, tuple[int, ...]] = {}
        self._api_types = {name: number for number, name in enum_tables()["ENUM_API_TYPE"].items()}
        self._group = context.metrics
        self._metrics = {
            layout: [(self._string(pmu_name(c)), c) for c in metric_columns(self._group, layout)] if self._group else []
            for layout in ("split", "unified")
        }
        self._facts()

    def call(self, call: ApiCall) -> None:
        """A call on the host."""
        self.add(
            "CANN_API",
            (
                call.start_ns,
                call.end_ns,
                self._api_types.get(call.level, self._api_types["acl"]),
                self._global(call.thread),
                call.connection,
                self._string(call.name),
            ),
        )

    def task(self, task: DeviceTask, counters: Pmu | None) -> None:
        """A task, and what is known of its kernel."""
        number, self._tasks = self._tasks, self._tasks + 1
        kind = counters.task_type if counters is not None else task_kind(task, counters)
        self.add(
            "TASK",
            (
                task.start_ns,
                task.end_ns,
                task.device,
                task.connection or _NONE,
                number,
                self._context.collection.process,
                self._string(kind),
                _NONE,
                task.stream,
                task.task_id,
                task.model_id,
            ),
        )
        if counters is None or task.op is None or not self._context.detailed:
            return
        fixed = self._kernels.get(id(task.op))
        if fixed is None:
            fixed = self._kernels[id(task.op)] = self._fixed(task)
        blocks = (counters.block_num, counters.mix_block_num, self._string(counters.task_type))
        self.add("COMPUTE_TASK_INFO", (self._string(task.name), number, *blocks, *fixed))
        soc = self._context.chips[task.device].soc
        if self._group and counters.task_type != "AI_CPU":
            values = select(counters, self._group, soc)
            for (name, column), value in zip(self._metrics[core_layout(soc)], values, strict=True):
                if not isinstance(value, str):
                    self.add("TASK_PMU_INFO", (number, name, pmu_value(column, value)))

    def mark(self, mark: Mark) -> None:
        """A marker or range of the program."""
        kinds = {name: number for number, name in enum_tables()["ENUM_MSTX_EVENT_TYPE"].items()}
        self.add(
            "MSTX_EVENTS",
            (
                mark.start_ns,
                mark.end_ns,
                kinds.get(mark.kind, 0),
                mark.range_id,
                mark.category,
                self._string(mark.message),
                self._global(mark.thread),
                self._global(mark.end_thread or mark.thread),
                _NONE,
                _NONE,
            ),
        )

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """One row of any table, in the order of its columns."""
        rows = self._waiting.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _BATCH:
            self._flush(table)

    def string(self, value: str) -> int:
        """The number that stands for a text."""
        return self._string(value)

    def close(self) -> Path:
        """Write what is left and give the file its name."""
        for table in _ALWAYS:
            self._make(table)
        self._waiting["STRING_IDS"] = [(number, value) for value, number in self._strings.items()]
        for table in list(self._waiting):
            self._flush(table)
        self._connection.execute("CREATE INDEX TaskIndex ON TASK(startNs, globalTaskId)")
        self._connection.execute("COMMIT")
        self._connection.close()
        return self._path.rename(self._context.folder / f"msprof_{self._context.stamp}.db")

    def _facts(self) -> None:
        collection = self._context.collection
        for name, content in enum_tables().items():
            self._connection.execute(f"CREATE TABLE {name} (id INTEGER, name TEXT)")
            self._connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", content.items())
        major, minor, micro = VERSION.split(".")
        for row in (
            ("SCHEMA_VERSION", VERSION),
            ("SCHEMA_VERSION_MAJOR", major),
            ("SCHEMA_VERSION_MINOR", minor),
            ("SCHEMA_VERSION_MICRO", micro),
            ("ASC_DEVKIT_VERSION", __version__),
            ("DEVICE_TIMES", "simulated"),
            ("HOST_TIMES", "measured"),
        ):
            self.add("META_DATA", row)
        self.add("SESSION_TIME_INFO", (collection.begin_ns, collection.end_ns))
        for device in collection.devices:
            self.add("NPU_INFO", (device.number, device.soc))
            self.add("RANK_DEVICE_MAP", (device.number, device.number))
            self.add(
                "AICORE_FREQ", (device.number, collection.begin_ns, round(self._context.chips[device.number].cube_mhz))
            )
        self.add("HOST_INFO", (str(collection.host.get("uid", "")), str(collection.host.get("name", ""))))

    def _fixed(self, task: DeviceTask) -> tuple[int, ...]:
        assert task.op is not None
        found = task.op.counters or Counters()
        texts = []
        for operands in (found.inputs, found.outputs):
            shapes, types, formats = operand_texts(operands)
            texts += [formats, types, shapes]
        state = operator_state(task.op.counters)
        return tuple(self._string(t) for t in (task.op.type, *texts, "", state, "NO"))

    def _string(self, value: str) -> int:
        return self._strings.setdefault(value, len(self._strings))

    def _global(self, thread: int) -> int:
        return (self._context.collection.process << 32) | (thread & 0xFFFFFFFF)

    def _make(self, table: str) -> None:
        if table not in self._made:
            self._made.add(table)
            columns = ", ".join(f"{name} {kind}" for name, kind in tables()[table].items())
            self._connection.execute(f"CREATE TABLE {table} ({columns})")

    def _flush(self, table: str) -> None:
        self._make(table)
        places = ", ".join("?" * len(table_columns(table)))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", self._waiting.pop(table, []))
