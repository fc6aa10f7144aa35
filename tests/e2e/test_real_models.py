"""Every real model converts for Ascend310P3 and Ascend910B2, runs on the virtual NPU and stays right."""

from __future__ import annotations

import numpy as np
import pytest

from asc_devkit import npu
from asc_devkit.errors import AscError
from tests.e2e.converted import NEEDS_HOST_OPS, convert, cosine, reference, relative
from tests.models import REAL_MODELS, example_inputs

CNN_OCR = {"ppocr_det", "ppocr_rec", "ppocr_cls", "open_nsfw", "yolox", "siamese"}


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B2"])
@pytest.mark.parametrize("key", REAL_MODELS)
def test_fp16_with_saturation_stays_close_to_the_original(key: str, soc: str) -> None:
    session = npu.load(convert(key, soc).om_path, overflow="saturate")
    actual = list(session.run(example_inputs(key)).values())
    least = 0.9999 if key in CNN_OCR else 0.999
    for expected, got in zip(reference(key), actual, strict=True):
        assert got.shape == expected.shape
        assert not np.isnan(got.astype(np.float64)).any()
        value = cosine(expected, got)
        print(f"{key} {soc}: cosine {value:.6f}")
        assert value >= least


@pytest.mark.parametrize("key", REAL_MODELS)
def test_fp32_equals_onnxruntime_on_the_original(key: str) -> None:
    session = npu.load(convert(key, "Ascend910B2", "must_keep_origin_dtype").om_path)
    actual = list(session.run(example_inputs(key)).values())
    for expected, got in zip(reference(key), actual, strict=True):
        value = relative(expected, got)
        print(f"{key}: relative difference {value:.2e}")
        assert value <= 1e-4


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
