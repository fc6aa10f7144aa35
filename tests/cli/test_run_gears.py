"""`asc run` on a model with gears: the gear by option, by the bytes of raw files, by the shape of .npy files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from asc_devkit import atc
from asc_devkit.atc.options import from_flags
from tests.cli.shell import Finished, asc

GEARS = ((4, 6), (2, 12), (8, 8))  # the first two have the same bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gears")
    shape = ["n", 3, "h", "w"]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), made / "m.onnx")
    common = {"model": str(made / "m.onnx"), "framework": "5", "soc_version": "Ascend310P3"}
    sizes = ";".join(f"{h},{w}" for h, w in GEARS)
    for name, flags in (
        ("hw", {"input_shape": "x:1,3,-1,-1", "dynamic_image_size": sizes}),
        ("batch", {"input_shape": "x:-1,3,2,2", "dynamic_batch_size": "1,4"}),
        ("static", {"input_shape": "x:1,3,2,2"}),
    ):
        atc.compile(from_flags({**common, **flags, "output": str(made / name)}))
    for h, w in (*GEARS, (5, 5)):
        x = np.full((1, 3, h, w), h, np.float32)
        x.tofile(made / f"x{h}x{w}.bin")
        np.save(made / f"x{h}x{w}.npy", x)
    return made


def shape_of(done: Finished) -> list[int]:
    assert done.code == 0, done
    made: list[int] = json.loads(done.out)["runs"][0]["outputs"]["y"]["shape"]
    return made


@pytest.mark.parametrize("suffix", ["npy", "bin"])
def test_the_file_tells_the_gear(folder: Path, suffix: str) -> None:
    done = asc("run", str(folder / "hw.om"), "--json", "-i", str(folder / f"x8x8.{suffix}"))
    assert shape_of(done) == [1, 3, 8, 8]


@pytest.mark.provokes("ASC4017")
def test_raw_files_that_fit_two_gears_need_an_option(folder: Path) -> None:
    words = ("run", str(folder / "hw.om"), "--json", "-i", str(folder / "x2x12.bin"))
    unclear = asc(*words)
    assert unclear.code == 2 and "ASC4017" in unclear.err and "[1, 3, 4, 6]" in unclear.err
    assert shape_of(asc(*words, "--dymHW", "2,12")) == [1, 3, 2, 12]
    assert shape_of(asc(*words, "--dymDims", "x:1,3,4,6")) == [1, 3, 4, 6]


def test_random_inputs_take_the_gear_that_is_asked_for(folder: Path) -> None:
    assert shape_of(asc("run", str(folder / "batch.om"), "--json", "--dymBatch", "1")) == [1, 3, 2, 2]
    assert shape_of(asc("run", str(folder / "batch.om"), "--json")) == [4, 3, 2, 2]


@pytest.mark.parametrize(
    ("model", "words", "code"),
    [
        ("hw", ("--dymHW", "9,9"), "ASC4013"),
        ("hw", ("--dymDims", "x:1,3,9,9"), "ASC4013"),
        ("batch", ("--dymBatch", "3"), "ASC4013"),
        ("hw", ("-i", "x5x5.bin"), "ASC4013"),
        ("hw", ("-i", "x5x5.npy"), "ASC4013"),
        ("hw", ("--dymHW", "8"), "ASC4016"),
        ("hw", ("--dymHW", "8,8", "--dymBatch", "1"), "ASC4016"),
        ("static", ("--dymBatch", "1"), "ASC4016"),
        pytest.param("static", ("--aipp", "a.cfg"), "ASC4016", marks=pytest.mark.provokes("ASC4016")),
    ],
)
def test_what_fits_no_gear_is_refused_with_the_gears(
    folder: Path, model: str, words: tuple[str, ...], code: str
) -> None:
    done = asc("run", str(folder / f"{model}.om"), *words, cwd=folder)
    assert done.code == 2 and code in done.err and "Traceback" not in done.err
    if code == "ASC4013":
        assert "gear 0" in done.err and "gear 1" in done.err
