"""A check says where accuracy breaks and why, leaves healthy models alone, and reports refusals completely."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from asc_devkit import check
from asc_devkit.check.labels import load_labels
from asc_devkit.errors import AscError
from tests.cli.shell import asc
from tests.models import REAL_MODELS


def _save(
    path: Path, nodes: list[Any], weights: dict[str, np.ndarray[Any, Any]], shape: list[int], output: list[int]
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def overflowing(path: Path) -> Path:
    """Squares of values around 400 exceed 65504; their root is small again, so the output looks harmless."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Mul", ["b", "b"], ["c"], "square"),
        helper.make_node("ReduceMean", ["c"], ["m"], "mean", axes=[1], keepdims=1),
        helper.make_node("Sqrt", ["m"], ["s"], "root"),
        helper.make_node("Mul", ["s", "k"], ["y"], "scale"),
    ]
    rng = np.random.default_rng(0)
    return _save(path, nodes, {"w1": rng.standard_normal((64, 64)) * 60, "k": np.array(0.01)}, [8, 64], [8, 1])


def deep(path: Path, layers: int) -> Path:
    """A healthy stack of convolutions whose rounding errors add up slowly."""
    rng = np.random.default_rng(1)
    nodes, weights, value = [], {}, "x"
    for i in range(layers):
        weights[f"w{i}"] = rng.standard_normal((16, 16, 3, 3)) * (2 / 144) ** 0.5
        made = "y" if i == layers - 1 else f"r{i}"
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv_{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [made], f"relu_{i}"))
        value = made
    return _save(path, nodes, weights, [1, 16, 16, 16], [1, 16, 16, 16])


def _run(model: Path, folder: Path, **options: Any) -> check.CheckResult:
    return check.run(check.CheckOptions(model, output=folder, threads=1, **options))


def test_the_layer_that_leaves_the_fp16_range_is_named(tmp_path: Path) -> None:
    result = _run(overflowing(tmp_path / "over.onnx"), tmp_path / "out")
    accuracy, verdict = result.report["accuracy"], result.report["verdict"]
    assert result.exit_code == 1 and not verdict["passed"]
    row = next(r for r in accuracy["layers"] if r["name"] == accuracy["first_divergence"])
    assert row["tensor"] == "c" and row["kind"] == "sudden"
    assert row["saturated"] > 0
    assert "square (Mul)" in row["origin"]
    assert f"breaks at {row['name']}" in verdict["accurate"]["text"]
    step = verdict["next"][0]
    assert "fp16 range" in step["text"] and "allow_fp32_to_fp16" in step["command"]


def test_following_the_advice_repairs_it(tmp_path: Path) -> None:
    model = overflowing(tmp_path / "over.onnx")
    result = _run(model, tmp_path / "out", precision_mode="allow_fp32_to_fp16")
    assert result.exit_code == 0
    assert result.report["accuracy"]["first_divergence"] is None


def test_errors_that_only_add_up_blame_no_layer(tmp_path: Path) -> None:
    accuracy = _run(deep(tmp_path / "deep.onnx", 24), tmp_path / "out").report["accuracy"]
    rows = accuracy["layers"]
    assert len(rows) >= 24
    assert accuracy["first_divergence"] is None and {r["kind"] for r in rows} == {"accumulated"}
    assert rows[-1]["relative_euclidean"] > 2 * rows[0]["relative_euclidean"]
    assert all(r["own_error"] <= r["relative_euclidean"] + 1e-12 for r in rows)


@pytest.mark.provokes("E16002")
def test_a_model_that_cannot_be_converted_still_gets_a_report_with_every_reason(tmp_path: Path) -> None:
    model = next(m for m in REAL_MODELS.values() if m.has_contrib_ops)
    result = _run(model.path, tmp_path / "out", input_shape=model.input_shape)
    assert result.exit_code == 2
    named = json.dumps(result.report["problems"])
    contrib = {op.split(".")[-1].split(":")[-1] for op in model.ops if op.startswith("com.microsoft")}
    assert contrib and all(op in named for op in contrib)
    assert result.report["verdict"]["converts"]["ok"] is False and result.report["verdict"]["next"]
    assert result.html is not None and result.html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not list((tmp_path / "out").glob("*.om"))


def test_labels_count_answers_before_and_after(tmp_path: Path) -> None:
    """The labels are the original's own answers with two of ten falsified: 80 % before, and 80 % after if unchanged."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["l"], "fc"), helper.make_node("Softmax", ["l"], ["y"], axis=1)]
    weights = {"w": np.random.default_rng(3).standard_normal((16, 5))}
    model = _save(tmp_path / "m.onnx", nodes, weights, [4, 16], [4, 5])
    rows = np.random.default_rng(4).standard_normal((10, 16)).astype(np.float32)
    answers = (rows.astype(np.float64) @ weights["w"]).argmax(1)
    answers[[0, 9]] = (answers[[0, 9]] + 1) % 5
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", rows)
    (tmp_path / "labels.csv").write_text("file,class\n" + "".join(f"{i}.png,{a}\n" for i, a in enumerate(answers)))
    result = _run(model, tmp_path / "out", data=tmp_path / "data", labels=tmp_path / "labels.csv")
    task = result.report["accuracy"]["task"]
    assert (task["samples"], task["before"], task["after"], task["changed"]) == (10, 0.8, 0.8, 0)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 16)}\n"],
    ids=["empty", "cut", "huge"],
)
def test_damaged_data_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")]
    model = _save(tmp_path / "m.onnx", nodes, {"w": np.ones((16, 5))}, [4, 16], [4, 5])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.npy").write_bytes(content)
    with pytest.raises(AscError) as raised:
        _run(model, tmp_path / "out", data=tmp_path / "data")
    assert "x.npy" in raised.value.problems[0].what and "float32[4, 16]" in raised.value.problems[0].fix


@pytest.mark.provokes("ASC5002")
def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")]
    model = _save(tmp_path / "m.onnx", nodes, {"w": np.ones((16, 5))}, [4, 16], [4, 5])
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(AscError, match=r"x\.npy"):
        _run(model, tmp_path / "out", data=tmp_path / "x.npy")


@pytest.mark.provokes("ASC5003")
def test_labels_that_are_no_class_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("name,class\na.png,cat\n")
    with pytest.raises(AscError, match=r"labels\.csv.*cat"):
        load_labels(tmp_path / "labels.csv")


def test_the_command_ends_with_the_codes_of_the_manual(tmp_path: Path) -> None:
    model = overflowing(tmp_path / "over.onnx")
    failed = asc("check", str(model), "-o", "out", "--json", "--threads", "1", cwd=tmp_path)
    assert failed.code == 1
    assert json.loads(failed.out) == json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert asc("check", "absent.onnx", cwd=tmp_path).code == 2
    unknown = asc("check", str(model), "--soc", "Ascend310P33", cwd=tmp_path)
    assert unknown.code == 2 and "Traceback" not in unknown.err
