"""Models for the interface tests: a static one with two inputs and one with gears of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.npu.build import compile_model, compiled, proto


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sum = a + b, product = a * b; float32 [2, 3]."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Mul", ["a", "b"], ["product"])]
    model = proto(nodes, {"a": (2, 3), "b": (2, 3)}, {"sum": (2, 3), "product": (2, 3)})
    return compiled(model, tmp_path_factory.mktemp("pair"))


def _geared(folder: Path, **flags: str) -> Path:
    """y = 2x, x float32 [n, 1, h, w]."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["y"])]
    model = proto(nodes, {"x": (1, 1, 4, 4)}, {"y": (1, 1, 4, 4)}, {"two": np.array([2.0], np.float32)})
    for value in (*model.graph.input, *model.graph.output):
        for axis, name in ((0, "n"), (2, "h"), (3, "w")):
            value.type.tensor_type.shape.dim[axis].dim_param = name
    path = folder / "geared.onnx"
    onnx.save(model, path)
    return compile_model(path, folder, **flags)


@pytest.fixture(scope="session")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _geared(tmp_path_factory.mktemp("b"), input_shape="x:-1,1,4,4", dynamic_batch_size="1,2,4")


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _geared(tmp_path_factory.mktemp("i"), input_shape="x:1,1,-1,-1", dynamic_image_size="4,6;6,4")


@pytest.fixture(scope="session")
def dims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _geared(tmp_path_factory.mktemp("d"), input_shape="x:-1,1,-1,4", dynamic_dims="1,4;2,8", input_format="ND")
