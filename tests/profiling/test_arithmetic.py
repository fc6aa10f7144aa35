"""Rows obey the arithmetic of measured files, on every chip; and the checker says so of measured rows, not of wrong ones."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from asc_devkit import profiling
from asc_devkit.perf import rates
from asc_devkit.profiling import checks
from asc_devkit.profiling.checks import Cores
from asc_devkit.profiling.model import profile_model
from asc_devkit.profiling.schema import GROUPS, core_layout, metric_columns
from asc_devkit.soc import get
from tests.profiling import trees

Convert = Callable[[str, str], Path]


def cores(chip: str) -> Cores:
    figures = rates.of(chip)
    return Cores(figures.cube_mhz, figures.cores, figures.vector_mhz, figures.vectors)


@pytest.mark.parametrize(
    "chip", ["Ascend910B1", "Ascend910B4", "Ascend950PR_9589", "Ascend310P3", "Ascend310B1", "Ascend910A"]
)
@pytest.mark.parametrize("key", ["minilm", "ppocr_cls"])
def test_every_row_obeys_the_arithmetic_of_measured_files(
    convert: Convert, tmp_path: Path, key: str, chip: str
) -> None:
    tree = profile_model(convert(key, chip), tmp_path, loop=2).tree
    rows = trees.rows(tree, "op_summary")
    verdict = checks.check_rows(rows, cores(chip))
    assert verdict.violations == ()
    assert verdict.applied["core_time"] >= len([r for r in rows if r["Task Type"] != "AI_CPU"]) > 20
    assert verdict.applied["duration"] == verdict.applied["core_time"]
    if core_layout(get(chip)) == "split":
        assert verdict.applied["cube_utilization"] > 10


# Rows of public traces: Qwen3-shaped training on 910B4 (1650 MHz, 20/40 cores), AlexNet on 910B2 (1800 MHz, 24/48).
MEASURED = [
    (Cores(1800, 24, 1800, 48), {"Task Type": "AI_VECTOR_CORE", "Duration(us)": "6.3", "Block Dim": "8", "Mix Block Dim": "0",
     "aiv_time(us)": "5.155", "aiv_total_cycles": "74234", "aiv_vec_ratio": "0.228", "aiv_vec_time(us)": "1.174"}),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "row"), MEASURED)
def test_the_checker_accepts_measured_rows(chip: Cores, row: dict[str, str]) -> None:
    verdict = checks.check_rows([row], chip)
    assert verdict.violations == ()
    assert verdict.applied["core_time"] == 1


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("aiv_total_cycles", "80000", "core_time"),
        ("Duration(us)", "5.0", "duration"),
        ("aiv_vec_ratio", "1.2", "ratio"),
        ("aiv_vec_time(us)", "2.0", "pipe_time"),
        ("Block Dim", "80", "core_time"),
    ],
)
def test_the_checker_finds_what_is_wrong(column: str, value: str, rule: str) -> None:
    chip, row = MEASURED[0]
    verdict = checks.check_rows([{**row, column: value}], chip)
    assert rule in {v.rule for v in verdict.violations}
    assert verdict.share < 1


def test_utilisation_is_checked_against_cycles() -> None:
    chip = Cores(1800, 24, 1800, 48)
    row = {"Task Duration(us)": "100", "Block Dim": "24", "aicore_time(us)": "90", "aic_total_cycles": "3888000"}
    # 3888000 cycles of 1800 MHz * 24 cores * 100 us = 4320000: 90 %
    assert checks.check_rows([{**row, "cube_utilization(%)": "90"}], chip).violations == ()
    (wrong,) = checks.check_rows([{**row, "cube_utilization(%)": "99"}], chip).violations
    assert (wrong.rule, wrong.expected) == ("cube_utilization", 90)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend310P3"])
def test_every_metric_group_fills_its_columns(convert: Convert, tmp_path: Path, group: str, chip: str) -> None:
    tree = profile_model(convert("minilm", chip), tmp_path, loop=1, settings={"aic-metrics": group}).tree
    wanted = metric_columns(group, core_layout(get(chip)))
    header = trees.header(tree, "op_summary")
    assert tuple(header[len(header) - len(wanted) :]) == wanted
    rows = trees.rows(tree, "op_summary")
    assert checks.check_rows(rows, cores(chip)).violations == ()
    not_modelled = {"ub_read_bw_scalar(GB/s)", "ub_write_bw_scalar(GB/s)"}
    for column in wanted:
        values = [r[column] for r in rows]
        if column.removeprefix("aiv_") in not_modelled or "_cflt_" in column:
            assert set(values) <= {"N/A", "0"}
        else:
            assert all(float(v) >= 0 for v in values), column


def test_bandwidths_stay_below_what_the_chip_can_move(convert: Convert, tmp_path: Path) -> None:
    tree = profile_model(convert("ppocr_cls", "Ascend910B1"), tmp_path, loop=1, settings={"aic-metrics": "Memory"}).tree
    figures = rates.of("Ascend910B1")
    for row in trees.rows(tree, "op_summary"):
        blocks = float(row["Block Dim"])
        for side in ("aic", "aiv"):
            read, write = (float(row[f"{side}_main_mem_{way}_bw(GB/s)"]) for way in ("read", "write"))
            assert (read + write) * blocks <= figures.memory_gbps


@pytest.mark.provokes("ASC6016")
def test_collecting_from_python_leaves_a_tree_and_one_collection_at_a_time(convert: Convert, tmp_path: Path) -> None:
    from asc_devkit.errors import AscError

    with profiling.collecting(tmp_path, {"task-time": "l0"}) as profile:
        with pytest.raises(AscError, match="already being collected"), profiling.collecting(tmp_path):
            pass
        profile_tree = profile.tree
    assert profile_tree is None
    assert profile.tree is not None
    assert (profile.tree / "host" / "sample.json").is_file()
    with pytest.raises(AscError, match="aic-metrics"), profiling.collecting(tmp_path, {"aic-metrics": "Pipe"}):
        pass


def test_without_details_types_and_counters_are_left_out(convert: Convert, tmp_path: Path) -> None:
    tree = profile_model(convert("minilm", "Ascend910B1"), tmp_path, loop=1, settings={"task-time": "l0"}).tree
    with trees.found(tree, "op_summary").open(newline="", encoding="utf-8") as handle:
        table = list(csv.DictReader(handle))
    assert {r["OP Type"] for r in table} == {"N/A"}
    assert {r["Block Dim"] for r in table} == {"0"}
    assert "aicore_time(us)" not in table[0]
    assert not list((tree / trees.OUTPUT).glob("op_statistic*"))
