"""A failed conversion leaves its log and the vendor's pre-check report with every operator to blame, and no `.om`."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from asc_devkit import atc
from asc_devkit.atc import failure
from asc_devkit.atc.log import LEVELS, ConversionLog
from asc_devkit.atc.options import Options, from_flags
from asc_devkit.errors import AscError, Problem


def _unknown_operators(path: Path) -> Path:
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], name="first", domain="my.ops"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Fancy", ["b"], ["c"], name="second", domain="my.ops"),
        helper.make_node("Other", ["c"], ["y"], name="third", domain="my.ops"),
    ]
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4])] for n in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *infos), opset_imports=opsets, ir_version=8), path)
    return path


def _options(tmp_path: Path, **flags: str) -> Options:
    base = {"framework": "5", "soc_version": "Ascend310P3", "output": str(tmp_path / "out" / "m")}
    return from_flags({**base, "check_report": str(tmp_path / "check.json"), **flags})


@pytest.mark.provokes("E16002")
def test_unsupported_operators_are_all_in_the_report_and_in_the_log(tmp_path: Path) -> None:
    model = _unknown_operators(tmp_path / "m.onnx")
    with pytest.raises(AscError) as failed:
        atc.compile(_options(tmp_path, model=str(model)))
    assert [problem.nodes for problem in failed.value.problems] == [
        ("first (my.ops::1::Fancy)", "second (my.ops::1::Fancy)"),
        ("third (my.ops::1::Other)",),
    ]
    report = json.loads((tmp_path / "check.json").read_text())
    assert report["result"] == "failed"
    assert [(row["name"], row["type"], row["result"]) for row in report["op"]] == [
        ("first", "my.ops::1::Fancy", "failed"),
        ("second", "my.ops::1::Fancy", "failed"),
        ("third", "my.ops::1::Other", "failed"),
    ]
    (cause,) = report["op"][0]["cause"]
    assert cause["code"] == "E16002" and "ATC unsupported op type: Fancy" in cause["message"] and cause["solution"]
    log = (tmp_path / "out" / "m_conversion.log").read_text()
    assert "[ERROR  ] select: E16002 (EE2002): ATC unsupported op type: Fancy" in log and "    - third" in log
    assert not list(tmp_path.rglob("*.om"))


def test_an_operator_with_two_problems_stands_in_the_report_once() -> None:
    node = "conv (Conv2D)"
    problems = [Problem("EZ3002", "a", nodes=(node,)), Problem("E14001", "b", nodes=(node, "other"))]
    report = failure.pre_check([failure.described(problem) for problem in problems])
    assert [(row["name"], row["type"], [c["code"] for c in row["cause"]]) for row in report["op"]] == [
        ("conv", "Conv2D", ["EZ3002", "E14001"]),
        ("other", "", ["E14001"]),
    ]


def test_a_problem_of_the_command_line_makes_no_report(tmp_path: Path) -> None:
    with pytest.raises(AscError):
        atc.compile(_options(tmp_path, model=str(tmp_path / "missing.onnx")))
    assert not (tmp_path / "check.json").exists()
    assert "missing.onnx" in (tmp_path / "out" / "m_conversion.log").read_text()


@pytest.mark.provokes("E10022")
def test_an_output_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    model = _unknown_operators(tmp_path / "m.onnx")
    (tmp_path / "out" / "m.om").mkdir(parents=True)
    with pytest.raises(AscError, match="E10022"):
        atc.compile(_options(tmp_path, model=str(model)))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["m.om"]


@pytest.mark.parametrize("level", LEVELS)
def test_the_terminal_shows_lines_at_the_level_or_above(level: str) -> None:
    shown = StringIO()
    log = ConversionLog(level, shown)
    for name in LEVELS[:-1]:
        log.add(name, f"a line of {name}")
    assert [line.rsplit(" ", 1)[1] for line in shown.getvalue().splitlines()] == list(LEVELS[LEVELS.index(level) : -1])
    assert log.text().count("\n") == 4  # the file has all of them
