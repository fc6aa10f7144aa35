"""netron opens our files: whole graph, readable attributes, every weight with its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from asc_devkit import om
from asc_devkit.atc.options import from_flags
from asc_devkit.atc.pipeline import compile as compile_options
from asc_devkit.atc.select import groups
from tests.cli.shell import onnx_cnn
from tests.e2e.converted import convert
from tests.om.graphs import model
from tests.om.netron import load


def _assert_everything_is_shown(path: Path) -> None:
    shown = load(path)
    file = om.read(path)
    assert shown["format"] == "DaVinci OM"
    assert len(shown["graphs"]) == len(file.model_def.graph)
    weights = 0
    for graph, definition in zip(shown["graphs"], file.model_def.graph, strict=True):
        ops = [op for op in definition.op if op.type != "Const"]
        assert [n["name"] for n in graph["nodes"]] == [op.name for op in ops]
        for node, op in zip(graph["nodes"], ops, strict=True):
            assert node["type"] == op.type
            assert sorted(node["attributes"]) == sorted(op.attr)
            assert all(name.isprintable() and not name.startswith("\0") for name in node["attributes"])
        used = {text for op in ops for text in op.input}
        for op in definition.op:
            if op.type != "Const" or f"{op.name}:0" not in used:
                continue
            seen = graph["weights"][f"{op.name}:0"]
            desc = op.attr["value"].t.desc
            raw = bytes(file.weights[desc.data_offset : desc.data_offset + desc.weight_size])
            assert seen["bytes"] == len(raw), op.name
            assert seen["sha256"] == hashlib.sha256(raw).hexdigest(), op.name
            weights += 1
    assert weights >= 3


def test_a_graph_with_a_fused_node_groups_and_a_host_operator(tmp_path: Path) -> None:
    made = model()
    groups.collapse(made)
    om.write(tmp_path / "m.om", made, om.ModelInfo("m", "Ascend310P3"))
    _assert_everything_is_shown(tmp_path / "m.om")


def test_small_weights_are_printed_value_by_value(tmp_path: Path) -> None:
    made = model()
    om.write(tmp_path / "m.om", made, om.ModelInfo("m", "Ascend310P3"))
    bias = made.graph.initializers["b1"].const_value
    assert bias is not None
    assert load(tmp_path / "m.om")["graphs"][0]["weights"]["b1:0"]["values"] == bias.numpy().astype(float).tolist()


@pytest.mark.parametrize("key", ["ppocr_cls", "yolox", "minilm", "silero_if", "gru_decoder"])
def test_real_models(key: str) -> None:
    _assert_everything_is_shown(convert(key, "Ascend310P3").om_path)


def test_a_model_with_gears(tmp_path: Path) -> None:
    cnn = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    flags = {"model": str(cnn), "framework": "5", "output": str(tmp_path / "m"), "soc_version": "Ascend310P3"}
    flags |= {"input_shape": "x:-1,3,32,32", "dynamic_batch_size": "1,2,4"}
    _assert_everything_is_shown(compile_options(from_flags(flags)).om_path)
