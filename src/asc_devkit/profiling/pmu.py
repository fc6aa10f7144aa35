"""Performance counters of one simulated kernel, derived from the cost model; used by every writer that shows metrics.

Everything here is simulated. Totals obey the arithmetic of the vendor's files (facts: calibration): ``aicore_time`` is
``cycles / MHz / blocks * waves`` and ``cube_utilization`` is ``100 * cycles / (MHz * cores * duration)``. Bandwidths are
per core (the vendor divides by the cycles of all blocks), in GB/s. Pipes overlap, so ratios do not add up to 1.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Final

from asc_devkit.ge.desc import Engine
from asc_devkit.perf import OpTime, rates
from asc_devkit.perf.counters import Counters
from asc_devkit.perf.rates import Rates
from asc_devkit.profiling.schema.metrics import core_layout, metric_columns
from asc_devkit.soc import Soc

Value = float | int | str
NOT_MODELLED: Final = "N/A"
# The vendor counts L2 requests in lines of this many bytes.
_LINE: Final = 128
_CUBE_STEP: Final = 16  # rows, columns and fp16 depth of one cube step


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Time on one kind of core: total cycles over all blocks, and microseconds as the vendor's formula gives them."""

    cycles: int
    us: float
    blocks: int
    mhz: float


@dataclass(frozen=True, slots=True)
class Pmu:
    """The counters of one kernel: where it ran (``task_type``), on how many blocks, and every metric by column name."""

    task_type: str
    block_num: int
    mix_block_num: int
    aic: CoreTime | None
    aiv: CoreTime | None
    values: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Median:
    scalar: float
    icache: float


@lru_cache(maxsize=1)
def _medians() -> dict[tuple[str, str], _Median]:
    text = resources.files("asc_devkit.profiling").joinpath("data/pmu_medians.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {(r["core"], r["cost"]): _Median(float(r["scalar_ratio"]), float(r["icache_miss_rate"])) for r in rows}


def _median(core: str, cost: str) -> _Median:
    table = _medians()
    return table.get((core, cost)) or table[core, "*"]


def task_type(op: OpTime, soc: Soc) -> str:
    """The vendor's name for the engine that runs ``op``: AI_CORE, AI_VECTOR_CORE, MIX_AIC or AI_CPU."""
    if op.engine == Engine.AICPU.value:
        return "AI_CPU"
    if core_layout(soc) == "unified":
        return "AI_CORE"
    if op.engine == Engine.CUBE.value:
        return "MIX_AIC" if op.vector_us > 0 else "AI_CORE"
    return "AI_VECTOR_CORE"


def measure(op: OpTime, chip: Rates, duration_ns: int) -> Pmu:
    """Counters of one run of ``op`` that took ``duration_ns`` (its prediction, rounded) on ``chip``."""
    kind = task_type(op, chip.soc)
    if kind == "AI_CPU":
        return Pmu(kind, 0, 0, None, None)
    blocks = max(op.block_dim, 1)
    # Starting and ending a kernel takes no core time; a core is busy for at least one cycle.
    core_us = max(duration_ns / 1e3 - op.launch_us, 1.0 / chip.cube_mhz)
    if core_layout(chip.soc) == "unified":
        return _unified(op, chip, kind, blocks, core_us)
    aic = _time(core_us, chip.cube_mhz, blocks, chip.cores) if kind != "AI_VECTOR_CORE" else None
    mix = 0
    aiv = None
    if kind == "AI_VECTOR_CORE":
        aiv = _time(core_us, chip.vector_mhz, blocks, chip.vectors)
    elif kind == "MIX_AIC":
        mix = min(2 * blocks, chip.vectors)
        aiv = _time(core_us, chip.vector_mhz, mix, chip.vectors)
    values = {**_cube_side(op, chip, aic), **_vector_side(op, chip, aiv, fed=kind == "MIX_AIC")}
    used = aic.cycles if aic else 0
    values["cube_utilization(%)"] = 100.0 * used / (chip.cube_mhz * chip.cores * duration_ns / 1e3)
    return Pmu(kind, blocks, mix, aic, aiv, values)


def select(pmu: Pmu, group: str, soc: Soc) -> list[Value]:
    """The values of one metric group in the order of its columns."""
    names = metric_columns(group, core_layout(soc))
    missing: Value = NOT_MODELLED if pmu.task_type == "AI_CPU" else 0
    return [pmu.values.get(name, missing) for name in names]


def _time(core_us: float, mhz: float, blocks: int, cores: int) -> CoreTime:
    waves = -(-blocks // cores)
    cycles = max(round(core_us * mhz * blocks / waves), 1)
    return CoreTime(cycles, cycles / mhz / blocks * waves, blocks, mhz)


def _feed(counters: Counters) -> tuple[float, float]:
    """Busy time of the pipes that load and of those that store: the shared path, divided by bytes."""
    busy = max(counters.memory_us, counters.l2_us)
    moved = counters.core_read + counters.core_written
    share = counters.core_read / moved if moved else 0.0
    return busy * share, busy * (1.0 - share)


def _ratio(busy_us: float, total_us: float) -> float:
    return min(busy_us / total_us, 1.0) if total_us > 0 else 0.0


def _pipes(prefix: str, shares: dict[str, float], total_us: float) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, ratio in shares.items():
        values[f"{prefix}{name}_time(us)"] = ratio * total_us
        values[f"{prefix}{name}_ratio"] = ratio
    return values


def _cube_side(op: OpTime, chip: Rates, core: CoreTime | None) -> dict[str, Value]:
    """Columns of the cube core; zeros when the kernel does not use it."""
    if core is None:
        return {"aicore_time(us)": 0.0, "aic_total_cycles": 0}
    found = op.counters or Counters()
    loads, stores = _feed(found)
    median = _median("aic", op.cost)
    shares = {
        "mac": _ratio(op.cube_us, core.us),
        "scalar": median.scalar,
        "mte1": _ratio(found.mte1_us, core.us),
        "mte2": _ratio(loads, core.us),
        "fixpipe": _ratio(stores, core.us),
    }
    values: dict[str, Value] = {"aicore_time(us)": core.us, "aic_total_cycles": core.cycles}
    values.update(_pipes("aic_", shares, core.us))
    values["aic_icache_miss_rate"] = median.icache
    values.update(_cube_arithmetic("aic_", op, shares["mac"]))
    values.update(_main_memory("aic_", found, core))
    values.update(_cube_buffers("aic_", op, chip, core))
    values.update(_accesses("aic_", op, cube=True, vector=False))
    return values


def _vector_side(op: OpTime, chip: Rates, core: CoreTime | None, *, fed: bool) -> dict[str, Value]:
    """Columns of the vector core; ``fed``: the cube hands its results over, memory is read by the cube side."""
    if core is None:
        return {"aiv_time(us)": 0.0, "aiv_total_cycles": 0}
    found = op.counters or Counters()
    loads, stores = _feed(found)
    median = _median("aiv", op.cost)
    shares = {
        "vec": _ratio(op.vector_us, core.us),
        "scalar": median.scalar,
        "mte2": _ratio(stores if fed else loads, core.us),
        "mte3": _ratio(stores, core.us),
    }
    values: dict[str, Value] = {"aiv_time(us)": core.us, "aiv_total_cycles": core.cycles}
    values.update(_pipes("aiv_", shares, core.us))
    values["aiv_icache_miss_rate"] = median.icache
    values.update(_vector_arithmetic("aiv_", op, shares["vec"]))
    if not fed:
        values.update(_main_memory("aiv_", found, core))
    values.update(_vector_buffers("aiv_", op, chip, core, fed=fed))
    values.update(_accesses("aiv_", op, cube=False, vector=not fed))
    return values


def _unified(op: OpTime, chip: Rates, kind: str, blocks: int, core_us: float) -> Pmu:
    """One core that has both a cube and a vector unit."""
    core = _time(core_us, chip.cube_mhz, blocks, chip.cores)
    found = op.counters or Counters()
    loads, stores = _feed(found)
    median = _median("aic" if op.cube_us else "aiv", op.cost)
    shares = {
        "vec": _ratio(op.vector_us, core.us),
        "mac": _ratio(op.cube_us, core.us),
        "scalar": median.scalar,
        "mte1": _ratio(found.mte1_us, core.us),
        "mte2": _ratio(loads, core.us),
        "mte3": _ratio(stores, core.us),
    }
    values: dict[str, Value] = {"aicore_time(us)": core.us, "total_cycles": core.cycles}
    values.update(_pipes("", shares, core.us))
    values.update(_pipes("", {f"{name}_exe": ratio for name, ratio in shares.items()}, core.us))
    values.update(_pipes("", {"fixpipe_exe": 0.0}, core.us))  # results leave through the vector unit
    values["icache_miss_rate"] = median.icache
    compute = max(shares["mac"], shares["vec"])
    values["memory_bound"] = shares["mte2"] / compute if compute else 0.0
    values.update(_cube_arithmetic("", op, shares["mac"]))
    values.update(_vector_arithmetic("", op, shares["vec"]))
    values.update(_main_memory("", found, core))
    values.update(_cube_buffers("", op, chip, core))
    values.update(_vector_buffers("", op, chip, core, fed=False))
    values.update(_accesses("", op, cube=op.cube_us > 0, vector=op.cube_us == 0))
    return Pmu(kind, blocks, 0, core, None, values)


def _main_dtype(op: OpTime) -> str:
    found = op.counters
    return found.inputs[0].dtype if found is not None and found.inputs else "FLOAT16"


def _cube_arithmetic(prefix: str, op: OpTime, mac: float) -> dict[str, Value]:
    integer = _main_dtype(op) in ("INT8", "UINT8", "INT4")
    return {
        f"{prefix}mac_fp16_ratio": 0.0 if integer else mac,
        f"{prefix}mac_int8_ratio": mac if integer else 0.0,
        f"{prefix}cube_fops": round(op.counters.cube_flops) if op.counters else 0,
    }


def _vector_arithmetic(prefix: str, op: OpTime, vec: float) -> dict[str, Value]:
    kind = {"FLOAT": "fp32", "FLOAT16": "fp16", "INT32": "int32"}.get(_main_dtype(op), "misc")
    values: dict[str, Value] = {f"{prefix}vec_{k}_ratio": 0.0 for k in ("fp32", "fp16", "int32", "misc")}
    values[f"{prefix}vec_{kind}_ratio"] = vec
    cube = op.counters.cube_flops if op.counters else 0.0
    values[f"{prefix}vector_fops"] = round(max(op.flops - cube, 0.0))
    # Conflicts between banks depend on addresses, which the model does not have.
    values.update({f"{prefix}vec_{k}_cflt_ratio": NOT_MODELLED for k in ("bankgroup", "bank", "resc")})
    return values


def _bandwidth(size: float, core: CoreTime) -> float:
    """GB/s of one core: ``size`` bytes over the cycles of all blocks."""
    return size / (core.cycles / core.mhz) / 1e3


def _main_memory(prefix: str, found: Counters, core: CoreTime) -> dict[str, Value]:
    lines = {
        "write_cache_hit": min(found.core_written, found.l2_hit),
        "write_cache_miss_allocate": max(found.core_written - min(found.core_written, found.l2_hit), 0.0),
        "r0_read_cache_hit": max(found.core_read - found.memory_read, 0.0),
        "r0_read_cache_miss_allocate": min(found.memory_read, found.core_read),
    }
    values: dict[str, Value] = {f"{prefix}{name}": round(size / _LINE) for name, size in lines.items()}
    values.update({f"{prefix}r1_read_cache_hit": 0, f"{prefix}r1_read_cache_miss_allocate": 0})
    for name, size in (
        ("main_mem_read", found.memory_read),
        ("main_mem_write", found.memory_written),
        ("l2_read", found.core_read),
        ("l2_write", found.core_written),
    ):
        values[f"{prefix}{name}_bw(GB/s)"] = _bandwidth(size, core)
    return values


def buffer_bytes(op: OpTime, chip: Rates) -> dict[str, float]:
    """Bytes that go through each on-chip buffer in one run of ``op``, over all cores."""
    found = op.counters or Counters()
    blocks = max(op.block_dim, 1)
    steps = op.cube_us * chip.cube_mhz * blocks if op.cube_us else 0.0
    lane = _CUBE_STEP * _CUBE_STEP
    registers = op.vector_us * chip.vector_mhz * blocks * chip.vector_bpc
    cube = op.cube_us > 0
    return {
        "l1_write": found.core_read if cube else 0.0,
        "l1_read": found.l0a + found.l0b,
        "l0a_write": found.l0a,
        "l0b_write": found.l0b,
        # Every step of the cube takes one fp16 block of each side and adds to one fp32 block.
        "l0a_read": steps * lane * 2.0,
        "l0b_read": steps * lane * 2.0,
        "l0c_write_cube": steps * lane * 4.0,
        "l0c_read_cube": steps * lane * 4.0,
        "l0c_read": found.core_written if cube else 0.0,
        "ub_write": registers + (0.0 if cube else found.core_read),
        "ub_read": registers + (0.0 if cube else found.core_written),
        "ub_vector": registers,
    }


def _cube_buffers(prefix: str, op: OpTime, chip: Rates, core: CoreTime) -> dict[str, Value]:
    size = buffer_bytes(op, chip)
    columns = {
        "l1_read_bw": "l1_read",
        "l1_write_bw": "l1_write",
        "l0a_read_bw": "l0a_read",
        "l0a_write_bw": "l0a_write",
        "l0b_read_bw": "l0b_read",
        "l0b_write_bw": "l0b_write",
        "l0c_read_bw": "l0c_read",
        "l0c_read_bw_cube": "l0c_read_cube",
        "l0c_write_bw_cube": "l0c_write_cube",
    }
    values: dict[str, Value] = {f"{prefix}{c}(GB/s)": _bandwidth(size[key], core) for c, key in columns.items()}
    values[f"{prefix}l0c_write_bw(GB/s)"] = 0.0  # the vector unit writes nothing to L0C
    return values


def _vector_buffers(prefix: str, op: OpTime, chip: Rates, core: CoreTime, *, fed: bool) -> dict[str, Value]:
    size = buffer_bytes(op, chip)
    handed = (op.counters or Counters()).core_written if fed else 0.0
    values: dict[str, Value] = {
        f"{prefix}ub_read_bw(GB/s)": _bandwidth(size["ub_read"] + handed, core),
        f"{prefix}ub_write_bw(GB/s)": _bandwidth(size["ub_write"] + handed, core),
    }
    for way in ("read", "write"):
        values[f"{prefix}ub_{way}_bw_vector(GB/s)"] = _bandwidth(size["ub_vector"], core)
        values[f"{prefix}ub_{way}_bw_scalar(GB/s)"] = NOT_MODELLED
    return values


def _accesses(prefix: str, op: OpTime, *, cube: bool, vector: bool) -> dict[str, Value]:
    """Columns of MemoryAccess: KB by path."""
    found = op.counters or Counters()
    sizes = {
        "read_main_memory": found.memory_read if cube or vector else 0.0,
        "write_main_memory": found.memory_written if cube or vector else 0.0,
        "GM_to_L1": found.core_read if cube else 0.0,
        "L0C_to_L1": 0.0,
        "L0C_to_GM": found.core_written if cube else 0.0,
        "GM_to_UB": found.core_read if vector else 0.0,
        "UB_to_GM": found.core_written if vector else 0.0,
    }
    return {f"{prefix}{name}_datas(KB)": size / 1024 for name, size in sizes.items()}


def chip(soc: str) -> Rates:
    """The figures counters are computed with."""
    return rates.of(soc)
