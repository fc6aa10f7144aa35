"""Whole Caffe nets: phases, old forms, in-place layers, a real public model, and what is said about faulty ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asc_devkit import atc, npu, om
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.frontends import caffe
from tests.cli.shell import asc
from tests.cli.shell import atc as atc_command
from tests.frontends.caffe_nets import Array, Weights, caffemodel, converted, inputs_text, opencv, run
from tests.models import foreign_model_files

RNG = np.random.default_rng(3)


def _w(*shape: int) -> Array:
    return (RNG.standard_normal(shape) * 0.3).astype(np.float32)


NET = """
name: "small" # comments, single quotes and lists are part of the format
layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } data_param { batch_size: 8 } }
layer { name: 'data' type: 'Input' top: 'data' include: { phase: TEST } input_param { shape: { dim: [2, 3, 16, 16] } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 }
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param < use_global_stats: true > }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 group: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "conv2" bottom: "pool1" top: "sum" }
layer { name: "drop" type: "Dropout" bottom: "sum" top: "sum" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc" type: "InnerProduct" bottom: "sum" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" exclude { phase: TRAIN } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" include { phase: TRAIN } }
layer { name: "top1" type: "Accuracy" bottom: "fc" bottom: "label" top: "top1" include { phase: TEST stage: "val" } }
"""


def _weights() -> dict[str, list[Array]]:
    return {
        "conv1": [_w(8, 3, 3, 3), _w(8)],
        "bn1": [_w(8) * 2, np.abs(_w(8)) + 1, np.float32([2])],
        "scale1": [_w(8) + 1, _w(8)],
        "conv2": [_w(8, 4, 3, 3), _w(8)],
        "fc": [_w(5, 512), _w(5)],
    }


def _files(folder: Path, text: str, weights: Weights) -> tuple[Path, Path]:
    (folder / "net.prototxt").write_text(text)
    (folder / "net.caffemodel").write_bytes(caffemodel(weights))
    return folder / "net.prototxt", folder / "net.caffemodel"


def _refusal(text: str, weights: Weights | None = None) -> list[str]:
    with pytest.raises(AscError) as caught:
        caffe.to_onnx(text.encode(), caffemodel(weights or {"none": [_w(1)]}), "net.prototxt")
    return [f"{p.code} {p.what} {p.fix}" for p in caught.value.problems]


@pytest.mark.seed("C9")
@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp16"])
def test_atc_converts_a_caffe_net_and_it_computes_what_opencv_computes(tmp_path: Path, mode: str) -> None:
    weights = _weights()
    prototxt, caffemodel_file = _files(tmp_path, NET, weights)
    done = atc_command(
        f"--model={prototxt}", f"--weight={caffemodel_file}", "--framework=0", f"--output={tmp_path / 'net'}",
        "--soc_version=Ascend910B2", f"--precision_mode={mode}",
    )  # fmt: skip
    assert done.code == 0, done.out + done.err
    x = _w(2, 3, 16, 16)
    got = npu.load(tmp_path / "net.om").run({"data": x})
    assert list(got) == ["prob"]
    test_only = "\n".join(line for line in NET.splitlines() if "label" not in line)
    (expected,) = opencv(tmp_path, test_only, weights, {"data": x})
    np.testing.assert_allclose(got["prob"], expected, atol=1e-5 if mode != "force_fp16" else 3e-3)
    assert om.read(tmp_path / "net.om").attrs["framework_type"] == 0


@pytest.mark.seed("C9")
def test_a_real_caffe_model_gives_the_probabilities_opencv_gives(tmp_path: Path) -> None:
    import cv2

    prototxt, weights = foreign_model_files("open_nsfw_caffe")
    done = asc("convert", str(prototxt), "--weight", str(weights), "--soc", "Ascend310P3", "-o", str(tmp_path / "nsfw"))
    assert done.code == 0, done.err
    x = (RNG.standard_normal((1, 3, 224, 224)) * 50).astype(np.float32)
    got = npu.load(tmp_path / "nsfw.om").run({"data": x})["prob"]
    net = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    net.setInput(x, "data")
    np.testing.assert_allclose(got, net.forward("prob"), atol=2e-3)


def test_gears_of_the_batch_axis(tmp_path: Path) -> None:
    prototxt, weights = _files(tmp_path, NET, _weights())
    flags = {
        "model": str(prototxt), "weight": str(weights), "framework": "0", "output": str(tmp_path / "m"),
        "soc_version": "Ascend310P3", "input_shape": "data:-1,3,16,16", "dynamic_batch_size": "1,3",
    }  # fmt: skip
    atc.compile(from_flags(flags))
    session, x = npu.load(tmp_path / "m.om"), _w(3, 3, 16, 16)
    whole = session.run({"data": x})["prob"]
    np.testing.assert_allclose(session.run({"data": x[1:2]})["prob"][0], whole[1], atol=1e-3)


def test_out_nodes_name_layers_and_blobs(tmp_path: Path) -> None:
    prototxt, weights = _files(tmp_path, NET, _weights())
    flags = {
        "model": str(prototxt), "weight": str(weights), "framework": "0", "output": str(tmp_path / "m"),
        "soc_version": "Ascend310P3", "out_nodes": "bn1:0;pool1",
    }  # fmt: skip
    atc.compile(from_flags(flags))
    assert [tuple(t.shape) for t in om.read(tmp_path / "m.om").outputs] == [(2, 8, 16, 16), (2, 8, 8, 8)]


def test_what_out_nodes_cut_away_need_not_be_convertible() -> None:
    text = NET + 'layer { name: "late" type: "Python" bottom: "prob" top: "late" }'
    model, _ = caffe.to_onnx(text.encode(), caffemodel(_weights()), "net.prototxt", out_nodes=["pool1:0", "conv2"])
    assert [n.name for n in model.graph.node][-1] == "conv2"
    assert {o.name for o in model.graph.output} == {"conv2"}
    with pytest.raises(AscError, match="Python"):
        caffe.to_onnx(text.encode(), caffemodel(_weights()), "net.prototxt")


def test_an_in_place_layer_keeps_the_blob_name_for_its_last_version() -> None:
    model, _ = converted(NET, _weights())
    producer = {output: node.name for node in model.graph.node for output in node.output}
    assert producer["conv1"] == "relu1"
    assert producer["conv1/conv1"] == "conv1"
    assert [o.name for o in model.graph.output] == ["prob"]
    assert [i.name for i in model.graph.input] == ["data"]


def test_layers_written_before_2014_convert_alike() -> None:
    old = """name: "old" input: "data" input_dim: 2 input_dim: 3 input_dim: 16 input_dim: 16
    layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1
      convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }
    layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
    layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
    layers { name: "fc" type: INNER_PRODUCT bottom: "pool1" top: "fc" inner_product_param { num_output: 5 } }"""
    weights = {"conv1": [_w(8, 3, 3, 3), _w(8)], "fc": [_w(5, 512), _w(5)]}
    model, warnings = converted(old, weights, old=True, four_dims=True)
    assert "E11021" in warnings[0]
    new = old.replace("layers", "layer").replace("blobs_lr: 1", "")
    for before, after in (
        ("CONVOLUTION", "Convolution"),
        ("RELU", "ReLU"),
        ("POOLING", "Pooling"),
        ("INNER_PRODUCT", "InnerProduct"),
    ):
        new = new.replace(f"type: {before}", f'type: "{after}"')
    x = {"data": _w(2, 3, 16, 16)}
    np.testing.assert_array_equal(run(model, x)["fc"], run(converted(new, weights)[0], x)["fc"])


def test_a_training_net_loses_what_only_trains() -> None:
    text = """layer { name: "d" type: "Data" top: "data" top: "label" }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }"""
    model, warnings = converted(text, {"ip": [_w(2, 6), _w(2)]}, {"data": (4, 6)})
    assert [i.name for i in model.graph.input] == ["data"]
    assert [o.name for o in model.graph.output] == ["ip"]
    assert any("'d'" in w for w in warnings) and any("loss" in w for w in warnings)


def test_a_misspelt_field_is_pointed_out() -> None:
    text = inputs_text({"x": (1, 2, 6, 6)})
    text += 'layer { name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { kernel_size: 2 strid: 2 } }'
    _, warnings = converted(text, {"none": [_w(1)]})
    assert warnings == ["layer 'p': the field 'strid' is not known and has no effect; did you mean 'stride'?"]


@pytest.mark.provokes("E11009")
def test_all_unsupported_layer_types_are_named_at_once() -> None:
    text = inputs_text({"x": (1, 2, 6, 6)})
    text += 'layer { name: "a" type: "Python" bottom: "x" top: "a" }'
    text += 'layer { name: "b" type: "Convolutoin" bottom: "a" top: "b" }'
    python, misspelt = _refusal(text)
    assert python.startswith("E11009 ATC unsupported op type: Python")
    assert "did you mean 'Convolution'" in misspelt


@pytest.mark.provokes("E11029")
def test_weights_that_are_missing_are_all_named() -> None:
    weights = _weights()
    weights["conv-1"] = weights.pop("conv1")
    weights.pop("fc")
    first, second = _refusal(NET, weights)
    assert first.startswith("E11029 layer 'conv1'") and "did you mean 'conv-1'" in first
    assert second.startswith("E11029 layer 'fc'")


def test_weights_of_the_wrong_shape_are_refused_with_both_shapes() -> None:
    (said,) = _refusal(NET, _weights() | {"fc": [_w(5, 500), _w(5)]})
    assert said.startswith("E14001 layer 'fc'") and "[5, 500]" in said and "[5, 512]" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", ["E11032", "no layer"], marks=pytest.mark.provokes("E11032")),
        ("layer { name: 'a'", ["E11032", "ends inside"]),
        ("layer { name: 'a' type: 3 }", ["E11032", "line 1", "type"]),
        ("layer { name 'a' }", ["E11032", "colon"]),
        ("\n\nlayer }", ["E11032", "line 3"]),
        ("layer { name: 'a' type: 'ReLU' } layers { type: RELU }", ["E11032", "both"]),
        ("layer { " * 200, ["E11032", "nested"]),
        ("input: 'x' layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }", ["E10001", "--input_shape=\"x:"]),
        pytest.param(inputs_text({"x": (1, 0, 3, 3)}) + "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }", ["E11027"],
                     marks=pytest.mark.provokes("E11027")),
        pytest.param("layer { name: 'r' type: 'ReLU' }", ["E11022", "no input"], marks=pytest.mark.provokes("E11022")),
        (inputs_text({"x": (1, 2)}) + "layer { name: 'r' type: 'ReLU' bottom: 'z' top: 'y' }", ["E14001", "'z'"]),
        (inputs_text({"x": (1, 2)}) + "layer { name: 'r' type: 'Concat' bottom: 'x' top: 'y' concat_param { axis: 9 } }",
         ["E14001", "axis 9"]),
        (inputs_text({"x": (1, 2, 3, 3)}) + "layer { type: 'Pooling' bottom: 'x' top: 'y' pooling_param { pool: BIG } }",
         ["E14001", "MAX, AVE, STOCHASTIC"]),
    ],
)  # fmt: skip
def test_a_faulty_net_is_refused_with_the_place_and_the_reason(text: str, words: list[str]) -> None:
    (said,) = _refusal(text)
    for word in words:
        assert word in said, said


def test_the_weight_file_is_asked_for_and_checked(tmp_path: Path) -> None:
    prototxt, _ = _files(tmp_path, NET, _weights())
    common = (f"--model={prototxt}", "--framework=0", f"--output={tmp_path / 'm'}", "--soc_version=Ascend310P3")
    done = atc_command(*common)
    assert done.code == 2 and "E10008" in done.err + done.out
    done = atc_command(*common, f"--weight={prototxt}")
    assert done.code == 2 and "E11032" in done.err + done.out
    assert "Traceback" not in done.err
