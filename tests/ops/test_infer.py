"""Shapes and dtypes against ONNX Runtime and the specification's own test data; evaluation against the same data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import load
from asc_devkit.ops.evaluate import evaluate
from asc_devkit.ops.infer import infer
from tests.models import REAL_MODELS, example_inputs

Array = np.ndarray[Any, Any]
# Operators whose newest version up to opset 23 has other attributes than the one these cases were written for.
_OLD_FORMS = ("test_dft_", "test_scan_sum", "test_scatter_with", "test_upsample_nearest")


@lru_cache(maxsize=1)
def node_cases() -> list[tuple[str, onnx.ModelProto, list[Array], list[Array]]]:
    """The single-operator cases of the ONNX specification up to opset 23."""
    from onnx.backend.test.case.node import collect_testcases

    cases = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases()
    for case in collected:
        if case.model is None or len(case.model.graph.node) != 1 or case.name.startswith(_OLD_FORMS):
            continue
        versions = {o.domain: o.version for o in case.model.opset_import}
        node = case.model.graph.node[0]
        if set(versions) != {""} or onnx.defs.get_schema(node.op_type, versions[""]).since_version > 23:
            continue
        if versions[""] < 13 and any(a.HasField("g") for a in node.attribute):
            continue  # the body is in an old form
        inputs, outputs = case.data_sets[0]
        if all(isinstance(x, np.ndarray | np.generic) for x in [*inputs, *outputs]):
            cases.append((case.name, case.model, [np.asarray(x) for x in inputs], [np.asarray(x) for x in outputs]))
    return cases


def prepared() -> Iterator[tuple[str, ir.Model, dict[str, Array], list[Array]]]:
    """Each case with small integer inputs as constants, without declared output shapes, inferred."""
    for name, original, arrays, results in node_cases():
        proto = onnx.ModelProto()
        proto.CopyFrom(original)
        for out in proto.graph.output:
            out.type.tensor_type.ClearField("shape")
        model = ir.from_proto(proto)
        graph = model.graph
        feeds = dict(zip([v.name or "" for v in graph.inputs], arrays, strict=True))
        for value in list(graph.inputs):
            array = feeds[value.name or ""]
            if (array.dtype.kind in "iu" and array.size <= 64) or value.name in ("scales", "roi", "start", "limit"):
                graph.inputs.remove(value)
                value.const_value = ir.Tensor(array, name=value.name)
                graph.initializers.add(value)
        for node in graph:
            node.version = None
        infer(model)
        yield name, model, feeds, results


def test_inferred_types_are_those_of_the_specifications_results() -> None:
    wrong, static, total = [], 0, 0
    for name, model, _, results in prepared():
        for value, result in zip([o for o in model.graph.outputs if o.name], results, strict=False):
            total += 1
            if value.shape is not None and value.shape.is_static():
                static += 1
                if tuple(value.shape.numpy()) != result.shape:
                    wrong.append((name, str(value.shape), result.shape))
            numeric = result.dtype.kind not in "OSU"
            if value.dtype is not None and numeric and value.dtype != ir.DataType.from_numpy(result.dtype):
                wrong.append((name, value.dtype, result.dtype))
    assert wrong == []
    assert total > 900
    assert static / total > 0.95


def test_evaluation_gives_the_specifications_results() -> None:
    wrong, done = [], 0
    for name, model, feeds, results in prepared():
        node = model.graph[0]
        arrays = evaluate(node, [None if v is None else feeds[v.name or ""] for v in node.inputs])
        if arrays is None:
            continue
        done += 1
        wanted = [a for a, o in zip(arrays, node.outputs, strict=False) if o.name]
        for actual, expected in zip(wanted, results, strict=True):
            if actual.shape != expected.shape or not _close(actual, expected):
                wrong.append(name)
    assert wrong == []
    assert done > 700


def _close(actual: Array, expected: Array) -> bool:
    if expected.dtype.kind in "OSU":
        return actual.astype(str).tolist() == expected.astype(str).tolist()
    return np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("key", [k for k, m in REAL_MODELS.items() if not m.has_contrib_ops])
def test_every_value_of_a_real_model_has_the_shape_onnxruntime_computes(key: str) -> None:
    model = load(REAL_MODELS[key].path, input_shapes=REAL_MODELS[key].shapes).model
    infer(model)
    for graph in model.graphs():
        for node in graph:
            for out in node.outputs:
                assert out.shape is not None and out.shape.is_static() and out.dtype is not None, out.name
    proto = ir.to_proto(model)
    have = {o.name for o in proto.graph.output}
    for node in proto.graph.node:
        proto.graph.output.extend(
            onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n and n not in have
        )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options)
    results = dict(zip([o.name for o in session.get_outputs()], session.run(None, example_inputs(key)), strict=True))
    for node in model.graph:
        for out in node.outputs:
            result = results.get(out.name or "")
            if result is not None:
                assert out.shape is not None
                assert (tuple(out.shape.numpy()), out.dtype) == (result.shape, ir.DataType.from_numpy(result.dtype))


def parse(text: str) -> ir.Model:
    header = '<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> g '
    return ir.from_proto(onnx.parser.parse_model(header + text))


def shape_of(model: ir.Model, name: str) -> str:
    values = {o.name: o for g in model.graphs() for n in g for o in n.outputs}
    return str(values[name].shape)


def test_all_inconsistent_nodes_are_listed_at_once() -> None:
    model = parse(
        """(float[2,3] x, float[4,5] z) => (float y)
        { a = MatMul(x, z) b = Add(x, z) c = Concat<axis = 0>(x, z) d = Transpose<perm = [0, 0]>(x) y = Add(c, d) }"""
    )
    with pytest.raises(AscError) as caught:
        infer(model)
    assert [p.what.split(" ")[0] for p in caught.value.problems] == ["MatMul", "Add", "Concat", "Transpose"]
    assert all(p.nodes and p.cause and p.fix for p in caught.value.problems)


@pytest.mark.parametrize(
    "body",
    [
        "y = Reshape(x, bad)",
        "y = Conv(x, w)",
        "y = Gather<axis = 7>(x, bad)",
        "y = Squeeze(x, zero)",
        "y = Gemm(x, x)",
        "y = Split<axis = 0, num_outputs = 2>(x)",
        "y = Slice(x, zero, zero, zero, zero)",
        "y = Expand(x, bad)",
        "y = MaxPool<kernel_shape = [9, 9]>(x)",
        "y = Cast(x)",
        "y = Add(x)",
    ],
)
def test_nodes_that_cannot_run_are_refused(body: str) -> None:
    model = parse(
        "(float[2,3,4,5] x) => (y) <int64[2] bad = {7, 7}, int64[1] zero = {0}, float[2,2,9,9] w = {"
        + ",".join("1" * 324)
        + "}> { "
        + body
        + " }"
    )
    with pytest.raises(AscError):
        infer(model)


def test_named_dimensions_survive_shape_arithmetic() -> None:
    model = parse(
        """(float[batch, seq, 64] x) => (float[a, b, c, d] y)
        <int64 i0 = {0}, int64 i1 = {1}, int64[1] ax = {0}, int64[1] h = {4}, int64[1] k = {16}>
        { s = Shape(x) b = Gather(s, i0) q = Gather(s, i1) b1 = Unsqueeze(b, ax) q1 = Unsqueeze(q, ax)
          t = Concat<axis = 0>(b1, q1, h, k) r = Reshape(x, t) y = Transpose<perm = [0, 2, 1, 3]>(r) }"""
    )
    infer(model)
    assert shape_of(model, "y") == "[batch,4,seq,16]"


def test_minus_one_takes_the_dimension_that_is_left() -> None:
    model = parse(
        """(float[n, 4, 8] x) => (float[a, b] y, float[c, d] z) <int64[2] t = {-1, 32}, int64[2] u = {0, -1}>
        { y = Reshape(x, t) z = Reshape(x, u) }"""
    )
    infer(model)
    assert (shape_of(model, "y"), shape_of(model, "z")) == ("[n,32]", "[n,32]")


def test_branches_that_differ_leave_a_dimension_open() -> None:
    model = parse(
        """(float[2,3] x, bool c) => (float[a, b] y) <int64[1] ax = {1}>
        { y = If (c) <then_branch = t () => (float[p, q] u) { u = Concat<axis = 1>(x, x) },
                      else_branch = e () => (float[r, s] v) { v = Relu(x) }> }"""
    )
    model.graph.outputs[0].shape = None
    infer(model)
    assert shape_of(model, "y") == "[2,None]"
    assert shape_of(model, "u") == "[2,6]"


def test_a_value_that_grows_in_a_loop_has_no_fixed_dimension() -> None:
    model = parse(
        """(float[1,3] x, int64 n) => (float[a,b] y, float[c,d,e] z) <bool c = {1}>
        { y, z = Loop (n, c, x) <body = b (int64 i, bool go, float[p,q] v) => (bool again, float[r,s] w, float[t,u] o) {
            again = Identity(go) w = Concat<axis = 0>(v, x) o = Relu(x) }> }"""
    )
    for value in model.graph.outputs:
        value.shape = None
    infer(model)
    assert shape_of(model, "y") == "[None,3]"
    assert shape_of(model, "z") == "[None,1,3]"


def test_scan_cuts_inputs_and_stacks_outputs() -> None:
    model = parse(
        """(float[3] s, float[7,3] x) => (float[a] y, float[b,c] z)
        { y, z = Scan <num_scan_inputs = 1, body = b (float[p] st, float[q] e) => (float[r] n, float[t] o) {
            n = Add(st, e) o = Identity(n) }> (s, x) }"""
    )
    for value in model.graph.outputs:
        value.shape = None
    infer(model)
    assert (shape_of(model, "y"), shape_of(model, "z")) == ("[3]", "[7,3]")


def test_unknown_operators_leave_their_outputs_open() -> None:
    model = parse("(float[2,3] x) => (y) { a = com.microsoft.BiasGelu(x, x) y = Relu(a) }")
    infer(model)
    assert shape_of(model, "a") == "None"


def test_huge_results_are_neither_computed_nor_stored() -> None:
    model = parse(
        """(float[1] x) => (float[a] y) <int64[1] n = {4611686018427387904}, int64 z = {0}, int64 e = {1000000000000},
        int64 one = {1}, float v = {1.0}>
        { a = Expand(v, n) b = Range(z, e, one) c = ConstantOfShape(n) d = Tile(x, n) y = Relu(x) }"""
    )
    with pytest.raises(AscError) as refused:  # 2^62 elements: no device holds them
        infer(model)
    assert {p.what.split(" ")[0] for p in refused.value.problems} == {"Expand", "ConstantOfShape", "Tile"}
    assert shape_of(model, "b") == "[1000000000000]"
    for node in model.graph:
        if node.op_type != "Relu":
            values = [v.const_value.numpy() for v in node.inputs if v is not None and v.const_value is not None]
            assert len(values) < len(node.inputs) or evaluate(node, values) is None


@pytest.mark.parametrize(
    ("body", "x", "expected"),
    [
        ("y = Div(x, two)", [-7, 7, -8], [-3, 3, -4]),
        ("y = Mod(x, two)", [-7, 7, -8], [1, 1, 0]),
        ("y = Mod<fmod = 1>(x, two)", [-7, 7, -8], [-1, 1, 0]),
    ],
)
def test_integer_division_follows_the_specification(body: str, x: list[int], expected: list[int]) -> None:
    model = parse(f"(int64[3] x) => (int64[3] y) <int64 two = {{2}}> {{ {body} }}")
    infer(model)
    result = evaluate(model.graph[0], [np.array(x), np.array(2)])
    assert result is not None and result[0].tolist() == expected


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3e9, -3e9])
def test_casts_that_overflow_are_left_to_the_runtime(number: float) -> None:
    model = parse("(float[1] x) => (int32[1] y) { y = Cast<to = 6>(x) }")
    infer(model)
    assert evaluate(model.graph[0], [np.array([number], np.float32)]) is None


def test_gather_out_of_range_is_left_to_the_runtime() -> None:
    model = parse("(float[3] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }")
    infer(model)
    assert evaluate(model.graph[0], [np.zeros(3, np.float32), np.array([3])]) is None


def test_damaged_shape_computations_and_frames_are_findings_not_crashes() -> None:
    from onnx import TensorProto, helper, numpy_helper

    def model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> ir.Model:
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16, 1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, n) for n, a in weights.items()],
        )
        return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10))

    out_of_range = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["g"]),
        helper.make_node("Expand", ["x", "g"], ["y"]),
    ]
    no_step = [helper.make_node("STFT", ["x", "zero", "", "length"], ["y"])]
    for nodes, weights in (
        (out_of_range, {"i": np.array([7], np.int64)}),
        (no_step, {"zero": np.array(0, np.int64), "length": np.array(4, np.int64)}),
    ):
        try:
            infer(model(nodes, weights))
        except AscError as error:
            assert error.problems[0].nodes


@pytest.mark.provokes("E13014")
def test_bodies_nested_without_end_are_refused() -> None:
    flag, x = ir.Value(name="flag"), ir.Value(name="x")
    flag.dtype, flag.shape, x.dtype, x.shape = ir.DataType.BOOL, ir.Shape(()), ir.DataType.FLOAT, ir.Shape((2,))
    node = ir.Node("", "Identity", [x])
    for level in range(40):
        body = ir.Graph([], node.outputs, nodes=[node], name=f"body{level}")
        node = ir.Node("", "If", [flag], [ir.AttrGraph("then_branch", body)])
    model = ir.Model(ir.Graph([flag, x], node.outputs, nodes=[node], opset_imports={"": 23}), ir_version=10)
    with pytest.raises(AscError, match="nested too deeply"):
        infer(model)
