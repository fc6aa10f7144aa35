"""Every real model converts for Ascend310P3 and Ascend910B2, runs on the virtual NPU and stays right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asc_devkit import npu
from asc_devkit.errors import AscError
from tests.e2e.converted import NEEDS_HOST_OPS, SEEDS, convert, cosine, reference, relative
from tests.models import REAL_MODELS, example_inputs

CNN_OCR = {"ppocr_det", "ppocr_rec", "ppocr_cls", "open_nsfw", "yolox", "siamese"}
OVERFLOWS = "t5_int8"  # residual sums of this T5 pass 65504, with int8 activations behind them
Outputs = list[list[np.ndarray[Any, Any]]]


def _run(session: npu.Session, key: str) -> Outputs:
    return [list(session.run(example_inputs(key, seed)).values()) for seed in SEEDS]


def _cosines(key: str, actual: Outputs) -> list[float]:
    """Cosine of every output over all seeds together."""
    found = []
    for index in range(len(actual[0])):
        expected = [reference(key)[seed][index] for seed in range(len(SEEDS))]
        got = [outputs[index] for outputs in actual]
        for one, other in zip(expected, got, strict=True):
            assert other.shape == one.shape
            assert not np.isnan(other.astype(np.float64)).any()
        found.append(cosine(np.concatenate([e.ravel() for e in expected]), np.concatenate([g.ravel() for g in got])))
    return found


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B2"])
@pytest.mark.parametrize("key", [key for key in REAL_MODELS if key != OVERFLOWS])
def test_fp16_with_saturation_stays_close_to_the_original(key: str, soc: str) -> None:
    session = npu.load(convert(key, soc).om_path, overflow="saturate")
    values = _cosines(key, _run(session, key))
    print(f"{key} {soc}: cosine {', '.join(f'{v:.6f}' for v in values)}")
    assert min(values) >= (0.9999 if key in CNN_OCR else 0.999)


def test_a_model_that_overflows_fp16_is_told_apart_and_saved_by_fp32_vector_operators() -> None:
    saturated = npu.load(convert(OVERFLOWS, "Ascend310P3").om_path)
    low = _cosines(OVERFLOWS, _run(saturated, OVERFLOWS))
    kept = npu.load(convert(OVERFLOWS, "Ascend310P3", "allow_fp32_to_fp16").om_path)
    high = _cosines(OVERFLOWS, _run(kept, OVERFLOWS))
    print(f"{OVERFLOWS}: cosine {low[0]:.6f} in force_fp16, {high[0]:.6f} in allow_fp32_to_fp16")
    assert low[0] < 0.999 <= high[0]


@pytest.mark.parametrize("key", REAL_MODELS)
def test_fp32_equals_onnxruntime_on_the_original(key: str) -> None:
    session = npu.load(convert(key, "Ascend910B2", "must_keep_origin_dtype").om_path)
    worst = 0.0
    for expected, got in zip(reference(key), _run(session, key), strict=True):
        worst = max([worst, *(relative(e, g) for e, g in zip(expected, got, strict=True))])
    print(f"{key}: relative difference {worst:.2e}")
    assert worst <= 1e-4


@pytest.mark.parametrize("key", sorted(NEEDS_HOST_OPS))
def test_a_model_with_operators_cann_lacks_is_refused_with_the_full_list(key: str) -> None:
    from asc_devkit import atc
    from asc_devkit.atc.options import from_flags

    model = REAL_MODELS[key]
    flags = {"model": str(model.path), "framework": "5", "output": "never_written", "soc_version": "Ascend310P3"}
    with pytest.raises(AscError) as refused:
        atc.compile(from_flags({**flags, "input_shape": model.input_shape}))
    text = str(refused.value)
    named = {name for problem in refused.value.problems for name in problem.nodes}
    assert "unsupported op type" in text
    for op in ("DynamicQuantizeLSTM",) if model.has_contrib_ops else ():
        assert op in text
    assert len(named) >= 3
