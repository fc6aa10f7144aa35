"""Single rules against integers and sums worked out with numpy; what cannot be rewritten is listed; the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from asc_devkit.cli.main import cli
from asc_devkit.errors import AscError
from asc_devkit.onnxfix import fix
from asc_devkit.onnxfix.rules import RULES
from asc_devkit.ops.acceptance import REWRITTEN, accepts
from tests.models import model_path


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Any],
    outputs: list[str],
    opset: int = 17,
    **constants: Any,
) -> Path:
    """A model over inputs given as (element type, shape)."""
    entries = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", entries, results, weights), opset_imports=opsets), path)
    return path


def computed(path: Path, **feeds: Any) -> list[Any]:
    return list(ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds))


def invoke(*words: object) -> tuple[int, Result]:
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if isinstance(result.exception, AscError):
        return result.exception.exit_code, result
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, result


@pytest.mark.parametrize("constant", [True, False])
def test_long_integer_products_are_exact(constant: bool, tmp_path: Path) -> None:
    """2,048 products of up to 255 x 128 pass 2^24, where float32 alone would round."""
    rng = np.random.default_rng(0)
    a = rng.integers(200, 256, (3, 2048)).astype(np.uint8)
    b = rng.integers(-128, -80, (2048, 5)).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["a", "b", "za"], ["y"], name="mm")
    kinds = {"a": (TensorProto.UINT8, a.shape)} | ({} if constant else {"b": (TensorProto.INT8, b.shape)})
    weights = {"za": np.uint8(3)} | ({"b": b} if constant else {})
    model = save(tmp_path / "m.onnx", [node], kinds, ["y"], **weights)
    assert fix(model, tmp_path / "f.onnx").accepted
    (y,) = computed(tmp_path / "f.onnx", a=a, **({} if constant else {"b": b}))
    expected = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    assert np.abs(expected).max() > 1 << 24 and np.array_equal(y, expected)


def test_wide_integer_convolutions_are_exact(tmp_path: Path) -> None:
    x = np.full((1, 256, 5, 5), 255, np.uint8)
    w = np.full((2, 256, 3, 3), 127, np.int8)
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], pads=[1, 1, 1, 1], name="conv")
    model = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.UINT8, x.shape)}, ["y"], w=w)
    assert fix(model, tmp_path / "f.onnx").accepted
    (y,) = computed(tmp_path / "f.onnx", x=x)
    assert y[0, 0, 2, 2] == 255 * 127 * 256 * 9 and y[0, 1, 0, 0] == 255 * 127 * 256 * 4


def test_four_bit_weights_in_blocks_become_floats(tmp_path: Path) -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [4, 2], [1, -2, 3, -4, 5, -6, 7, -8])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=2, name="dq"),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="mm"),
    ]
    scale = np.array([[0.5, 1.0], [2.0, 4.0]], np.float32)
    path = save(tmp_path / "m.onnx", nodes, {"x": (TensorProto.FLOAT, (1, 4))}, ["y"], opset=21, s=scale)
    model = onnx.load(path)
    model.graph.initializer.append(packed)
    onnx.save(model, path)
    assert fix(path, tmp_path / "f.onnx").accepted
    (y,) = computed(tmp_path / "f.onnx", x=np.ones((1, 4), np.float32))
    assert y.tolist() == [[0.5 * (1 + 3) + 2.0 * (5 + 7), 1.0 * (-2 - 4) + 4.0 * (-6 - 8)]]


def loop_model(path: Path, trips: Any) -> Path:
    """sum and list of x * 0, x * 1, ... with the number of rounds constant or an input."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["x", "f"], ["part"]),
            helper.make_node("Add", ["total", "part"], ["next"]),
            helper.make_node("Identity", ["c"], ["go"]),
        ],
        "body",
        [value("i", TensorProto.INT64, ()), value("c", TensorProto.BOOL, ()), value("total", TensorProto.FLOAT, (2,))],
        [
            value("go", TensorProto.BOOL, ()),
            value("next", TensorProto.FLOAT, (2,)),
            value("part", TensorProto.FLOAT, (2,)),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "zero"], ["y", "parts"], body=body, name="loop")
    inputs = {"x": (TensorProto.FLOAT, (2,))} | ({} if trips is not None else {"n": (TensorProto.INT64, ())})
    weights = {"zero": np.zeros(2, np.float32)} | ({} if trips is None else {"n": np.int64(trips)})
    return save(path, [node], inputs, ["y", "parts"], **weights)


def test_loops_with_fixed_rounds_are_written_out(tmp_path: Path) -> None:
    assert fix(loop_model(tmp_path / "m.onnx", 4), tmp_path / "f.onnx").accepted
    y, parts = computed(tmp_path / "f.onnx", x=np.array([1.0, -2.0], np.float32))
    assert y.tolist() == [6.0, -12.0] and parts.tolist() == [[0, 0], [1, -2], [2, -4], [3, -6]]
    assert not {"Loop"} & {n.op_type for n in onnx.load(tmp_path / "f.onnx").graph.node}


def test_what_cannot_be_rewritten_is_listed_with_the_reason(tmp_path: Path) -> None:
    result = fix(loop_model(tmp_path / "m.onnx", None), tmp_path / "f.onnx")
    assert not result.accepted and result.proof.holds
    assert [(r.op_type, r.reason) for r in result.remaining] == [
        ("Loop", "its number of rounds is known at run time only")
    ]
    assert (
        fix(loop_model(tmp_path / "m.onnx", 100_000), tmp_path / "f.onnx")
        .remaining[0]
        .reason.startswith("100000 rounds")
    )


def test_external_weights_stay_external(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Gelu", ["h"], ["y"], name="gelu")]
    path = save(tmp_path / "m.onnx", nodes, {"x": (TensorProto.FLOAT, (2, 64))}, ["y"], opset=20, w=weights)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.bin", size_threshold=0)
    result = fix(path, tmp_path / "out" / "f.onnx")
    assert result.accepted
    files = {p.name for p in (tmp_path / "out").iterdir()}
    assert files == {"f.onnx", "f.onnx.data"} and (tmp_path / "out" / "f.onnx").stat().st_size < 8000


def test_a_wrong_rewrite_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(e: Any) -> None:
        e.rename("Relu", [e.input(0)])

    monkeypatch.setitem(RULES, "Gelu", wrong)  # type: ignore[index]
    node = helper.make_node("Gelu", ["x"], ["y"], name="gelu")
    model = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, (2, 64))}, ["y"], opset=20)
    code, result = invoke("onnx", "fix", model, "-o", tmp_path / "f.onnx")
    assert code == 1 and "DIFFERENT" in result.output


def test_the_output_must_be_another_file(tmp_path: Path) -> None:
    with pytest.raises(AscError, match="it is the model itself"):
        fix(loop_model(tmp_path / "m.onnx", 2), tmp_path / "m.onnx")


def test_open_axes_get_a_size_the_model_takes(tmp_path: Path) -> None:
    """A spectrogram needs hundreds of samples; 16 and 64 are refused by its convolutions."""
    result = fix(model_path("melspectrogram"), tmp_path / "f.onnx")
    assert result.accepted and result.proof.runs == 3


def test_inputs_too_large_to_compare_are_said(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    model = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, (1 << 20, 1 << 20))}, ["y"])
    result = fix(model, tmp_path / "f.onnx")
    assert not result.accepted and not result.remaining and "more than" in result.proof.error


def test_masks_hide_something_in_later_runs(tmp_path: Path) -> None:
    """With masks of ones only, an Add and a Where would be the same."""
    from asc_devkit.frontends.onnx import load
    from asc_devkit.onnxfix.inputs import random_feeds

    node = helper.make_node("Identity", ["attention_mask"], ["y"], name="same")
    model = save(tmp_path / "m.onnx", [node], {"attention_mask": (TensorProto.INT64, (1, 8))}, ["y"])
    feeds = random_feeds(load(model), 3, 0)
    assert feeds is not None
    assert [f["attention_mask"].tolist()[0] for f in feeds] == [[1] * 8, *[[1] * 6 + [0] * 2] * 2]


def test_weights_of_the_original_are_never_overwritten(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    path = save(
        tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, (2, 64))}, ["y"], w=np.ones((64, 64), np.float32)
    )
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="f.onnx.data", size_threshold=0)
    before = (tmp_path / "f.onnx.data").read_bytes()
    for name in ("f.onnx", "f.onnx.data"):
        with pytest.raises(AscError, match="weights would replace"):
            fix(path, tmp_path / name)
    assert (tmp_path / "f.onnx.data").read_bytes() == before


def test_operators_that_do_not_exist_are_listed(tmp_path: Path) -> None:
    """Exporters put operators of their own in ONNX's domain too."""
    node = helper.make_node("DeformConvV9", ["x"], ["y"], name="dcn")
    model = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, (2, 4))}, ["y"])
    result = fix(model, tmp_path / "f.onnx")
    assert [(r.op_type, r.reason) for r in result.remaining] == [("DeformConvV9", "ONNX has no operator of that name")]
    assert "does not run here" in result.proof.error and not result.accepted


def test_declared_shapes_of_outputs_stay(tmp_path: Path) -> None:
    """Shape inference ends at an unknown operator; the file still passes ONNX's checker."""
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0], name="scale")
    path = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, ("N", 4))}, ["y"])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N", 4)))
    onnx.save(model, path)
    fix(path, tmp_path / "f.onnx")
    onnx.checker.check_model(str(tmp_path / "f.onnx"), full_check=True)
    dims = onnx.load(tmp_path / "f.onnx").graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["N", 4]


def test_empty_inputs_are_compared_too(tmp_path: Path) -> None:
    node = helper.make_node("Concat", ["past", "x"], ["y"], axis=1, name="join")
    kinds = {"past": (TensorProto.FLOAT, (1, 0, 4)), "x": (TensorProto.FLOAT, (1, 3, 4))}
    assert fix(save(tmp_path / "m.onnx", [node], kinds, ["y"]), tmp_path / "f.onnx").accepted


def test_a_broken_equation_ends_at_once(tmp_path: Path) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], equation="u..ii ->...i", name="sum")
    model = save(tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, (3, 5, 5))}, ["y"])
    with pytest.raises(AscError, match="its equation has dots"):
        fix(model, tmp_path / "f.onnx")


def test_every_promised_rewrite_exists() -> None:
    by_definition = {name for name in REWRITTEN if onnx.defs.has(name) and _has_definition(name)}
    folded_or_earlier = {"MelWeightMatrix", "Optional", "Swish", "SwiGLU"}
    assert set(REWRITTEN) <= set(RULES) | by_definition | folded_or_earlier
    assert not any(accepts(name, "", 18) for name in REWRITTEN)


def _has_definition(name: str) -> bool:
    schema = onnx.defs.get_schema(name)
    return bool(schema.has_function or schema.has_context_dependent_function)


# --- commands -----------------------------------------------------------------------------------------------------------


def test_the_command_lists_what_remains_as_json(tmp_path: Path) -> None:
    code, result = invoke("onnx", "fix", model_path("bilstm_int8"), "-o", tmp_path / "f.onnx", "--json")
    report = json.loads(result.stdout)
    assert code == 1 and not report["accepted"]
    assert [row["op_type"] for row in report["remaining"]] == ["DynamicQuantizeLSTM"]
    assert len(report["remaining"][0]["nodes"]) == 3


def test_op_list_tells_what_the_real_atc_refuses(tmp_path: Path) -> None:
    code, result = invoke("op", "list", "--unsupported-by-atc", model_path("t5_int8"), "--json")
    rows = {row["op_type"]: row for row in json.loads(result.stdout)["refused"]}
    assert code == 1 and {"MatMulInteger", "DynamicQuantizeLinear", "DequantizeLinear"} == set(rows)
    assert len(rows["MatMulInteger"]["nodes"]) == 56 and rows["MatMulInteger"]["opset"] == 18
    code, result = invoke("op", "list", "--unsupported-by-atc", model_path("yolox"))
    assert code == 0 and "parsers for all" in result.output
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    newer = save(tmp_path / "new.onnx", [node], {"x": (TensorProto.FLOAT, (2,))}, ["y"], opset=21)
    code, result = invoke("op", "list", "--unsupported-by-atc", newer)
    assert code == 1 and "opset 8 to 18" in " ".join(result.output.split()) and "asc onnx fix" in result.output


def test_op_list_has_every_operator_of_onnx() -> None:
    code, result = invoke("op", "list", "--json")
    rows = {(row["domain"], row["name"]): row for row in json.loads(result.stdout)["operators"]}
    names = {s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}
    assert code == 0 and names <= {name for domain, name in rows if not domain}
    assert rows["", "Conv"]["engine"] == "cube" and rows["", "Conv"]["real_atc"] == [8, 18]
    assert rows["", "Loop"]["support"] == "host" and rows["", "Loop"]["real_atc"] == []
    assert rows["", "Gelu"]["support"] == "rewritten" and rows["npu", "NPURmsNorm"]["support"] == "vendor only"
    code, result = invoke("op", "list", "--search", "layernorm")
    assert "LayerNormalization" in result.output and "Conv " not in result.output


@pytest.mark.provokes("ASC2014")
def test_op_show_and_its_suggestion() -> None:
    code, result = invoke("op", "show", "layernormalization")
    assert code == 0 and "opset 17-18" in result.output
    code, result = invoke("op", "show", "Sofmax", "--json")
    assert code == 2 and isinstance(result.exception, AscError)
    assert result.exception.problems[0].code == "ASC2014" and "Softmax" in result.exception.problems[0].fix
