"""The chip figures the cost model needs, complete: what a chip lacks is taken from its nearest relative, and said.

A relative is a chip of the same generation (most similar name first, then core count), else one of the stand-in
generation of ``STAND_IN``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from asc_devkit import soc as chips
from asc_devkit.perf.coefficients import Coefficients, coefficients
from asc_devkit.soc import Soc

# Generations of which no public figure exists at all -> the closest architecture that has figures.
STAND_IN: Final = {"610": "310P", "031": "310B", "035": "310B"}
# Figures missing in every chip of a generation come from here; these are properties of the core, not of the bin.
CORE_STAND_IN: Final = {"910_93": "910B", "950": "910B", **STAND_IN}


@dataclass(frozen=True)
class Rates:
    """Counts, clocks (MHz), bandwidths (GB/s, bytes per cycle and core) and sizes (bytes) of one chip, none missing.

    ``borrowed`` maps figure -> chip it was taken from, for the ones this chip's sources do not give.
    """

    soc: Soc
    cores: int
    vectors: int
    cube_mhz: float
    vector_mhz: float
    memory_gbps: float
    l2_gbps: float
    l2_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l1_bytes: int
    ub_bytes: int
    vector_bpc: int
    l1_to_l0a_bpc: float
    l1_to_l0b_bpc: float
    split_cores: bool
    k: Coefficients
    borrowed: tuple[tuple[str, str], ...]

    @property
    def foreign(self) -> bool:
        """True when a figure that scales with the chip's bin (not only with its core design) is borrowed."""
        return any(name in _BIN_FIGURES for name, _ in self.borrowed)


_BIN_FIGURES: Final = frozenset({"cube_core_count", "cube_freq_mhz", "memory_gbps", "l2_gbps", "vector_units"})


@lru_cache(maxsize=128)
def of(name: str) -> Rates:
    """Figures of the chip ``name`` (a ``Soc.name``)."""
    soc = chips.get(name)
    relatives = _relatives(soc)
    borrowed: list[tuple[str, str]] = []

    def figure(field: str) -> Any:
        for chip in (soc, *relatives):
            value = getattr(chip, field)
            if value:  # 0 bytes of a buffer says that the core works without it, which this model does not know
                if chip is not soc:
                    borrowed.append((field, chip.name))
                return value
        raise LookupError(f"no relative of {name} has {field}")

    def rate(path: str) -> float:
        for chip in (soc, *relatives):
            if path in chip.rates:
                if chip is not soc:
                    borrowed.append((path, chip.name))
                return chip.rates[path]
        raise LookupError(f"no relative of {name} has {path}")

    cube_mhz = float(figure("cube_freq_mhz"))
    cores = int(figure("cube_core_count"))
    # A bandwidth of another bin counts per core and cycle, so it is scaled to this chip's cores and clock.
    l2_gbps = figure("l2_gbps")
    if borrowed and borrowed[-1][0] == "l2_gbps":
        lender = chips.get(borrowed[-1][1])
        l2_gbps *= cores * cube_mhz / ((lender.cube_core_count or cores) * (lender.cube_freq_mhz or cube_mhz))
    return Rates(
        soc=soc,
        cores=cores,
        vectors=max(int(figure("vector_units")), 1),
        cube_mhz=cube_mhz,
        vector_mhz=float(soc.vec_freq_mhz or cube_mhz),
        memory_gbps=float(figure("memory_gbps")),
        l2_gbps=float(l2_gbps),
        l2_bytes=int(figure("l2_bytes")),
        l0a_bytes=int(figure("l0a_bytes")),
        l0b_bytes=int(figure("l0b_bytes")),
        l0c_bytes=int(figure("l0c_bytes")),
        l1_bytes=int(figure("l1_bytes")),
        ub_bytes=int(figure("ub_bytes")),
        vector_bpc=int(figure("vector_bytes_per_cycle")),
        l1_to_l0a_bpc=rate("l1_to_l0_a_rate"),
        l1_to_l0b_bpc=rate("l1_to_l0_b_rate"),
        split_cores=(soc.core_layout or "").startswith("split") or soc.generation in ("910B", "910_93", "950"),
        k=coefficients(soc.generation),
        borrowed=tuple(borrowed),
    )


def _relatives(soc: Soc) -> list[Soc]:
    every = [chips.get(name) for name in chips.names()]
    found: list[Soc] = []
    for generation in (soc.generation, CORE_STAND_IN.get(soc.generation)):
        kin = [c for c in every if c.generation == generation and c is not soc]
        kin.sort(
            key=lambda c: (
                -_alike(c.name, soc.name),
                abs((c.cube_core_count or 0) - (soc.cube_core_count or 0)),
            )
        )
        found += kin
    return found


def _alike(a: str, b: str) -> int:
    """Length of the common beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
