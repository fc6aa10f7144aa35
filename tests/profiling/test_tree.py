"""Names, folders and columns are the vendor's; what is simulated says so; names from models cannot harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from asc_devkit.profiling.model import profile_model
from asc_devkit.profiling.schema import enum_tables, file_spec, files, layout_of, table_columns
from asc_devkit.profiling.writers import tree as writing
from asc_devkit.profiling.writers.table import Table, plain_us, text, time_us
from tests.profiling import trees

Convert = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def tree(convert: Convert, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"aicpu": "on", "l2": "on", "sys-hardware-mem": "on"}
    return profile_model(
        convert("minilm", "Ascend910B1"), tmp_path_factory.mktemp("prof"), loop=3, settings=settings
    ).tree


def test_the_tree_has_the_vendors_names(tree: Path) -> None:
    assert re.fullmatch(r"PROF_\d{6}_\d{17}_[A-Z]{16}", tree.name)
    for part in (
        "host/data",
        "host/info.json",
        "host/sample.json",
        "host/start_info",
        "host/end_info",
        "device_0/data",
        "device_0/info.json.0",
        "device_0/sample.json",
        "device_0/start_info.0",
        "device_0/end_info.0",
        "mindstudio_profiler_log",
        "mindstudio_profiler_output/README.txt",
    ):
        assert (tree / part).exists(), part
    assert len(list(tree.glob("msprof_*.db"))) == 1
    names = [p.name for p in (tree / trees.OUTPUT).iterdir() if p.suffix == ".csv"]
    kinds = {spec.name for spec in files().values() if any(spec.matches(n) for n in names)}
    assert {
        "op_summary",
        "op_statistic",
        "task_time",
        "api_statistic",
        "step_trace",
        "fusion_op",
        "l2_cache",
        "hbm",
    } <= kinds
    assert all(any(spec.matches(n) for spec in files().values()) for n in names)


def test_the_device_says_that_it_is_simulated(tree: Path) -> None:
    info = json.loads((tree / "device_0/info.json.0").read_text())
    (device,) = info["DeviceInfo"]
    assert device["simulated"] is True
    assert "simulated" in device["description"]
    # Ascend 910B1: 24 cube and 48 vector cores at 1850 MHz (platform file quoted in the chip table)
    assert (device["ai_core_num"], device["aiv_num"], device["aic_frequency"]) == (24, 48, "1850")
    assert info["platform_version"] == "5"
    for folder in ("host", "device_0"):
        sample = json.loads((tree / folder / "sample.json").read_text())
        assert sample["asc_devkit"]["simulated"] is True
        assert sample["ai_core_metrics"] == "PipeUtilization"
    assert "SIMULATED" in (tree / trees.OUTPUT / "README.txt").read_text()


def test_headers_are_those_of_real_files(tree: Path) -> None:
    # from op_summary files of CANN 7/8 (facts 1.3), joined there with PMU46
    pmu = (
        "aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),aic_scalar_ratio,"
        "aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_fixpipe_time(us),aic_fixpipe_ratio,"
        "aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),"
        "aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,"
        "cube_utilization(%)"
    )
    common = (
        "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
        "Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,"
        "Output Shapes,Output Data Types,Output Formats,Context ID"
    )
    assert ",".join(trees.header(tree, "op_summary")) == f"{common},{pmu}"
    assert trees.header(tree, "task_time") == [
        "Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)",
        "task_stop(us)",
    ]  # fmt: skip
    assert trees.header(tree, "api_statistic") == [
        "Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance",
    ]  # fmt: skip
    assert layout_of(file_spec("op_summary"), trees.header(tree, "op_summary")) == "2024"


def test_cells_look_like_the_vendors(tree: Path) -> None:
    raw = trees.found(tree, "op_summary").read_text().splitlines()[2]
    assert re.search(r",\d{16}\.\d{3}\t,", raw), "start times end with a tab"
    assert '"""' in raw, "shapes are quoted inside the CSV quotes"
    first = trees.rows(tree, "op_summary")[0]
    assert first["Input Shapes"].startswith('"') and first["Input Shapes"].endswith('"')
    assert len(first["Input Data Types"].split(";")) == len(first["Input Shapes"].strip('"').split(";"))


def test_tables_agree_with_each_other(tree: Path) -> None:
    summary, tasks = trees.rows(tree, "op_summary"), trees.rows(tree, "task_time")
    statistic = trees.rows(tree, "op_statistic")
    total = sum(float(r["Task Duration(us)"]) for r in summary)
    assert sum(float(r["Total Time(us)"]) for r in statistic) == pytest.approx(total)
    assert sum(int(r["Count"]) for r in statistic) == len(summary) == len(tasks)
    assert sum(float(r["Ratio(%)"]) for r in statistic) == pytest.approx(100, abs=0.1)
    (count, nanoseconds) = trees.sql(tree, "SELECT count(*), sum(endNs - startNs) FROM TASK")[0]
    assert count == len(tasks)
    assert nanoseconds / 1e3 == pytest.approx(total)
    computing = sum(e["dur"] for e in trees.timeline(tree) if e["name"] == "Computing")
    assert computing == pytest.approx(total)
    steps = trees.rows(tree, "step_trace")
    assert [s["Iteration ID"] for s in steps] == ["1", "2", "3"]
    assert {s["FP Start(us)"] for s in steps} == {"N/A"}


def test_tasks_of_a_stream_do_not_overlap_and_starts_are_host_times(tree: Path) -> None:
    begin = int(json.loads((tree / "host/start_info").read_text())["collectionTimeBegin"])
    end = int(json.loads((tree / "host/end_info").read_text())["collectionTimeEnd"])
    before = 0.0
    for row in trees.rows(tree, "task_time"):
        start, stop = float(row["task_start(us)"]), float(row["task_stop(us)"])
        assert begin <= start and start >= before - 0.002
        before = stop
    assert begin < end


def test_the_database_has_the_documented_columns(tree: Path) -> None:
    assert table_columns("TASK") == (
        "startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId", "streamId",
        "taskId", "modelId",
    )  # fmt: skip
    for table in ("TASK", "COMPUTE_TASK_INFO", "TASK_PMU_INFO", "CANN_API", "STRING_IDS", "COMMUNICATION_OP"):
        columns = [row[1] for row in trees.sql(tree, f"PRAGMA table_info({table})")]
        assert tuple(columns) == table_columns(table)
    assert dict(trees.sql(tree, "SELECT * FROM ENUM_API_TYPE"))[20000] == "acl" == enum_tables()["ENUM_API_TYPE"][20000]
    meta = dict(trees.sql(tree, "SELECT * FROM META_DATA"))
    assert meta["DEVICE_TIMES"] == "simulated" and meta["HOST_TIMES"] == "measured"
    names = trees.sql(tree, "SELECT DISTINCT s.value FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name")
    assert ("aiv_total_time",) in names
    # whole times are nanoseconds there and microseconds in the table
    ns = trees.sql(
        tree,
        "SELECT sum(p.value) FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name WHERE s.value = 'aiv_total_time'",
    )[0][0]
    us = sum(float(r["aiv_time(us)"]) for r in trees.rows(tree, "op_summary"))
    assert ns / 1e3 == pytest.approx(us, rel=1e-3)


def test_times_keep_all_their_digits() -> None:
    assert time_us(1736412474730135222) == "1736412474730135.222\t"
    assert plain_us(1500) == "1.500"
    assert plain_us(-7) == "-0.007"


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-x", "@sum", "\tx"])
def test_names_cannot_become_formulas(name: str) -> None:
    assert text(name) == f"'{name}"
    assert text("conv1") == "conv1"


def test_long_tables_go_on_in_slices(tmp_path: Path) -> None:
    table = Table(tmp_path, "hbm", "20260101000000", most_rows=10)
    for number in range(25):
        table.add((0, str(number), 1.0, 2.0))
    names = [p.name for p in table.close()]
    assert names == [f"hbm_slice_{i}_20260101000000.csv" for i in range(3)]
    assert [len((tmp_path / n).read_text().splitlines()) for n in names] == [11, 11, 6]
    assert all((tmp_path / n).read_text().startswith("Device_id,Metric") for n in names)


def test_trees_of_many_processes_get_names_of_their_own(tmp_path: Path) -> None:
    made = {writing.new_tree(tmp_path, 1_700_000_000_000_000_000) for _ in range(20)}
    assert len(made) == 20
