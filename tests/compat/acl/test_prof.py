"""``acl.prof``: trees written from inside a program, in the article's form and in the vendor's."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import acl
from asc_devkit.npu import device
from tests.compat.acl.test_calls import Loaded, X, models  # noqa: F401 - a fixture

pytestmark = pytest.mark.xdist_group("pyacl")


@pytest.fixture(autouse=True)
def runtime() -> Any:
    device.renew()
    acl.init()
    acl.rt.set_device(0)
    yield
    acl.finalize()
    device.renew()


def executed(path: Path, count: int) -> None:
    model = Loaded(path)
    model.feed(X)
    for _ in range(count):
        assert acl.mdl.execute(model.number, model.inputs, model.outputs) == 0
    model.close()


def operators(folder: Path) -> list[dict[str, str]]:
    (table,) = folder.glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv")
    with open(table, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.seed("F2")
def test_the_dictionary_of_articles(models: dict[str, Path], tmp_path: Path) -> None:  # noqa: F811
    settings = {"output": str(tmp_path / "prof"), "aicore_metrics": "PipeUtilization", "task": "model_execute"}
    assert acl.prof.start(settings) == 0, acl.get_recent_err_msg()
    executed(models["static"], 3)
    assert acl.prof.stop() == 0
    rows = operators(tmp_path / "prof")
    assert len(rows) % 3 == 0 and rows
    assert all(float(row["Task Duration(us)"]) > 0 for row in rows)


@pytest.mark.seed("F2")
def test_the_vendors_functions(models: dict[str, Path], tmp_path: Path) -> None:  # noqa: F811
    assert acl.prof.start(1) != 0  # not initialised
    assert acl.prof.init(str(tmp_path / "p")) == 0 and acl.prof.init(str(tmp_path / "p")) != 0
    config = acl.prof.create_config([0], 1, 0, 0x1 | 0x2 | 0x4)
    assert config and acl.prof.create_config([], 1, 0, 2) == 0
    assert acl.prof.start(config) == 0 and acl.prof.start(config) != 0
    stamp = acl.prof.create_stamp()
    assert stamp and acl.prof.set_stamp_trace_message(stamp, "phase", 5) == 0
    assert acl.prof.push(stamp) == 0
    executed(models["static"], 2)
    assert acl.prof.pop() == 0 and acl.prof.destroy_stamp(stamp) is None
    assert acl.prof.destroy_config(config) != 0  # in use
    assert acl.prof.stop(config) == 0 and acl.prof.stop(config) != 0
    assert acl.prof.destroy_config(config) == 0 and acl.prof.finalize() == 0
    assert operators(tmp_path / "p")
