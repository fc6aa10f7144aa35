"""One chip as a frozen record. ``None`` means that no public source gives the figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Families whose matrix operators keep their operands in FRACTAL_NZ (older cores); later ones work on ND.
_NZ_GENERATIONS: Final = frozenset({"310", "310P", "310B", "910", "610", "031", "035"})


@dataclass(frozen=True)
class Soc:
    """Figures of one ``soc_version``: counts per chip (per die where a package has two), clocks in MHz, sizes in bytes.

    ``cube_core_count`` cores run matrix work; ``vector_units`` is how many vector units work beside them.
    ``memory_gbps`` is HBM or DDR bandwidth in GB/s, ``rates`` are bytes per cycle and core by path.
    ``sources`` maps each field to where its value comes from.
    """

    name: str
    generation: str
    series: str
    overflow_mode: str
    short_soc: str | None = None
    arch: str | None = None
    npu_arch: int | None = None
    core_layout: str | None = None
    ai_core_count: int | None = None
    cube_core_count: int | None = None
    vector_core_count: int | None = None
    ai_cpu_count: int | None = None
    cube_freq_mhz: float | None = None
    vec_freq_mhz: float | None = None
    fp16_cube_tflops: float | None = None
    bf16_cube_tflops: float | None = None
    hf32_cube_tflops: float | None = None
    fp32_cube_tflops: float | None = None
    int8_cube_tops: float | None = None
    fp8_cube_tflops: float | None = None
    mxfp4_cube_tflops: float | None = None
    vector_fp16_tflops: float | None = None
    vector_fp32_tflops: float | None = None
    vector_bytes_per_cycle: int | None = None
    fp32_cube_factor: float | None = None
    l0a_bytes: int | None = None
    l0b_bytes: int | None = None
    l0c_bytes: int | None = None
    l1_bytes: int | None = None
    ub_bytes: int | None = None
    l2_bytes: int | None = None
    l2_gbps: float | None = None
    l2_read_bpc: float | None = None
    l2_write_bpc: float | None = None
    memory_gbps: float | None = None
    memory_bytes: int | None = None
    ddr_bpc: float | None = None
    cube_mkn: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    c0: Mapping[str, int] = field(default_factory=dict)
    cube_dtypes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def cube_floats(self) -> frozenset[str]:
        """Float types the cube multiplies (``fp16``, ``bf16``, ``fp32``)."""
        return frozenset({"fp16", "bf16", "fp32"}) & (frozenset(self.cube_dtypes) or _family_floats(self.generation))

    @property
    def matmul_format(self) -> str:
        """Device format of matrix operands: ``FRACTAL_NZ`` on cores before the 910B, ``ND`` from it on."""
        return "FRACTAL_NZ" if self.generation in _NZ_GENERATIONS else "ND"

    @property
    def vector_units(self) -> int | None:
        """Vector units that work at once: the separate vector cores, or those inside the AI cores plus extra ones."""
        if self.cube_core_count is None:
            return None
        if self.core_layout and self.core_layout.startswith("unified"):
            return self.cube_core_count + (self.vector_core_count or 0 if "extra" in self.core_layout else 0)
        return self.vector_core_count or self.cube_core_count


def _family_floats(generation: str) -> frozenset[str]:
    if generation in ("910B", "910_93", "950"):
        return frozenset({"fp16", "bf16", "fp32"})
    return frozenset({"fp16"})


# field of Soc -> field of the data file
FIELDS: Final[Mapping[str, str]] = {
    "fp16_cube_tflops": "fp16_cube_tflops_derived",
    "bf16_cube_tflops": "bf16_cube_tflops_derived",
    "hf32_cube_tflops": "hf32_cube_tflops_derived",
    "fp32_cube_tflops": "fp32_cube_tflops_derived",
    "int8_cube_tops": "int8_cube_tops_derived",
    "fp8_cube_tflops": "fp8_cube_tflops_derived",
    "mxfp4_cube_tflops": "mxfp4_cube_tflops_derived",
    "vector_fp16_tflops": "vector_fp16_tflops_fma_derived",
    "vector_fp32_tflops": "vector_fp32_tflops_fma_derived",
    "vector_bytes_per_cycle": "vector_bytes_per_cycle_per_core",
    "fp32_cube_factor": "fp32_cube_cycles_factor_vs_fp16",
    "l2_gbps": "l2_bw_GBps",
    "l2_read_bpc": "l2_read_Bpc_per_core",
    "l2_write_bpc": "l2_write_Bpc_per_core",
    "memory_gbps": "hbm_ddr_bw_GBps",
    "memory_bytes": "hbm_ddr_bytes",
    "ddr_bpc": "ddr_Bpc_per_core",
    "rates": "rates_Bpc",
    "cube_dtypes": "supported_cube_dtypes",
}
_CUBE_SHAPES: Final = {"fp16": "cube_mkn_fp16", "int8": "cube_mkn_int8", "int4": "cube_mkn_int4"}
_DERIVED: Final = frozenset({"name", "generation", "series", "overflow_mode", "cube_mkn", "notes", "sources"})


def from_row(
    name: str,
    row: Mapping[str, Any],
    sources: list[str],
    *,
    generation: str,
    series: str,
    overflow_mode: str,
    overflow_source: str,
) -> Soc:
    """Build a ``Soc`` from one row of a data file, whose entries are ``[value, source index or null]``."""
    values: dict[str, Any] = {}
    origin = {"overflow_mode": overflow_source}
    for attribute in Soc.__dataclass_fields__:
        entry = row.get(FIELDS.get(attribute, attribute))
        if attribute in _DERIVED or entry is None:
            continue
        value, source = entry
        values[attribute] = tuple(value) if isinstance(value, list) else value
        if source is not None:
            origin[attribute] = sources[source]
    shapes = {kind: tuple(row[key][0]) for kind, key in _CUBE_SHAPES.items() if key in row}
    if "cube_mkn_fp16" in row and row["cube_mkn_fp16"][1] is not None:
        origin["cube_mkn"] = sources[row["cube_mkn_fp16"][1]]
    notes = tuple(row["notes"][0]) if "notes" in row else ()
    return Soc(
        name=name,
        generation=generation,
        series=series,
        overflow_mode=overflow_mode,
        cube_mkn=shapes,
        notes=notes,
        sources=origin,
        **values,
    )
