"""The search names the operators that break in fp16, no more, and none in healthy models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from asc_devkit.atc.options import from_flags
from asc_devkit.check.keep import Keep, search
from tests.check.test_localisation import _save
from tests.models import REAL_MODELS


def _search(model: Path, shape: str = "") -> Keep:
    flags = {"model": str(model), "framework": "5", "output": str(model.stem), "soc_version": "Ascend910B3"}
    return search(from_flags({**flags, **({"input_shape": shape} if shape else {})}), 0.999)


def test_an_overflow_and_a_cancellation_are_found_and_nothing_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "healthy"),
        helper.make_node("Sigmoid", ["a"], ["s"], "healthy_gate"),
        helper.make_node("Mul", ["s", "big"], ["b"], "overflow"),
        helper.make_node("Log", ["b"], ["l"], "log"),
        helper.make_node("Exp", ["s"], ["e"], "exp"),
        helper.make_node("Mul", ["s", "k"], ["g"], "large"),
        helper.make_node("Add", ["e", "g"], ["c"], "offset"),
        helper.make_node("Sub", ["c", "g"], ["d"], "cancel"),
        helper.make_node("Mul", ["l", "d"], ["y"], "last"),
    ]
    weights = {"w": rng.standard_normal((64, 64)) * 0.1, "big": np.full(64, 3e5), "k": np.full(64, 4000.0)}
    found = _search(_save(tmp_path / "m.onnx", nodes, weights, [8, 64], [8, 64]))
    assert found.reached
    assert set(found.names) == {"overflow", "log", "offset", "cancel"}


@pytest.mark.parametrize("key", ["ppocr_cls", "ppocr_det", "open_nsfw"])
def test_real_networks_need_none(key: str) -> None:
    model = REAL_MODELS[key]
    found = _search(model.path, model.input_shape)
    assert found.reached
    assert found.names == ()
