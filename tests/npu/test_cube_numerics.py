"""Cube operators: 16-bit operands, wide accumulation, one rounding per fused group; expected values from numpy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from asc_devkit import npu
from tests.npu.build import Array, compiled, proto

LIMIT = 65504.0


def _conv_fp64(x: Array, w: Array, pad: int) -> Array:
    """Plain convolution, stride 1, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    result: Array = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    return result


def _half(a: Array) -> Array:
    return a.astype(np.float16)


def _ulp_apart(a: Array, b: Array) -> Array:
    """Distance of two fp16 arrays in units of the last place."""

    def line(v: Array) -> Array:
        bits = v.view(np.int16).astype(np.int32)
        return np.where(bits < 0, -(bits & 0x7FFF), bits)

    return np.abs(line(a) - line(b))


def _assert_single_rounding(got: Array, exact: Array) -> None:
    """fp32 accumulation may tip a tie; a second rounding anywhere would move a tenth of the results."""
    apart = _ulp_apart(got.astype(np.float16), _half(exact))
    assert apart.max() <= 1
    assert np.mean(apart != 0) < 0.02  # sums in another order fall on the other side of a tie now and then


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_conv_rounds_operands_and_result_once(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 16, 14, 14)).astype(np.float32)
    w = (rng.standard_normal((32, 16, 3, 3)) * 0.1).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    om = compiled(proto([node], {"x": x.shape}, {"y": (1, 32, 14, 14)}, {"w": w}), tmp_path)
    got = npu.load(om, threads=1).run({"x": x})["y"]
    assert got.dtype == np.float32  # a Cast at the border restores the user's type
    _assert_single_rounding(got, _conv_fp64(_half(x), _half(w), 1))


def test_matmul_of_two_inputs(tmp_path: Path, rng: np.random.Generator) -> None:
    a = rng.standard_normal((2, 64, 96)).astype(np.float32)
    b = rng.standard_normal((2, 96, 48)).astype(np.float32)
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    om = compiled(proto([node], {"a": a.shape, "b": b.shape}, {"y": (2, 64, 48)}), tmp_path)
    got = npu.load(om, threads=1).run({"a": a, "b": b})["y"]
    _assert_single_rounding(got, _half(a).astype(np.float64) @ _half(b).astype(np.float64))


def test_a_fused_group_keeps_the_wide_accumulator(tmp_path: Path, rng: np.random.Generator) -> None:
    """Conv + bias + Relu is one group: its inside exceeds fp16, its result does not."""
    x = np.full((1, 16, 4, 4), 100.0, np.float32)
    w = np.full((16, 16, 1, 1), 100.0, np.float32)  # 16 * 100 * 100 = 160000
    bias = np.full(16, -60000.0, np.float32)  # in between 160000 - 60000 = 100000 > 65504
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("Clip", ["c", "lo", "hi"], ["y"]),
    ]
    constants = {"w": w, "b": bias, "lo": np.float32(0), "hi": np.float32(6)}
    om = compiled(proto(nodes, {"x": x.shape}, {"y": x.shape}, constants), tmp_path)
    session = npu.load(om, threads=1)
    assert (session.run({"x": x})["y"] == 6).all()
    conv = next(o for o in session.operators if o.op_type == "Conv2D")
    assert conv.members[0][1] == "Conv2D"


def test_two_operators_that_are_not_fused_round_twice(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 256)).astype(np.float32)
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Sin", ["e"], ["y"])]
    om = compiled(proto(nodes, {"x": x.shape}, {"y": x.shape}), tmp_path)
    session = npu.load(om, threads=1)
    outputs, values = session.run_with_values({"x": x}, ["e"])
    assert values["e"].dtype == np.float16
    _assert_single_rounding(values["e"], np.exp(_half(x).astype(np.float64)))
    _assert_single_rounding(outputs["y"], np.sin(values["e"].astype(np.float64)))


@pytest.mark.parametrize(("soc", "expected"), [("Ascend310P3", LIMIT), ("Ascend910B2", np.inf)])
def test_overflow_follows_the_chip(tmp_path: Path, soc: str, expected: float) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    om = compiled(proto([node], {"a": (2, 64), "b": (64, 2)}, {"y": (2, 2)}), tmp_path, soc)
    a, b = np.full((2, 64), 200.0, np.float32), np.full((64, 2), 200.0, np.float32)
    assert (npu.load(om, threads=1).run({"a": a, "b": b})["y"] == expected).all()
    assert (npu.load(om, threads=1).run({"a": -a, "b": b})["y"] == -expected).all()


def test_overflow_can_be_chosen_and_is_recorded(tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["a", "a"], ["y"])
    om = compiled(proto([node], {"a": (4,)}, {"y": (4,)}), tmp_path)
    a = np.array([300.0, 255.9, np.nan, 1e9], np.float32)
    for mode, first in (("saturate", LIMIT), ("infnan", np.inf)):
        session = npu.load(om, threads=1, overflow=mode)
        got = session.run({"a": a})["y"]
        assert session.info["overflow_mode"] == mode
        assert got[0] == first
        assert got[1] == np.float32(np.float16(np.float32(np.float16(255.9)) ** 2))
        assert np.isnan(got[2])  # a NaN stays a NaN
        assert got[3] == first


def test_bfloat16_keeps_range_and_eight_bits(tmp_path: Path, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((1, 16, 8, 8)) * 1e5).astype(np.float32)
    w = rng.standard_normal((16, 16, 1, 1)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    model = proto([node], {"x": x.shape}, {"y": x.shape}, {"w": w})
    om = compiled(model, tmp_path, "Ascend910B2", "allow_mix_precision_bf16")
    session = npu.load(om, threads=1)
    outputs, values = session.run_with_values({"x": x})
    conv = next(o for o in session.operators if o.op_type == "Conv2D")
    assert conv.dtype == "BFLOAT16"
    got = values[conv.value]
    assert got.dtype == ml_dtypes.bfloat16
    exact = _conv_fp64(x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16), 0)
    wanted = exact.astype(np.float32).astype(ml_dtypes.bfloat16)
    assert np.mean(got != wanted) < 0.02
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=2**-7)
    assert outputs["y"].dtype == np.float32
