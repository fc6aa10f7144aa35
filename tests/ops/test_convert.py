"""``to_ge`` and ``to_onnx`` on whole graphs: what is carried over, what is refused, what stays on the host."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, parser

from asc_devkit import ops
from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import load
from asc_devkit.frontends.shapes import parse_input_shape
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, GROUP, IMPL_MODE, MEMBERS, ORIGIN_OPS, PASSES, Engine
from asc_devkit.ops.infer import infer
from tests.models import REAL_MODELS
from tests.ops.running import run


def model_of(text: str, weights: dict[str, np.ndarray[Any, Any]] | None = None) -> ir.Model:
    """A model from ONNX's textual graph syntax, with shapes inferred."""
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> g {text}')
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or f"n{index}"
    model = ir.serde.deserialize_model(proto)
    infer(model)
    return model


def kinds(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def one(model: ir.Model, op_type: str) -> ir.Node:
    (found,) = [node for node in model.graph if node.op_type == op_type]
    return found


def attributes(node: ir.Node) -> dict[str, Any]:
    return {name: list(a.value) if isinstance(a.value, tuple) else a.value for name, a in node.attributes.items()}


RNG = np.random.default_rng(0)
FILTER = RNG.standard_normal((6, 3, 3, 3)).astype(np.float32)


# --- the GE form ------------------------------------------------------------------------------------------------------


def test_a_convolution_has_the_attributes_of_ge() -> None:
    text = "(float[1,3,9,9] x) => (y) { y = Conv <strides = [2,2], pads = [1,2,3,4]> (x, w) }"
    node = one(ops.convert.to_ge(model_of(text, {"w": FILTER}), False).model, "Conv2D")
    assert node.domain == GE_DOMAIN and node.meta[ENGINE] is Engine.CUBE
    assert attributes(node) == {
        "strides": [1, 1, 2, 2],
        "pads": [1, 3, 2, 4],  # top, bottom, left, right
        "dilations": [1, 1, 1, 1],
        "groups": 1,
        "data_format": "NCHW",
        "offset_x": 0,
    }


def test_a_one_dimensional_convolution_goes_through_height_one() -> None:
    text = "(float[1,3,9] x) => (y) { y = Conv <strides = [2], pads = [1,0]> (x, w) }"
    compiled = ops.convert.to_ge(model_of(text, {"w": FILTER[:, :, 0]}), False).model
    assert kinds(compiled) == ["Unsqueeze", "Conv2D", "Squeeze"]
    assert attributes(one(compiled, "Conv2D"))["pads"] == [0, 0, 1, 0]


def test_gemm_with_one_row_of_bias_is_one_operator() -> None:
    text = "(float[4,3] x) => (y) { y = Gemm <transB = 1> (x, w, b) }"
    weights = {"w": np.ones((5, 3), np.float32), "b": np.ones(5, np.float32)}
    compiled = ops.convert.to_ge(model_of(text, weights), False).model
    assert kinds(compiled) == ["MatMulV2"]
    assert attributes(one(compiled, "MatMulV2")) == {"transpose_x1": 0, "transpose_x2": 1}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"lo": 0.0, "hi": 6.0}, "Relu6"),
        ({"lo": 0.0, "hi": 5.0}, "ClipByValueV2"),
        ({"lo": 0.0}, "Maximum"),
        ({"hi": 1.0}, "Minimum"),
    ],
)
def test_clip_takes_the_operator_that_its_bounds_need(bounds: dict[str, float], expected: str) -> None:
    inputs = ["x", "lo" if "lo" in bounds else "", "hi" if "hi" in bounds else ""]
    text = f"(float[4] x) => (y) {{ y = Clip ({', '.join(inputs).rstrip(', ')}) }}"
    if "lo" not in bounds:
        text = '(float[4] x) => (y) { y = Clip (x, "", hi) }'
    weights = {name: np.array(value, np.float32) for name, value in bounds.items()}
    assert kinds(ops.convert.to_ge(model_of(text, weights), False).model) == [expected]


def test_integer_division_is_not_real_division() -> None:
    compiled = ops.convert.to_ge(model_of("(int64[2] a, int64[2] b) => (y) { y = Div (a, b) }"), False).model
    assert kinds(compiled) == ["Div"]


# --- what is carried over ---------------------------------------------------------------------------------------------


def test_new_nodes_inherit_origin_passes_group_and_implementation_mode() -> None:
    model = model_of("(float[2,3,8] x) => (y) { c = Conv (x, w) y = Relu (c) }", {"w": FILTER[:, :, 0]})
    conv, relu = model.graph
    conv.meta.update({PASSES: ("P",), GROUP: 7, ORIGIN_OPS: (("a", "Conv"), ("b", "BatchNormalization"))})
    relu.meta.update({GROUP: 7, IMPL_MODE: "high_precision"})
    compiled = ops.convert.to_ge(model, False).model
    main = one(compiled, "Conv2D")
    assert main.meta[ORIGIN_OPS] == (("a", "Conv"), ("b", "BatchNormalization"))
    assert main.meta[PASSES] == ("P",) and main.meta[GROUP] == 7
    last = one(compiled, "Relu")
    assert last.meta[ORIGIN_OPS] == (("n1", "Relu"),)
    assert last.meta[IMPL_MODE] == "high_precision" and last.meta[GROUP] == 7


def test_weights_are_shared_not_copied_and_the_given_model_stays_as_it_is() -> None:
    model = model_of("(float[1,3,9,9] x) => (y) { y = Conv (x, w) }", {"w": FILTER})
    before = ir.serde.serialize_model(model).SerializeToString()
    compiled = ops.convert.to_ge(model, False).model
    lowered = ops.convert.to_onnx(compiled)
    tensor = model.graph.initializers["w"].const_value
    assert compiled.graph.initializers["w"].const_value is tensor
    assert lowered.graph.initializers["w"].const_value is tensor
    assert ir.serde.serialize_model(model).SerializeToString() == before


# --- what is refused --------------------------------------------------------------------------------------------------


def test_all_unsupported_operators_are_listed_at_once_with_reason_and_remedy() -> None:
    model = model_of(
        "(float[4] x) => (y) { q, s, z = DynamicQuantizeLinear (x) h = com.microsoft.FastGelu (x)"
        " r = Cast <to = 1> (q) t = Add (r, x) y = Identity (t) }"
    )
    result = ops.convert.to_ge(model, host_ops=False)
    rows = {(row.op_type, row.domain): row for row in result.unsupported}
    assert set(rows) == {("DynamicQuantizeLinear", ""), ("FastGelu", "com.microsoft")}
    assert rows["DynamicQuantizeLinear", ""].name == "n0" and rows["DynamicQuantizeLinear", ""].opset == 23
    assert rows["FastGelu", "com.microsoft"].opset == 1
    assert all(row.reason and row.hint for row in rows.values())


def test_host_operators_keep_their_onnx_identity_and_still_run() -> None:
    model = model_of(
        "(float[4] x) => (y) { q, s, z = DynamicQuantizeLinear (x) r = Cast <to = 1> (q) t = Mul (r, s) y = Add (t, x) }"
    )
    compiled = ops.convert.to_ge(model, host_ops=True).model
    host = one(compiled, "DynamicQuantizeLinear")
    assert host.domain == "" and host.meta[ENGINE] is Engine.HOST and host.meta[ORIGIN_OPS]
    x = np.array([-1, 0, 0.5, 2], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], run(ops.convert.to_onnx(compiled), {"x": x})[0])


def test_training_forms_are_refused_by_name() -> None:
    text = (
        "(float[1,2,3] x, float[2] a) => (y, m, v) { y, m, v = BatchNormalization <training_mode = 1> (x, a, a, a, a) }"
    )
    (row,) = ops.convert.to_ge(model_of(text), False).unsupported
    assert row.op_type == "BatchNormalization" and "training" in row.reason


@pytest.mark.provokes("ASC2001")
def test_unknown_ge_operators_are_reported_all_at_once() -> None:
    model = model_of("(float[4] x) => (y) { a = Relu (x) b = Abs (a) y = Neg (b) }")
    compiled = ops.convert.to_ge(model, False).model
    for node in list(compiled.graph)[:2]:
        node.op_type = f"Unheard{node.op_type}"
    with pytest.raises(AscError) as caught:
        ops.convert.to_onnx(compiled)
    assert [p.nodes for p in caught.value.problems] == [("n0",), ("n1",)]


@pytest.mark.provokes("E14001")
def test_malformed_nodes_are_named_all_at_once() -> None:
    model = model_of("(float[1,3,9,9] x, float[6,3,3,3] w) => (y, z) { y = Conv (x, w) z = Transpose (x) }")
    conv, transpose = model.graph
    conv.attributes["strides"] = ir.AttrString("strides", "two")
    transpose.attributes["perm"] = ir.AttrString("perm", "back")
    with pytest.raises(AscError) as caught:
        ops.convert.to_ge(model, False)
    assert [p.nodes for p in caught.value.problems] == [("n0",), ("n1",)]
    assert {p.code for p in caught.value.problems} == {"E14001"}


def test_an_if_without_a_branch_is_named() -> None:
    model = model_of(IF)
    del one(model, "If").attributes["else_branch"]
    with pytest.raises(AscError) as caught:
        ops.convert.to_ge(model, False)
    assert [p.nodes for p in caught.value.problems] == [("n1",)]


def test_a_node_refused_half_way_leaves_nothing_behind() -> None:
    model = model_of("(float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (y) { y = Attention (q, k, v) }")
    whole = ops.convert.to_ge(model, True)
    assert whole.unsupported == [] and len(kinds(whole.model)) > 5
    lookup_onnx = ops.registry.lookup_onnx
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ops.registry,
            "lookup_onnx",
            lambda kind, domain="": None if kind == "Softmax" else lookup_onnx(kind, domain),
        )
        result = ops.convert.to_ge(model, True)
    assert [row.op_type for row in result.unsupported] == ["Attention"]
    assert kinds(result.model) == ["Attention"] and not result.model.graph.initializers
    assert [v.name for v in result.model.graph.outputs] == ["y"]


# --- bodies -----------------------------------------------------------------------------------------------------------

IF = """(bool c, float[2,3] x) => (y) {
  k = Abs (x)
  y = If (c) <then_branch = t () => (a) { r = Relu (k) a = Add (r, x) }, else_branch = e () => (b) { b = Neg (k) }>
}"""
LOOP = """(float[3] x) => (y) {
  k = Abs (x)
  y = Loop (n, "", k) <body = b (int64 i, bool go, float[3] s) => (g, t) { g = Identity (go) t = Add (s, k) }>
}"""


BOTH = """(bool c, float[1,3,9] x) => (y) {
  y = If (c) <then_branch = t () => (a) { a = Conv (x, w) }, else_branch = e () => (b) { d = Conv (x, w) b = Neg (d) }>
}"""


def test_a_weight_used_in_both_branches_is_reshaped_in_each() -> None:
    model = model_of(BOTH, {"w": FILTER[:, :, 0]})
    lowered = ops.convert.to_onnx(ops.convert.to_ge(model, False).model)
    feeds = {"c": np.array(False), "x": RNG.standard_normal((1, 3, 9)).astype(np.float32)}
    np.testing.assert_array_equal(run(model, feeds)[0], run(lowered, feeds)[0])


@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_if_are_converted_and_capture_outer_values(condition: bool) -> None:
    model = model_of(IF)
    result = ops.convert.to_ge(model, False)
    assert result.unsupported == []
    branch = one(result.model, "If").attributes["then_branch"].as_graph()
    assert [(n.domain, n.op_type) for n in branch] == [(GE_DOMAIN, "Relu"), (GE_DOMAIN, "Add")]
    feeds = {"c": np.array(condition), "x": RNG.standard_normal((2, 3)).astype(np.float32)}
    np.testing.assert_array_equal(run(model, feeds)[0], run(ops.convert.to_onnx(result.model), feeds)[0])


def test_the_body_of_a_host_loop_stays_onnx() -> None:
    model = model_of(LOOP, {"n": np.array(3, np.int64)})
    result = ops.convert.to_ge(model, True)
    assert [row.op_type for row in result.unsupported] == ["Loop"]
    body = one(result.model, "Loop").attributes["body"].as_graph()
    assert {n.domain for n in body} == {""}
    feeds = {"x": np.array([-1, 2, 3], np.float32)}
    np.testing.assert_array_equal(run(model, feeds)[0], run(ops.convert.to_onnx(result.model), feeds)[0])


def test_strict_conversion_also_names_what_a_loop_body_lacks() -> None:
    text = LOOP.replace("t = Add (s, k)", "q, z, o = DynamicQuantizeLinear (s) t = Mul (s, z)")
    model = model_of(text, {"n": np.array(3, np.int64)})
    strict = [row.op_type for row in ops.convert.to_ge(model, host_ops=False).unsupported]
    assert strict == ["Loop", "DynamicQuantizeLinear"]
    assert [row.op_type for row in ops.convert.to_ge(model, host_ops=True).unsupported] == ["Loop"]


def test_the_members_of_a_fused_operator_are_executed() -> None:
    from asc_devkit.atc.select import groups

    text = "(float[1,3,9,9] x) => (y) { c = Conv (x, w) s = Sigmoid (c) y = Mul (c, s) }"
    model = model_of(text, {"w": FILTER})
    for node in model.graph:
        node.meta[GROUP] = 1
    compiled = ops.convert.to_ge(model, False).model
    assert groups.collapse(compiled) == 1 and kinds(compiled) == ["Conv2D"]
    assert MEMBERS in one(compiled, "Conv2D").attributes
    names: dict[ir.Value, str] = {}
    lowered = ops.convert.to_onnx(compiled, names=names)
    assert kinds(lowered) == ["Conv", "Sigmoid", "Mul"]
    assert names[compiled.graph.outputs[0]] == "y"
    x = RNG.standard_normal((1, 3, 9, 9)).astype(np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], run(lowered, {"x": x})[0])


# --- half precision ---------------------------------------------------------------------------------------------------


def test_half_precision_graphs_can_be_lowered_to_fp32() -> None:
    text = "(float16[2,4] x) => (float16[2,2] y) { m = MatMul (x, w) c = Cast <to = 10> (m) y = Clip (c, lo) }"
    weights = {"w": RNG.standard_normal((4, 2)).astype(np.float16), "lo": np.array(0, np.float16)}
    compiled = ops.convert.to_ge(model_of(text, weights), False).model
    lowered = ops.convert.to_onnx(compiled, ir.DataType.FLOAT)
    values = [*lowered.graph.inputs, *lowered.graph.initializers.values(), *(n.outputs[0] for n in lowered.graph)]
    assert {v.dtype for v in values} == {ir.DataType.FLOAT}
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    expected = np.maximum(x @ weights["w"].astype(np.float32), 0)
    np.testing.assert_allclose(run(lowered, {"x": x})[0], expected, rtol=1e-6)


# --- GE operators that only foreign models use ------------------------------------------------------------------------

X = np.array([[-2.5, -1.0, 0.0], [0.5, 1.5, 7.0]], np.float32)
FOREIGN: list[tuple[str, dict[str, Any], Any]] = [
    ("Muls", {"value": 2.0}, X * 2),
    ("Adds", {"value": 2.0}, X + 2),
    ("Square", {}, X * X),
    ("Relu6", {}, np.clip(X, 0, 6)),
    ("Swish", {"scale": 1.0}, X / (1 + np.exp(-X))),
    ("FastGelu", {}, X / (1 + np.exp(-1.702 * X))),
    ("Gelu", {}, 0.5 * X * (1 + np.tanh(float(np.sqrt(2 / np.pi)) * (X + 0.044715 * X**3)))),
    ("LpNormV2", {"p": 2.0, "axes": [1], "keepdim": 0}, np.sqrt((X * X).sum(1))),
    ("SquareSumV1", {"axis": [0], "keep_dims": 1}, (X * X).sum(0, keepdims=True)),
    ("SoftmaxV2", {}, np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
    ("L2Normalize", {"axis": [1], "eps": 1e-4}, X / np.sqrt((X * X).sum(1, keepdims=True))),
    ("AscendQuant", {"scale": 20.0, "offset": 3.0}, np.clip(np.round(X * 20 + 3), -128, 127).astype(np.int8)),
]


@pytest.mark.parametrize(("op_type", "attrs", "expected"), FOREIGN, ids=[row[0] for row in FOREIGN])
def test_ge_operators_of_foreign_models_compute_what_they_say(
    op_type: str, attrs: dict[str, Any], expected: np.ndarray[Any, Any]
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(expected.dtype)
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node(op_type, ["x"], ["y"], name="n", domain=GE_DOMAIN, **attrs)],
            "g",
            [helper.make_tensor_value_info("x", 1, X.shape)],
            [helper.make_tensor_value_info("y", kind, expected.shape)],
        ),
        opset_imports=[helper.make_opsetid(GE_DOMAIN, 1)],
    )
    got = run(ops.convert.to_onnx(ir.serde.deserialize_model(proto)), {"x": X})[0]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


# --- speed ------------------------------------------------------------------------------------------------------------


def test_each_direction_takes_less_than_60_ms_for_400_nodes() -> None:
    real = REAL_MODELS["ppocr_rec"]
    model = load(real.path, input_shapes=parse_input_shape(real.input_shape)).model
    infer(model)
    assert sum(1 for _ in model.graph) >= 400
    there, back = [], []
    for _ in range(5):
        start = time.process_time()
        compiled = ops.convert.to_ge(model, False).model
        middle = time.process_time()
        ops.convert.to_onnx(compiled)
        there.append(middle - start)
        back.append(time.process_time() - middle)
    assert min(there) < 0.6 and min(back) < 0.6
