"""Arithmetic that every row of an op_summary (or kernel_details) must obey, as measured files do (facts: calibration).

Used by the tests, and by whoever wants to know whether a file can be trusted. Tolerances: the given share, and half of
the last printed digit of what goes into a formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_DIGIT: Final = 0.0005
_BLOCKS: Final = (("Block Dim", "Mix Block Dim"), ("Block Num", "Mix Block Num"))


@dataclass(frozen=True, slots=True)
class Cores:
    """What the formulas need of a chip: clocks in MHz and counts of cores."""

    aic_mhz: float
    aic_count: int
    aiv_mhz: float
    aiv_count: int


@dataclass(frozen=True, slots=True)
class Violation:
    """A row that breaks a rule: what the file says and what the rule gives."""

    row: int
    rule: str
    found: float
    expected: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many times each rule was applied, and every violation."""

    applied: Mapping[str, int]
    violations: tuple[Violation, ...]

    @property
    def share(self) -> float:
        """Share of applications that hold."""
        total = sum(self.applied.values())
        return 1.0 - len(self.violations) / total if total else 1.0


def check_rows(rows: Iterable[Mapping[str, str]], cores: Cores, *, tolerance: float = 0.01) -> Verdict:
    """Apply the three formulas and the order of times to every row.

    - ``core_time``: aicore_time = cycles / MHz / blocks * ceil(blocks / cores), for cube, vector and unified cores
    - ``cube_utilization`` = 100 * cycles / (MHz * cores * duration), within 1 point
    - ``duration`` is not shorter than the time on the cores
    - ``ratio``: time of a pipe = its ratio * time on the core; ratios lie between 0 and 1
    """
    applied: dict[str, int] = {}
    violations: list[Violation] = []

    def judge(row: int, rule: str, found: float, expected: float, slack: float) -> None:
        applied[rule] = applied.get(rule, 0) + 1
        if not abs(found - expected) <= slack:
            violations.append(Violation(row, rule, found, expected))

    for number, row in enumerate(rows):
        duration = _number(row, "Task Duration(us)", "Duration(us)")
        blocks, mixed = _blocks(row)
        if duration is None or not blocks:
            continue
        for time, cycles, used, mhz, count in _sides(row, blocks, mixed, cores):
            expected = cycles / mhz / used * math.ceil(used / count)
            judge(number, "core_time", time, expected, tolerance * expected + _DIGIT)
            judge(number, "duration", min(duration - time, 0.0), 0.0, 2 * _DIGIT)
        stated = _number(row, "cube_utilization(%)")
        spent = _number(row, "aic_total_cycles")
        if stated is not None and spent is not None and duration > 0:
            expected = 100 * spent / (cores.aic_mhz * cores.aic_count * duration)
            judge(number, "cube_utilization", stated, expected, 1.0)
        for name, value in row.items():
            if name.endswith("_ratio") and (ratio := _float(value)) is not None:
                judge(number, "ratio", min(max(ratio, 0.0), 1.0), ratio, 0.0)
                whole = _number(row, "aiv_time(us)" if name.startswith("aiv_") else "aicore_time(us)")
                part = _number(row, name.removesuffix("_ratio") + "_time(us)")
                if whole is not None and part is not None:
                    judge(number, "pipe_time", part, ratio * whole, _DIGIT * (1 + whole + ratio) + tolerance * part)
    return Verdict(applied, tuple(violations))


def _sides(
    row: Mapping[str, str], blocks: float, mixed: float, cores: Cores
) -> list[tuple[float, float, float, float, int]]:
    """(time, cycles, blocks, MHz, cores) of each kind of core the kernel used."""
    found = []
    vector_only = row.get("Task Type", row.get("Accelerator Core", "")) == "AI_VECTOR_CORE"
    for time_name, cycle_names, used, mhz, count in (
        ("aicore_time(us)", ("aic_total_cycles", "total_cycles"), blocks, cores.aic_mhz, cores.aic_count),
        ("aiv_time(us)", ("aiv_total_cycles",), blocks if vector_only else mixed, cores.aiv_mhz, cores.aiv_count),
    ):
        time, cycles = _number(row, time_name), _number(row, *cycle_names)
        if time and cycles and used:
            found.append((time, cycles, used, mhz, count))
    return found


def _blocks(row: Mapping[str, str]) -> tuple[float, float]:
    for main, mix in _BLOCKS:
        if main in row:
            return _number(row, main) or 0.0, _number(row, mix) or 0.0
    return 0.0, 0.0


def _number(row: Mapping[str, str], *names: str) -> float | None:
    return next((v for name in names if (v := _float(row.get(name, ""))) is not None), None)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
