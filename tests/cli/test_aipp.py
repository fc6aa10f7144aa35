"""--insert_op_conf on the command lines: atc, asc convert, asc run, asc om show, asc check."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from asc_devkit import npu
from tests.cli.shell import asc, atc, onnx_cnn

BASE = ("--framework=5", "--soc_version=Ascend310P3", "--input_shape=x:1,3,32,32")
CAMERA = """# a camera's picture, 64 x 48, NV12
aipp_op {
    aipp_mode: static
    input_format: YUV420SP_U8
    src_image_size_w: 64
    src_image_size_h: 48
    crop: true
    load_start_pos_w: 16
    load_start_pos_h: 8
    csc_switch: true
    min_chn_0: 103.53
    min_chn_1: 116.28
    min_chn_2: 123.675
    var_reci_chn_0: 0.0174
    var_reci_chn_1: 0.0175
    var_reci_chn_2: 0.0171
}
"""


@pytest.mark.seed("C8")
def test_insert_op_conf_makes_the_model_take_pictures(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    (tmp_path / "aipp.cfg").write_text(CAMERA)
    done = atc(
        f"--model={model}",
        *BASE,
        f"--output={tmp_path / 'm'}",
        f"--insert_op_conf={tmp_path / 'aipp.cfg'}",
        "--log=info",
    )
    assert done.code == 0, done.err
    assert "is recorded" not in done.err  # the note of options without effect
    assert "AIPP: input x takes uint8 YUV420SP_U8 pictures of 64 x 48" in done.err
    session = npu.load(tmp_path / "m.om")
    assert [(t.name, t.shape, t.dtype) for t in session.inputs] == [("x", (1, 72, 64, 1), np.uint8)]
    (scores,) = session.run([np.full((1, 72, 64, 1), 128, np.uint8)]).values()
    assert scores.shape == (1, 10) and abs(float(scores.sum()) - 1) < 1e-2


@pytest.mark.seed("C8")
def test_mistakes_in_the_configuration_are_listed_and_no_om_is_written(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    (tmp_path / "aipp.cfg").write_text(
        CAMERA.replace("load_start_pos_w: 16", "load_start_pos_w: 15").replace("csc", "cs")
    )
    done = atc(f"--model={model}", *BASE, f"--output={tmp_path / 'm'}", f"--insert_op_conf={tmp_path / 'aipp.cfg'}")
    assert done.code == 2
    assert done.err.count("E10052") == 2
    assert "Did you mean csc_switch?" in done.err and "needs an even number" in done.err
    assert not (tmp_path / "m.om").exists()


def test_run_and_show_know_the_picture(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    (tmp_path / "aipp.cfg").write_text(CAMERA)
    done = asc(
        "convert", str(model), "--input-shape", "x:1,3,32,32", "--insert-op-conf", str(tmp_path / "aipp.cfg"),
        "-o", str(tmp_path / "m"),
    )  # fmt: skip
    assert done.code == 0, done.err
    shown = asc("om", "show", str(tmp_path / "m.om"))
    assert "x  uint8 [1, 48, 64, 3], to be fed as [1, 72, 64, 1]" in shown.out
    ran = asc("run", str(tmp_path / "m.om"), "--json", "--no-cache")
    fed = json.loads(ran.out)["runs"][0]["inputs"]["x"]
    assert (fed["dtype"], fed["shape"]) == ("uint8", [1, 72, 64, 1]) and fed["max"] > 200
    np.arange(72 * 64, dtype=np.uint8).tofile(tmp_path / "picture.bin")
    again = asc("run", str(tmp_path / "m.om"), "-i", f"x={tmp_path / 'picture.bin'}", "--no-cache")
    assert again.code == 0, again.err


def test_check_compares_with_the_original_on_the_same_pictures(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", input_name="x")
    (tmp_path / "aipp.cfg").write_text(CAMERA)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "pictures.npy", rng.integers(0, 256, (5, 72, 64, 1), np.uint8))
    done = asc(
        "check", str(model), "--input-shape", "x:1,3,32,32", "--insert-op-conf", str(tmp_path / "aipp.cfg"),
        "--data", str(tmp_path / "pictures.npy"), "-o", str(tmp_path / "out"), "--threads", "1",
    )  # fmt: skip
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    accuracy = report["accuracy"]
    assert accuracy["samples"] == 5 and accuracy["passed"]
    assert accuracy["outputs"][0]["cosine"] > 0.9999
    assert report["model"]["inputs"] == [{"name": "x", "dtype": "uint8", "shape": [1, 72, 64, 1]}]
    assert any("the same pixels" in note for note in accuracy["notes"])
