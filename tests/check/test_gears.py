"""`asc check` of a model with several shapes: every gear is judged, and the options of `atc` reach the conversion."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from asc_devkit import check
from asc_devkit.check.options import CheckOptions
from asc_devkit.report import report_schema
from tests.cli.shell import asc, onnx_cnn

BATCHES = {"dynamic_batch_size": "1,2,4"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_cnn(tmp_path_factory.mktemp("model") / "m.onnx", "images")


def options(model: Path, folder: Path, **more: object) -> CheckOptions:
    return CheckOptions(model, folder, input_shape="images:-1,3,32,32", atc_flags=BATCHES, **more)  # type: ignore[arg-type]


def test_every_gear_is_compared_and_the_largest_by_layers(model: Path, tmp_path: Path) -> None:
    result = check.run(options(model, tmp_path))
    accuracy = result.report["accuracy"]
    assert result.exit_code == 0
    assert [row["inputs"]["images"][0] for row in accuracy["gears"]] == [1, 2, 4]
    assert all(0.999 < row["cosine"] <= 1 for row in accuracy["gears"])
    assert {layer["type"] for layer in accuracy["layers"]} >= {"Conv2D+Relu", "SoftmaxV2"}
    assert result.report["model"]["inputs"][0]["shape"] == [4, 3, 32, 32]
    assert {op["type"] for op in result.report["conversion"]["operators"]} >= {"Conv2D", "SoftmaxV2"}
    assert any("layers, time and memory are of this gear" in note for note in accuracy["notes"])
    jsonschema.Draft202012Validator(report_schema()).validate(result.report)
    assert "Gear 0 (images [1, 3, 32, 32])" in (tmp_path / "report.html").read_text()


def test_one_gear_that_is_not_accurate_enough_fails_the_check(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asc_devkit.check import accuracy

    honest = accuracy.outputs
    # the second gear's outputs come out wrong
    monkeypatch.setattr(
        accuracy,
        "outputs",
        lambda session, reference, samples: [
            {**row, "cosine": 0.5 if samples.inputs[0].shape[0] == 2 else row["cosine"]}
            for row in honest(session, reference, samples)
        ],
    )
    result = check.run(options(model, tmp_path))
    assert [row["passed"] for row in result.report["accuracy"]["gears"]] == [True, False, True]
    assert result.exit_code == 1 and not result.report["accuracy"]["passed"]


def test_rows_of_data_fill_the_gears_of_the_batch(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((6, 3, 32, 32), np.float32))
    result = check.run(options(model, tmp_path / "out", data=tmp_path / "x.npy"))
    assert result.report["accuracy"]["samples"] == 6
    assert all("x.npy" in row["source"] for row in result.report["accuracy"]["gears"])


def test_options_of_atc_reach_the_conversion_and_the_next_commands(model: Path, tmp_path: Path) -> None:
    words = ("--precision_mode_v2=mixed_float16", "--enable_attr_compression", "true", "--strict")
    done = asc("check", str(model), "--input_shape=images:1,3,32,32", "-o", str(tmp_path), *words, "--json")
    report = json.loads(done.out)
    assert done.code == 0 and report["options"]["precision_mode"] == "allow_mix_precision_fp16"
    assert b"om_compress_version" in (tmp_path / "m.om").read_bytes()
    again = next(step["command"] for step in report["verdict"]["next"] if step["command"].startswith("asc check"))
    assert {"--enable-attr-compression=true", "--strict=true"} <= set(shlex.split(again))


def test_an_unknown_option_names_the_nearest_and_a_contradiction_its_rule(model: Path) -> None:
    done = asc("check", str(model), "--dynamic-batch-sise=1", "--json")
    assert done.code == 2 and "--dynamic-batch-size" in json.loads(done.out)["problems"][0]["what"]
    words = ("--dynamic-batch-size=1,2", "--dynamic-image-size=1,2;3,4", "--input-shape=images:-1,3,-1,-1")
    done = asc("convert", str(model), *words, "--json")
    assert done.code == 2 and json.loads(done.out)["problems"][0]["code"] == "E10009"
