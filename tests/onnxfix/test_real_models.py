"""``asc onnx fix`` over the real models: nothing the real ATC refuses is left, and the results are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_devkit.frontends.onnx import original_nodes
from asc_devkit.onnxfix import fix
from asc_devkit.ops.acceptance import refused
from tests.models import REAL_MODELS, example_inputs

# ONNX Runtime's own quantised LSTM: no published arithmetic to write it out with.
REMAINS = {"crnn_int8": {"DynamicQuantizeLSTM"}, "bilstm_int8": {"DynamicQuantizeLSTM"}}


@pytest.mark.parametrize("key", sorted(REAL_MODELS))
def test_fixed_models_are_accepted_and_equal(key: str, tmp_path: Path) -> None:
    model, output = REAL_MODELS[key], tmp_path / "fixed.onnx"
    result = fix(model.path, output, model.shapes, feeds=[example_inputs(key, seed) for seed in range(2)])
    left = {row.op_type for row in refused(original_nodes(output))}
    assert left == {row.op_type for row in result.remaining} == REMAINS.get(key, set())
    assert result.proof.holds and result.proof.runs == 2
    assert all(d.relative < 1e-5 for d in result.proof.differences), result.proof
    assert result.accepted is (key not in REMAINS)


def test_open_axes_stay_open(tmp_path: Path) -> None:
    """Integer products of every size stay exact: a T5 encoder in dynamic int8, 56 products, identical results."""
    key = "t5_int8"
    result = fix(REAL_MODELS[key].path, tmp_path / "f.onnx", feeds=[example_inputs(key)])
    assert result.accepted and result.replaced["MatMulInteger"] == 56
    assert all(d.exact for d in result.proof.differences)
    assert any("fp16 cannot hold" in note for note in result.notes)
