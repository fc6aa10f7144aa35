"""The chips carry the public figures, unknown stays unknown, and an ambiguous name is never resolved silently."""

from __future__ import annotations

import json

import pytest

from asc_devkit import soc
from asc_devkit.errors import AscError
from tests.cli.shell import asc


@pytest.mark.parametrize(
    ("name", "cores", "mhz", "tflops", "l2_mib"),
    [
        ("Ascend310", 2, 680, 11.1, 8),
        ("Ascend310P3", 8, 1060, 69.5, 16),
        ("Ascend910A", 32, 1000, 262.1, 32),
        ("Ascend910B1", 24, 1850, 363.7, 192),
        ("Ascend910B4", 20, 1650, 270.3, 96),
    ],
)
def test_public_figures(name: str, cores: int, mhz: float, tflops: float, l2_mib: float) -> None:
    chip = soc.get(name)
    assert chip.cube_core_count == cores
    assert chip.cube_freq_mhz == mhz
    assert chip.l2_bytes == l2_mib * 2**20
    assert chip.fp16_cube_tflops == pytest.approx(tflops, abs=0.2)
    assert chip.fp16_cube_tflops == pytest.approx(cores * 16**3 * 2 * mhz * 1e6 / 1e12, rel=0.01)
    assert chip.sources["cube_core_count"]


def test_all_81_chips_load_and_every_known_figure_of_the_core_has_a_source() -> None:
    assert len(soc.names()) == 81
    for name in soc.names():
        chip = soc.get(name)
        for key in ("cube_core_count", "cube_freq_mhz", "l2_bytes", "memory_gbps", "ub_bytes"):
            if getattr(chip, key) is not None:
                assert chip.sources.get(key), (name, key)


def test_unknown_figures_stay_unknown() -> None:
    assert soc.get("Ascend310P5").cube_core_count is None
    assert soc.get("Ascend310B4").cube_freq_mhz is None


def test_ascend910b_is_ambiguous_and_both_readings_are_named() -> None:
    found = soc.resolve("Ascend910B")
    assert found.soc.name == "Ascend910B1"
    assert "ambiguous" in found.warnings[0]
    assert "A2" in found.warnings[0] and "first-generation" in found.warnings[0]


@pytest.mark.parametrize("name", ["ascend310p3", "310P3", " Ascend310P3 "])
def test_case_and_prefix_do_not_matter(name: str) -> None:
    assert soc.resolve(name).soc.name == "Ascend310P3"
    assert not soc.resolve(name).warnings


def test_a_misspelt_chip_gets_the_nearest_names() -> None:
    with pytest.raises(AscError) as refused:
        soc.resolve("Ascend310PP3")
    assert "Ascend310P3" in refused.value.problems[0].fix


@pytest.mark.parametrize(
    ("name", "overflow", "fmt", "floats"),
    [
        ("Ascend310P3", "saturate", "FRACTAL_NZ", {"fp16"}),
        ("Ascend910A", "saturate", "FRACTAL_NZ", {"fp16"}),
        ("Ascend910B2", "infnan", "ND", {"fp16", "bf16", "fp32"}),
        ("Ascend910_9382", "infnan", "ND", {"fp16", "bf16", "fp32"}),
    ],
)
def test_what_follows_from_the_family(name: str, overflow: str, fmt: str, floats: set[str]) -> None:
    chip = soc.get(name)
    assert chip.overflow_mode == overflow
    assert chip.matmul_format == fmt
    assert chip.cube_floats == floats
    assert "unsure" in chip.sources["overflow_mode"]  # the families the public text does not name are marked


@pytest.mark.seed("D3")
def test_the_command_lists_and_shows_with_sources_and_unknowns() -> None:
    listed = json.loads(asc("soc", "list", "--json").out)
    assert len(listed) == 81
    shown = asc("soc", "show", "Ascend310B4")
    assert shown.code == 0 and "unknown" in shown.out and "AscendNPU-IR" in shown.out
    ambiguous = asc("soc", "show", "Ascend910B")
    assert "ambiguous" in ambiguous.err
    wrong = asc("soc", "show", "Ascend310PX")
    assert wrong.code == 2 and "E10001" in wrong.err
