"""Cost of a blocked matrix product on the cube: search over base tiles, then waves over cores.

A tile is ``m x n`` of the result, accumulated in L0C over all of rates.k. Candidates obey L0A, L0B (both double-buffered),
L0C and L1. Per candidate: cube time of the busiest core, time of L1 -> L0 copies (MTE1), traffic from L2 and how it
divides over cores. The best candidate is the one whose overlapped total is smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from asc_devkit.perf.rates import Rates, of

Array = np.ndarray[Any, Any]

_SIDES: Final = (16, 32, 48, 64, 96, 128, 192, 256, 320, 512)
_SPLITS: Final = (1, 2, 4, 8, 16)
BLOCK: Final = 16  # rows and columns of one cube step


@dataclass(frozen=True)
class Gemm:
    """``batch`` products of [m, k] by [k, n]. ``a_bytes``/``b_bytes`` are what one product reads of each operand in
    memory: less than ``m * k`` elements when the left side is expanded on chip (convolution windows). Penalties
    multiply their load time (rows off the copy alignment)."""

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "fp16"
    a_bytes: float = 0.0
    b_bytes: float = 0.0
    out_bytes: float = 0.0
    a_penalty: float = 1.0
    b_penalty: float = 1.0

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.batch


@dataclass(frozen=True)
class GemmTime:
    """Busy times in microseconds; ``l2_us`` is traffic between L2 and the cores; ``tile`` is (m, n, k splits);
    ``l0a_bytes``/``l0b_bytes`` are the copies from L1, over all tiles."""

    cube_us: float
    mte1_us: float
    l2_us: float
    l2_bytes: float
    blocks: int
    tile: tuple[int, int, int]
    l0a_bytes: float = 0.0
    l0b_bytes: float = 0.0


_BYTES: Final = {"fp32": 4.0, "hf32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "uint8": 1.0, "int4": 0.5}


def element_bytes(dtype: str) -> float:
    """Bytes of one element of a cube operand."""
    return _BYTES.get(dtype, 2.0)


def cycles_factor(rates: Rates, dtype: str) -> tuple[int, float]:
    """(K elements per cube step, cycles per step relative to fp16)."""
    if dtype in ("int8", "uint8"):
        return 32, 1.0
    if dtype == "int4":
        return 64, 1.0
    if dtype == "hf32":
        return BLOCK, 2.0
    if dtype == "fp32":
        # Cores without an fp32 cube run such products as several fp16 ones; 4 is the factor of those that have it.
        return BLOCK, float(rates.soc.fp32_cube_factor or 4)
    return BLOCK, 1.0


@lru_cache(maxsize=64)
def _tiles(chip: str, dtype: str) -> tuple[Array, Array, Array, Array]:
    """Legal base tiles of a chip: rows, columns, depth of one mmad, K splits (each tile times each split)."""
    rates = of(chip)
    size = element_bytes(dtype)
    rows = []
    for m in _SIDES:
        for n in _SIDES:
            depth = int(min(rates.l0a_bytes / (2 * m * size), rates.l0b_bytes / (2 * n * size), 512)) // BLOCK * BLOCK
            fits_l1 = 2 * (m + n) * depth * size <= rates.l1_bytes
            if depth >= BLOCK and m * n * 4 <= rates.l0c_bytes and fits_l1:
                rows += [(m, n, depth, s) for s in _SPLITS]
    table = np.array(rows, dtype=np.float64).T
    return table[0], table[1], table[2], table[3]


@lru_cache(maxsize=4096)
def price(gemm: Gemm, chip: str) -> GemmTime:
    """Busy times of the best tiling of ``gemm`` on ``chip`` (a ``Soc.name``)."""
    rates = of(chip)
    k0, factor = cycles_factor(rates, gemm.dtype)
    size = element_bytes(gemm.dtype)
    m, n, depth, splits = _tiles(chip, gemm.dtype)
    keep = (splits == 1) | (gemm.k >= 2 * k0 * splits)
    m, n, depth, splits = m[keep], n[keep], depth[keep], splits[keep]

    rows, columns = np.ceil(gemm.m / m), np.ceil(gemm.n / n)
    # The last tile of a side is not smaller than the others in a balanced cut.
    tile_m = np.ceil(gemm.m / rows / BLOCK) * BLOCK
    tile_n = np.ceil(gemm.n / columns / BLOCK) * BLOCK
    tile_k = np.ceil(gemm.k / splits / k0) * k0
    tiles = rows * columns * splits * gemm.batch
    waves = np.ceil(tiles / rates.cores)
    used = np.minimum(tiles, rates.cores)

    mmad = (tile_m / rates.k.cube_rows) * (tile_n / BLOCK) * (tile_k / k0) * factor
    mmad += np.ceil(tile_k / depth) * rates.k.mmad_issue_cycles
    cube_us = waves * mmad / rates.cube_mhz
    mte1 = tile_k * size * (tile_m / rates.l1_to_l0a_bpc + tile_n / rates.l1_to_l0b_bpc) / rates.k.mte1_efficiency
    mte1_us = waves * mte1 / rates.cube_mhz

    l2_bytes = _traffic(gemm, rates, rows, columns, splits, used)
    l2_us = l2_bytes / (rates.l2_gbps * rates.k.l2_efficiency * 1e3) * (rates.cores / used) ** 0.5
    unique = (gemm.a_bytes * gemm.a_penalty + gemm.b_bytes * gemm.b_penalty) * gemm.batch
    memory_us = unique / memory_gbps(rates, used) / 1e3 / rates.k.memory_efficiency_cube

    power = rates.k.overlap_power
    total = (cube_us**power + mte1_us**power + np.maximum(l2_us, memory_us) ** power) ** (1 / power)
    total = total + rates.k.launch_per_block_us * used
    best = int(np.argmin(total))
    return GemmTime(
        cube_us=float(cube_us[best]),
        mte1_us=float(mte1_us[best]),
        l2_us=float(l2_us[best]),
        l2_bytes=float(l2_bytes[best]),
        blocks=int(used[best]),
        tile=(int(tile_m[best]), int(tile_n[best]), int(splits[best])),
        l0a_bytes=float(tiles[best] * tile_k[best] * tile_m[best] * size),
        l0b_bytes=float(tiles[best] * tile_k[best] * tile_n[best] * size),
    )


def memory_gbps(rates: Rates, used: Any) -> Any:
    """Device memory bandwidth that ``used`` cores draw together: few cores cannot saturate it."""
    return np.minimum(rates.memory_gbps, rates.memory_gbps / rates.cores * rates.k.core_share * used)


def _traffic(gemm: Gemm, rates: Rates, rows: Array, columns: Array, splits: Array, used: Array) -> Array:
    """Bytes between L2 and the cores: each tile loads its strips, unless a whole operand stays in L1."""
    half_l1 = rates.l1_bytes / 2
    a_loads = np.where(gemm.a_bytes <= half_l1, np.minimum(columns, np.maximum(used / gemm.batch, 1)), columns)
    b_loads = np.where(gemm.b_bytes <= half_l1, np.minimum(rows, np.maximum(used / gemm.batch, 1)), rows)
    loads = (a_loads * gemm.a_bytes * gemm.a_penalty + b_loads * gemm.b_bytes * gemm.b_penalty) * gemm.batch
    # Split products are added up in fp32: every part writes, and reads once more.
    stores = np.where(splits > 1, gemm.m * gemm.n * gemm.batch * 8.0 * splits, gemm.out_bytes * gemm.batch)
    return np.asarray(loads + stores)
