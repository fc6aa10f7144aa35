"""The numbers of ``perf/data``: coefficients, vector work per operator, interval factors. Each row names its source."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


def _text(name: str) -> str:
    return resources.files("asc_devkit.perf").joinpath(f"data/{name}").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Coefficients:
    """Values of ``data/coefficients.json``; what each is and where it comes from stands there."""

    launch_base_us: float
    launch_per_block_us: float
    gap_us: float
    overlap_power: float
    cube_rows: float
    mmad_issue_cycles: float
    mte1_efficiency: float
    l2_efficiency: float
    memory_efficiency_cube: float
    memory_efficiency_vector: float
    l2_usable: float
    core_share: float
    fill_latency_us: float
    vector_efficiency: float
    row_cycles: float
    block_bytes: float
    transpose_base_us: float
    gather_row_us: float
    short_burst_bytes: float
    rnn_step_us: float
    aicpu_base_us: float
    aicpu_gbps: float
    fused_vector_speedup: float
    norm_head_us: float
    softmax_head_us: float
    reduce_head_us: float
    reduce_across_head_us: float
    short_row_elements: float
    unaligned_rows: Mapping[str, float]

    def row_penalty(self, row_bytes: int) -> float:
        """How much longer a matrix takes to load when its rows start off the alignment the copy engine likes."""
        for step, factor in self.unaligned_rows.items():
            if row_bytes % int(step) == 0:
                return factor
        return 1.0


@lru_cache(maxsize=16)
def coefficients(generation: str) -> Coefficients:
    """The coefficients of a chip family: its own value where the table has one, else the common one."""
    rows = json.loads(_text("coefficients.json"))
    return Coefficients(**{name: row.get(generation, row["value"]) for name, row in rows.items() if name != "note"})


@dataclass(frozen=True)
class VectorWork:
    """Vector cycles per 256 bytes at the width the operator computes in; ``wide`` = 16-bit floats go through fp32."""

    cycles: float
    wide: bool


@lru_cache(maxsize=1)
def _vector_table() -> dict[str, VectorWork]:
    rows = csv.DictReader(line for line in _text("vector_work.csv").splitlines() if not line.startswith("#"))
    return {r["op"]: VectorWork(float(r["cycles"]), r["wide"] == "1") for r in rows}


def vector_work(op_type: str) -> VectorWork:
    """Work of a GE operator type; two simple instructions for a type that is not listed."""
    table = _vector_table()
    return table.get(op_type) or table["*"]


@lru_cache(maxsize=1)
def _interval_table() -> dict[str, tuple[float, float]]:
    rows = csv.DictReader(line for line in _text("intervals.csv").splitlines() if not line.startswith("#"))
    return {r["class"]: (float(r["low"]), float(r["high"])) for r in rows}


def interval(cost: str) -> tuple[float, float]:
    """Factors (low, high) that turn a prediction of this cost class into its 80 % interval."""
    table = _interval_table()
    return table.get(cost) or table["*"]
