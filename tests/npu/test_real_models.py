"""Real models: every operator output is one rounding of its own inputs, and dumping changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from asc_devkit import npu, om
from asc_devkit.ops import convert
from tests.models import REAL_MODELS, example_inputs, model_path
from tests.npu.build import Array

RealOm = Callable[..., Path]
SUPPORTED = sorted(REAL_MODELS.keys() - {"bilstm_int8"})


def _feed(session: npu.Session, key: str) -> dict[str, Array]:
    feeds = example_inputs(key)
    return {t.name: feeds[t.name] for t in session.inputs}


def _original(key: str) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(str(model_path(key)))
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, example_inputs(key)), strict=True))


def _cosine(a: Array, b: Array) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def _recompute(path: Path, feed: dict[str, Array], values: dict[str, Array]) -> dict[str, Array]:
    """Each operator (or fused group) alone, from the dumped values of its inputs, by ONNX Runtime without optimisation,
    then rounded by numpy: no part of the virtual NPU's rewriting takes part."""
    model = om.read(path).to_ir()
    names: dict[ir.Value, str] = {}
    lowered = ir.to_proto(convert.to_onnx(model, ir.DataType.FLOAT, names))
    extractor = onnx.utils.Extractor(lowered)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    known = {**feed, **values}
    again: dict[str, Array] = {}
    for node in model.graph:
        if node.op_type == "If":
            continue
        inputs = [v for v in dict.fromkeys(node.inputs) if v is not None and v.name in known]
        outputs = [v for v in node.outputs if v.name in values]
        piece = extractor.extract_model([names[v] for v in inputs], [names[v] for v in outputs])
        session = onnxruntime.InferenceSession(piece.SerializeToString(), options)
        wide = {
            names[v]: known[v.name].astype(np.float32) if known[v.name].dtype.itemsize == 2 else known[v.name]
            for v in inputs
        }
        entering = {i.name: wide[i.name] for i in session.get_inputs()}
        for value, array in zip(outputs, session.run(None, entering), strict=True):
            if value.dtype == ir.DataType.FLOAT16:
                array = np.clip(array, -65504, 65504).astype(np.float16)
            again[value.name] = array
    return again


@pytest.mark.parametrize("key", ["ppocr_cls", "ppocr_det", "open_nsfw", "minilm", "gru_decoder", "silero_lstm"])
def test_every_operator_output_is_one_rounding_of_its_inputs(real_om: RealOm, key: str) -> None:
    path = real_om(key)
    session = npu.load(path, threads=1)
    feed = _feed(session, key)
    _, values = session.run_with_values(feed)
    again = _recompute(path, feed, values)
    assert len(again) > 15
    for name, expected in again.items():
        got = values[name]
        assert got.dtype == expected.dtype, name
        if got.dtype == np.float16:
            # another order of the fp32 sums may tip a tie; an unrounded or twice rounded operand would tip far more
            wrong = got.astype(np.float32) != expected.astype(np.float32)
            assert np.mean(wrong) <= 0.01 + 2 / wrong.size, name
            np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol=2e-3, atol=2e-3)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("key", ["ppocr_det", "yolox", "minilm", "t5_int8", "silero_if"])
def test_dumping_changes_no_bit_of_the_outputs(real_om: RealOm, key: str, tmp_path: Path) -> None:
    session = npu.load(real_om(key), threads=2)
    feed = _feed(session, key)
    plain = session.run(feed)
    dumped = session.run(feed, dump=tmp_path / "d")
    held, values = session.run_with_values(feed)
    assert len(values) == len({o.value for o in session.operators})
    for name, array in plain.items():
        assert array.tobytes() == dumped[name].tobytes() == held[name].tobytes()


@pytest.mark.parametrize("key", SUPPORTED)
def test_fp16_stays_close_to_the_original(real_om: RealOm, key: str) -> None:
    session = npu.load(real_om(key), threads=2)
    results = session.run(_feed(session, key))
    for name, expected in _original(key).items():
        got = results[name]
        assert got.shape == expected.shape
        if expected.dtype != np.float32:
            assert (got == expected).all()
            continue
        assert np.isfinite(got).all()
        if key not in ("t5_int8", "crnn_int8", "ppocr_det"):  # see their tests with inputs of the real kind
            assert _cosine(got, expected) >= 0.999, name


@pytest.mark.parametrize("key", ["ppocr_rec", "minilm", "basic_pitch", "silero_if"])
def test_fp32_matches_the_original(real_om: RealOm, key: str) -> None:
    session = npu.load(real_om(key, "Ascend910B2", "must_keep_origin_dtype"), threads=2)
    assert session.info["rounded_to"] == []
    results = session.run(_feed(session, key))
    for name, expected in _original(key).items():
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-4 * scale, err_msg=name)


def test_contrib_operators_run_on_the_host(real_om: RealOm) -> None:
    session = npu.load(real_om("bilstm_int8"), threads=1)
    feed = {t.name: np.zeros(t.shape, t.dtype) for t in session.inputs}  # type: ignore[arg-type]
    outputs, values = session.run_with_values(feed)
    assert any(o.op_type == "DynamicQuantizeLSTM" and o.engine == "host" for o in session.operators)
    assert all(np.isfinite(a).all() for a in outputs.values())
    assert values
