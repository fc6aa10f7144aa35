"""The conversion commands of articles and manuals run as written (paths adapted) and do the real work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from asc_devkit import npu, om
from asc_devkit.errors import AscError
from tests.cli.shell import Finished, asc, atc, onnx_cnn
from tests.models import model_path

BASE = ("--framework=5", "--soc_version=Ascend310P3")


def _out(folder: Path, name: str = "m") -> str:
    return f"--output={folder / name}"


@pytest.mark.seed("C1")
def test_input_fp16_nchw_fixes_the_shape_and_feeds_fp16(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "resnet50.onnx", input_name="data")
    done = atc(
        f"--model={model}",
        "--framework=5",
        f"--output={tmp_path / 'resnet50_om'}",
        "--soc_version=Ascend310",
        "--input_format=NCHW",
        "--input_fp16_nchw=data:1,3,32,32",
    )
    assert done.code == 0, done.err
    (data,) = om.read(tmp_path / "resnet50_om.om").inputs
    assert (data.name, tuple(data.shape)) == ("data", (1, 3, 32, 32))
    session = npu.load(tmp_path / "resnet50_om.om")
    assert session.inputs[0].dtype == np.float16


@pytest.mark.seed("C2")
def test_static_om_and_conversion_log_are_written(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "resnet50.onnx", input_name="input")
    done = atc(
        f"--model={model}",
        "--framework=5",
        f"--output={tmp_path / 'out' / 'resnet50'}",
        "--soc_version=Ascend910B1",
        "--input_shape=input:1,3,32,32",
    )
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "resnet50.om").is_file()
    log = (tmp_path / "out" / "resnet50_conversion.log").read_text()
    for piece in ("Conv2D", "ConvBatchnormFusionPass", "removed", "operators ->"):
        assert piece in log, piece
    fusion = json.loads((tmp_path / "out" / "fusion_result.json").read_text())
    (entry,) = fusion.values()
    assert entry["graph_fusion"]["ConvBatchnormFusionPass"]["effect_times"] == "1"


@pytest.mark.seed("C3")
def test_dynamic_batch_without_input_shape_names_the_input_and_the_fix(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="images")
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_format=NCHW", "--log=info")
    assert done.code == 2
    assert "images" in done.err and "--input_shape=" in done.err
    assert not list(tmp_path.glob("*.om"))


@pytest.mark.seed("C4")
@pytest.mark.parametrize(
    ("mode", "soc", "conv", "relu"),
    [
        ("force_fp16", "Ascend310P3", "FLOAT16", "FLOAT16"),
        ("allow_fp32_to_fp16", "Ascend310P3", "FLOAT16", "FLOAT"),
        ("mixed_float16", "Ascend910B2", "FLOAT16", "FLOAT16"),
        ("must_keep_origin_dtype", "Ascend910B2", "FLOAT", "FLOAT"),
        ("cube_fp16in_fp32out", "Ascend910B2", "FLOAT", "FLOAT"),
    ],
)
def test_precision_modes_change_the_types_in_the_om(tmp_path: Path, mode: str, soc: str, conv: str, relu: str) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(
        f"--model={model}",
        "--framework=5",
        f"--soc_version={soc}",
        _out(tmp_path),
        "--input_shape=x:1,3,32,32",
        f"--precision_mode={mode}",
    )
    assert done.code == 0, done.err
    graph = om.read(tmp_path / "m.om").to_ir().graph
    by_type = {node.op_type: node.outputs[0].dtype.name for node in graph}
    assert by_type["Conv2D"] == conv
    assert by_type["SoftmaxV2"] == relu


@pytest.mark.seed("C4")
def test_must_keep_origin_dtype_without_an_fp32_cube_fails_with_the_operators(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(
        f"--model={model}",
        *BASE,
        _out(tmp_path),
        "--input_shape=x:1,3,32,32",
        "--precision_mode=must_keep_origin_dtype",
    )
    assert done.code == 2
    assert "EZ3002" in done.err and "conv_a" in done.err and "conv_b" in done.err


@pytest.mark.seed("C5")
@pytest.mark.parametrize("text", ["output:FP16", "FP16", "softmax:0:FP16"])
def test_output_type_sets_the_type_of_the_output(tmp_path: Path, text: str) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_shape=x:1,3,32,32", f"--output_type={text}")
    assert done.code == 0, done.err
    session = npu.load(tmp_path / "m.om")
    (value,) = session.run({"x": np.zeros((1, 3, 32, 32), np.float32)}).values()
    assert value.dtype == np.float16


@pytest.mark.seed("C6")
def test_out_nodes_cuts_the_graph(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_shape=x:1,3,32,32", "--out_nodes=relu_a:0;relu_b:0")
    assert done.code == 0, done.err
    outputs = npu.load(tmp_path / "m.om").run({"x": np.ones((1, 3, 32, 32), np.float32)})
    assert len(outputs) == 2
    graph = om.read(tmp_path / "m.om").to_ir().graph
    assert "SoftmaxV2" not in {node.op_type for node in graph}


@pytest.mark.seed("C6")
def test_an_unknown_out_node_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_shape=x:1,3,32,32", "--out_nodes=relu_c:0;conv_z:0")
    assert done.code == 2
    assert done.err.count("E10016") == 2 and "did you mean 'relu_" in done.err


@pytest.mark.seed("C7")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--input_shape=x:-1,3,32,32", "--dynamic_batch_size=1,2,4"),
        ("--input_shape=x:-1,3,32,32", "--dynamic_dims=1;2;4"),
        ("--input_shape=x:1,3,32,32", "--dynamic_dims=1,3,32,32;2,3,32,32;4,3,32,32"),
        ("--dynamic_shape=x:[1,3,32,32];[2,3,32,32];[4,3,32,32]",),
    ],
    ids=["batch", "values", "whole shapes", "dynamic_shape"],
)
@pytest.mark.provokes("ASC4013")
def test_gears_run_like_static_conversions_and_other_shapes_are_refused(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, _out(tmp_path, "gears"), *arguments)
    assert done.code == 0, done.err
    session = npu.load(tmp_path / "gears.om")
    assert session.inputs[0].shape == (None, 3, 32, 32)
    for batch in (1, 2):
        one = atc(f"--model={model}", *BASE, _out(tmp_path, f"s{batch}"), f"--input_shape=x:{batch},3,32,32")
        assert one.code == 0, one.err
        feed = {"x": np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)}
        (wanted,), (found,) = npu.load(tmp_path / f"s{batch}.om").run(feed).values(), session.run(feed).values()
        assert wanted.shape == found.shape and wanted.tobytes() == found.tobytes()
    with pytest.raises(AscError, match="No gear") as refused:
        session.run({"x": np.zeros((3, 3, 32, 32), np.float32)})
    assert all(f"x [{n}, 3, 32, 32]" in refused.value.problems[0].fix for n in (1, 2, 4))
    shown = asc("run", str(tmp_path / "gears.om"))
    assert shown.code == 0 and "[4, 3, 32, 32]" in shown.out, shown.err
    listed = asc("om", "show", str(tmp_path / "gears.om"))
    assert "gear 2: x [4, 3, 32, 32]" in listed.out and "Conv2D" in listed.out


@pytest.mark.seed("C7")
def test_image_gears_need_open_height_and_width(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    image = "--dynamic_image_size=32,32;64,64"
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_shape=x:-1,3,32,32", image)
    assert done.code == 2 and "E10019" in done.err
    done = atc(f"--model={model}", *BASE, _out(tmp_path), "--input_shape=x:1,3,32,32", image)
    assert done.code == 2 and "E10040" in done.err


@pytest.mark.seed("C7")
@pytest.mark.parametrize("arguments", [("--input_shape_range=x:[1~8,3,32,32]",), ("--input_shape=x:1~8,3,32,32",)])
def test_shape_ranges_are_refused_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, _out(tmp_path), *arguments)
    assert done.code == 2 and "E10055" in done.err and "range" in done.err
    assert not list(tmp_path.glob("*.om"))


@pytest.mark.seed("C10")
def test_success_prints_the_lines_scripts_wait_for(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done = atc(f"--model={model}", *BASE, "--output=x", "--input_shape=x:1,3,32,32", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "ATC start working now, please wait for a moment.",
        "ATC run success, the model save path is ./x.om",
        "ATC run success, welcome to the next use.",
    ]


@pytest.mark.seed("C11")
def test_unsupported_operators_are_listed_all_at_once(tmp_path: Path) -> None:
    done = atc(
        f"--model={model_path('bilstm_int8')}",
        *BASE,
        _out(tmp_path),
        "--input_shape=input_ids:1,40",
        f"--check_report={tmp_path / 'check_result.json'}",
    )
    assert done.code == 2
    assert "ATC unsupported op type: DynamicQuantizeLSTM" in done.err
    assert "ATC unsupported op type: MatMulInteger" in done.err
    report = json.loads((tmp_path / "check_result.json").read_text())
    assert report["result"] == "failed" and len(report["op"]) >= 10
    assert not list(tmp_path.glob("*.om"))


@pytest.mark.seed("C11")
def test_a_model_larger_than_the_chip_fails_with_the_tensors_to_blame(tmp_path: Path) -> None:
    model = tmp_path / "huge.onnx"
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [262144, 262144])
    shape = onnx.numpy_helper.from_array(np.array([262144, 262144], np.int64), "shape")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Expand", ["x", "shape"], ["y"], name="big")], "g", [x], [y], [shape]
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
    done = atc(f"--model={model}", "--framework=5", "--soc_version=Ascend910B1", _out(tmp_path))
    assert done.code == 2
    assert "ATC memory allocation failed" in done.err and "EE3" in done.err and "y" in done.err


def test_all_mistakes_of_a_command_line_are_reported_together(tmp_path: Path) -> None:
    done = atc("--modle=x.onnx", "--framwork=5", "--soc_version=Ascend310P3", "stray")
    assert done.code == 2
    assert "Did you mean --model?" in done.err
    assert "Did you mean --framework?" in done.err
    assert "Non-option parameter: stray" in done.err


def test_dashes_spaces_single_dashes_and_prefixes_are_accepted(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    done: Finished = atc(
        "--mod", str(model), "-framework=5", "--outp", str(tmp_path / "m"), "--soc-version", "Ascend310P3",
        "--input-shape", "x:1,3,32,32",
    )  # fmt: skip
    assert "could be any of" in done.err  # --mod fits --mode and --model
    done = atc(
        "--model", str(model), "-framework=5", "--outpu", str(tmp_path / "m"), "--soc-version", "Ascend310P3",
        "--input-shape", "x:1,3,32,32",
    )  # fmt: skip
    assert "could be any of" in done.err  # --outpu fits --output and --output_type
    done = atc(
        "--model", str(model), "-framework=5", "--output", str(tmp_path / "m"), "--soc-v", "Ascend310P3",
        "--input-shape", "x:1,3,32,32",
    )  # fmt: skip
    assert done.code == 0, done.err
