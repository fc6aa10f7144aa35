"""Implementation modes in execution: fp16 inner steps and HF32 operands, against numpy's own half arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from asc_devkit import npu
from asc_devkit.ge import impl_modes
from asc_devkit.npu.kernels import FORMS
from asc_devkit.npu.numerics import hf32
from tests.npu.build import Array, compile_model, proto

RNG = np.random.default_rng(11)
X = (RNG.standard_normal((16, 64)) * 2).astype(np.float32)
H = np.float16
ONE = H(1)


def _sum(v: Array) -> Array:
    return np.sum(v, axis=-1, keepdims=True, dtype=np.float32).astype(H)


def _mean(v: Array) -> Array:
    return np.mean(v, axis=-1, keepdims=True, dtype=np.float32).astype(H)


def _sigmoid(v: Array) -> Array:
    return ONE / (np.exp(-v) + ONE)


def _tanh(v: Array) -> Array:
    decay = np.exp(np.abs(v) * H(-2))
    return (ONE - decay) / (decay + ONE) * np.sign(v)


def _softplus(v: Array) -> Array:
    return np.maximum(v, H(0)) + np.log(np.exp(-np.abs(v)) + ONE)


def _softmax(v: Array) -> Array:
    power = np.exp(v - v.max(-1, keepdims=True))
    return power / _sum(power)


def _log_softmax(v: Array) -> Array:
    below = v - v.max(-1, keepdims=True)
    return below - np.log(_sum(np.exp(below)))


def _gelu(v: Array) -> Array:
    return v * _sigmoid((v * v * v * H(0.044715) + v) * H(1.5957691216))


def _layer_norm(v: Array) -> Array:
    centred = v - _mean(v)
    spread = np.sqrt(_mean(centred * centred) + H(1e-5))
    return centred * (ONE / spread) * H(1.25) + H(0.5)


def _erf(v: Array) -> Array:
    size = np.abs(v)
    t = ONE / (size * H(0.3275911) + ONE)
    series: Array = np.full_like(v, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = t * series + H(factor)
    return (ONE - series * t * np.exp(-(size * size))) * np.sign(v)


Node = Callable[[], list[onnx.NodeProto]]


def _one(kind: str, *more: str, **attrs: object) -> Node:
    return lambda: [helper.make_node(kind, ["x", *more], ["y"], "the_op", **attrs)]


CONSTANTS = {
    "gamma": np.full(64, 1.25, np.float32),
    "beta": np.full(64, 0.5, np.float32),
    "cube": np.array(3.0, np.float32),
    "odd": np.array(5.0, np.float32),
    "divisor": (RNG.standard_normal((16, 64)) + 3).astype(np.float32),
}
CASES: dict[str, tuple[Node, Callable[[Array], Array]]] = {
    "SoftmaxV2": (_one("Softmax", axis=-1), _softmax),
    "LogSoftmaxV2": (_one("LogSoftmax", axis=-1), _log_softmax),
    "Sigmoid": (_one("Sigmoid"), _sigmoid),
    "Tanh": (_one("Tanh"), _tanh),
    "Softplus": (_one("Softplus"), _softplus),
    "Mish": (_one("Mish"), lambda v: v * _tanh(_softplus(v))),
    "GeluV2": (_one("Gelu"), _gelu),
    "Erf": (_one("Erf"), _erf),
    "HardSwish": (_one("HardSwish"), lambda v: v * np.clip(v + H(3), H(0), H(6)) * H(1 / 6)),
    "LayerNormV3": (_one("LayerNormalization", "gamma", "beta", epsilon=1e-5), _layer_norm),
    "Pow": (_one("Pow", "odd"), lambda v: np.exp(np.log(np.abs(v)) * H(5)) * np.sign(v)),
    "RealDiv": (_one("Div", "divisor"), lambda v: v * (ONE / CONSTANTS["divisor"].astype(H))),
}


def _run(folder: Path, nodes: Node, **flags: str) -> tuple[Array, npu.Session]:
    folder.mkdir(exist_ok=True)
    model = proto(nodes(), {"x": X.shape}, {"y": X.shape}, CONSTANTS)
    model.opset_import[0].version = 20
    used = {name for node in model.graph.node for name in node.input}
    kept = [t for t in model.graph.initializer if t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    path = folder / "model.onnx"
    onnx.save(model, path)
    flags.setdefault("soc", "Ascend910B2")
    session = npu.load(compile_model(path, folder, **flags), threads=1)
    return session.run({"x": X})["y"], session


@pytest.mark.parametrize("kind", CASES)
def test_high_performance_rounds_every_inner_step_to_fp16(tmp_path: Path, kind: str) -> None:
    nodes, steps = CASES[kind]
    got, session = _run(tmp_path / "fast", nodes, op_select_implmode="high_performance")
    assert [o.op_type for o in session.operators if o.op_type == kind] == [kind]
    with np.errstate(all="ignore"):
        expected = steps(X.astype(H)).astype(np.float32)
    # exp and log differ in the last bit between fp32 libraries, which moves a step over a rounding border now and then
    close = np.isclose(got, expected, rtol=2**-9, atol=2**-12)
    assert close.mean() > 0.995
    assert (got == expected).mean() > 0.95

    plain, _ = _run(tmp_path / "plain", nodes)
    assert (plain != got).mean() > 0.02  # a visible effect
    precise, _ = _run(tmp_path / "precise", nodes, op_select_implmode="high_precision_for_all")
    np.testing.assert_array_equal(precise, plain)


def test_the_conversion_and_the_execution_name_the_same_operators() -> None:
    assert set(FORMS) == impl_modes.TWO_FORMS


def test_average_pooling_multiplies_the_sum_by_an_fp16_reciprocal(tmp_path: Path) -> None:
    x = RNG.random((1, 4, 12, 12)).astype(np.float32)
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 3])
    onnx.save(proto([node], {"x": x.shape}, {"y": (1, 4, 4, 4)}), tmp_path / "m.onnx")
    om = compile_model(tmp_path / "m.onnx", tmp_path, op_select_implmode="high_performance")
    got = npu.load(om, threads=1).run({"x": x})["y"]
    sums = x.astype(H).astype(np.float64).reshape(1, 4, 4, 3, 4, 3).sum((3, 5)).astype(H)
    np.testing.assert_array_equal(got, (sums * H(1 / 9)).astype(np.float32))


def test_a_mode_reaches_members_of_fused_groups_and_only_them(tmp_path: Path) -> None:
    w = RNG.standard_normal((64, 64)).astype(np.float32) * 0.1
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"], "gate")]
    onnx.save(proto(nodes, {"x": X.shape}, {"y": X.shape}, {"w": w}), tmp_path / "m.onnx")
    ini = tmp_path / "modes.ini"
    ini.write_text("[ByNodeName]\ngate=keep_fp16\n")
    om = compile_model(tmp_path / "m.onnx", tmp_path, soc="Ascend910B2", op_precision_mode=str(ini))
    got = npu.load(om, threads=1).run({"x": X})["y"]
    product = (X.astype(H).astype(np.float64) @ w.astype(H).astype(np.float64)).astype(H)
    assert np.isclose(got, _sigmoid(product).astype(np.float32), rtol=2**-9).mean() > 0.98
    assert (got != (1 / (1 + np.exp(-product.astype(np.float64)))).astype(H).astype(np.float32)).mean() > 0.02


# --- HF32 -------------------------------------------------------------------------------------------------------------


def _hf32_by_hand(value: float) -> float:
    """Nearest multiple of the 12-bit unit, ties to even, in exact arithmetic."""
    mantissa, exponent = np.frexp(np.float64(value))
    return float(np.ldexp(np.rint(np.ldexp(mantissa, 12)), int(exponent) - 12))  # rint: ties to even


def test_hf32_keeps_twelve_significant_bits_and_breaks_ties_to_even() -> None:
    bits = RNG.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32)
    bits[::2] = (bits[::2] & np.uint32(0xFFFFF000)) | np.uint32(0x800)  # exactly between two neighbours
    values = bits.view(np.float32)
    values = values[np.isfinite(values) & (np.abs(values) > 1e-30) & (np.abs(values) < 1e30)]
    np.testing.assert_array_equal(hf32(values), np.array([_hf32_by_hand(v) for v in values], np.float32))
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(hf32(special), special)


def _product(folder: Path, a: Array, b: Array, soc: str = "Ascend910B2", **flags: str) -> Array:
    folder.mkdir(exist_ok=True)
    node = helper.make_node("MatMul", ["a", "b"], ["y"], "product")
    onnx.save(proto([node], {"a": a.shape, "b": b.shape}, {"y": (a.shape[0], b.shape[1])}), folder / "m.onnx")
    om = compile_model(folder / "m.onnx", folder, soc=soc, mode="must_keep_origin_dtype", **flags)
    return npu.load(om, threads=1).run({"a": a, "b": b})["y"]


def test_allow_hf32_rounds_the_operands_and_nothing_else(tmp_path: Path) -> None:
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in ((32, 128), (128, 16)))
    a[0, 0] = np.ldexp(1 + 2**-12, 3)  # a tie: rounds down to the even 8.0
    got = _product(tmp_path / "on", a, b, allow_hf32="true")
    rounded = [np.vectorize(_hf32_by_hand)(v.astype(np.float64)) for v in (a, b)]
    np.testing.assert_allclose(got, rounded[0] @ rounded[1], rtol=1e-5, atol=1e-5)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    off = _product(tmp_path / "off", a, b)
    np.testing.assert_allclose(off, exact, rtol=1e-5, atol=1e-5)
    error = np.abs(got - exact).max()
    assert 1e-4 < error < 128 * 16 * 2.0**-12  # of the size of HF32, neither fp32's nor fp16's
    np.testing.assert_array_equal(_product(tmp_path / "false", a, b, allow_hf32="false"), off)


def test_hf32_lets_numbers_pass_that_its_splitting_would_overflow(tmp_path: Path) -> None:
    a = np.array([[3e38, 0.0], [np.inf, 1.0], [2.0**-130, 0.0]], np.float32)
    b = np.array([[1.0], [0.0]], np.float32)
    got = _product(tmp_path, a, b, allow_hf32="true")
    assert got[0, 0] == np.float32(3e38)
    assert got[1, 0] == np.inf
    assert got[2, 0] == 2.0**-130


def test_hf32_of_weights_in_a_convolution(tmp_path: Path) -> None:
    x = RNG.standard_normal((1, 8, 6, 6)).astype(np.float32)
    w = RNG.standard_normal((4, 8, 1, 1)).astype(np.float32)
    bias = np.array([1 + 2**-20, 2, 3, 4], np.float32)
    node = helper.make_node("Conv", ["x", "w", "bias"], ["y"])
    onnx.save(proto([node], {"x": x.shape}, {"y": (1, 4, 6, 6)}, {"w": w, "bias": bias}), tmp_path / "m.onnx")
    om = compile_model(tmp_path / "m.onnx", tmp_path, "Ascend910B2", "must_keep_origin_dtype", allow_hf32="true")
    got = npu.load(om, threads=1).run({"x": x})["y"]
    by_hand = np.vectorize(_hf32_by_hand)
    expected = np.einsum("nchw,oc->nohw", by_hand(x), by_hand(w[:, :, 0, 0])) + bias[None, :, None, None]
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)
