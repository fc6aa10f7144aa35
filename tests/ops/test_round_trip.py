"""ONNX -> GE -> ONNX changes no result: ONNX's operator tests against their expectations, real models bit for bit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from asc_devkit import ops
from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import load
from asc_devkit.frontends.shapes import parse_input_shape
from asc_devkit.ops.infer import infer
from tests.models import REAL_MODELS, example_inputs
from tests.ops.running import Case, canonical, close, corpus, freeze, run

# The outputs are random, or ONNX Runtime itself departs from the expected ones on the original model (checked by the
# test below), or neither runtime can execute the original.
NOT_COMPARABLE = {
    "test_bernoulli",
    "test_bernoulli_double",
    "test_bernoulli_seed",
    "test_reduce_max_empty_set_bool",
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}


def test_the_cases_left_out_cannot_be_compared_on_the_original_either(tmp_path: Path) -> None:
    for case in corpus():
        if case.name not in NOT_COMPARABLE:
            continue
        feeds = {declared.name: value for declared, value in zip(case.model.graph.input, case.inputs, strict=False)}
        try:
            got = run(canonical(case.model, tmp_path), feeds)
        except Exception:  # the runtime refuses the original
            continue
        assert not close(got[0], case.outputs[0], case.rtol, case.atol), case.name


def _outcome(case: Case, folder: Path) -> str:
    try:
        model = canonical(case.model, folder)
    except AscError:
        return "newer than the canonical opset"
    feeds = {declared.name: value for declared, value in zip(case.model.graph.input, case.inputs, strict=False)}
    result = ops.convert.to_ge(model, host_ops=False)
    if result.unsupported:
        freeze(model, feeds)
        infer(model)
        result = ops.convert.to_ge(model, host_ops=False)
    if result.unsupported:
        return f"host: {result.unsupported[0].op_type}"
    if case.name in NOT_COMPARABLE:
        return "not comparable"
    got = run(ops.convert.to_onnx(result.model), feeds)
    same = len(got) == len(case.outputs) and all(
        close(a, b, case.rtol, case.atol) for a, b in zip(got, case.outputs, strict=True)
    )
    return "equal" if same else "differs"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_supported_operator_test_of_onnx_survives_the_way_through_ge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: dict[str, list[str]] = {}
    for case in corpus():
        outcomes.setdefault(_outcome(case, tmp_path), []).append(case.name)
    counts = Counter({kind: len(names) for kind, names in outcomes.items()})
    with capsys.disabled():
        print(f"\n{counts['equal']} operator tests equal, {counts['newer than the canonical opset']} newer, "
              f"{sum(n for k, n in counts.items() if k.startswith('host'))} of host operators")  # fmt: skip
    assert outcomes.get("differs", []) == []
    assert counts["equal"] >= 1000


@pytest.mark.parametrize("key", [k for k, m in REAL_MODELS.items() if not m.has_contrib_ops])
def test_real_models_give_the_same_bits_after_the_way_through_ge(key: str) -> None:
    real = REAL_MODELS[key]
    model = load(real.path, input_shapes=parse_input_shape(real.input_shape)).model
    infer(model)
    feeds = example_inputs(key)
    result = ops.convert.to_ge(model, host_ops=True)
    host = {row.op_type for row in result.unsupported}
    assert host <= {"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"}
    for a, b in zip(run(model, feeds), run(ops.convert.to_onnx(result.model), feeds), strict=True):
        np.testing.assert_array_equal(a, b)


LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_classic_networks_give_the_same_bits_after_the_way_through_ge(path: Path) -> None:
    model = load(path).model
    infer(model)
    result = ops.convert.to_ge(model, host_ops=False)
    assert result.unsupported == []
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(v.shape.numpy()).astype(np.float32) for v in model.graph.inputs if v.shape}
    for a, b in zip(run(model, feeds), run(ops.convert.to_onnx(result.model), feeds), strict=True):
        np.testing.assert_array_equal(a, b)


def _values(graph: ir.Graph) -> dict[str, tuple[Any, Any]]:
    found = {}
    for value in (*graph.inputs, *(v for n in graph for v in n.outputs)):
        found[value.name or ""] = (value.dtype, None if value.shape is None else str(value.shape))
    return found


@pytest.mark.parametrize("key", ["ppocr_rec", "minilm", "silero_lstm"])
def test_every_value_keeps_name_shape_and_type_both_ways(key: str) -> None:
    real = REAL_MODELS[key]
    model = load(real.path, input_shapes=parse_input_shape(real.input_shape)).model
    infer(model)
    before = _values(model.graph)
    compiled = ops.convert.to_ge(model, host_ops=False).model
    lowered = ops.convert.to_onnx(compiled)
    assert before.items() <= _values(compiled.graph).items()
    assert before.items() <= _values(lowered.graph).items()
    assert [v.name for v in lowered.graph.outputs] == [v.name for v in model.graph.outputs]
