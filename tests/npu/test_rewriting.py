"""What is inserted where: clamps only where something can overflow, casts at blocked tensors, nothing in fp32."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from asc_devkit.npu import ort, rewrite
from asc_devkit.npu.intervals import Bounds
from asc_devkit.npu.numerics import Rounding
from tests.npu.build import Array, proto

FP16 = ir.DataType.FLOAT16


def _build(
    model: onnx.ModelProto, rounded: Mapping[str, bool], folder: Path, dumps: tuple[str, ...] = ()
) -> tuple[rewrite.Executable, onnx.GraphProto]:
    """``rounded``: value -> saturate."""
    typed = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    points = [Rounding(name, FP16, saturate) for name, saturate in rounded.items()]
    built = rewrite.build(typed, points, dict.fromkeys(dumps, FP16), folder)
    return built, onnx.load(folder / "0.run.onnx", load_external_data=False).graph


def _run(folder: Path, feed: Mapping[str, Array], graph: str = "0.run.onnx") -> list[Array]:
    result: list[Array] = ort.load(folder / graph, 1).run(None, dict(feed))
    return result


def _conv_chain(act: str | None) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4)]
    nodes += [helper.make_node(act, ["a"], ["b"])] if act else [helper.make_node("Neg", ["a"], ["b"])]
    nodes += [helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4)]
    w = (rng.standard_normal((16, 16, 3, 3)) * 0.2).astype(np.float32)
    return proto(nodes, {"x": (1, 16, 12, 12)}, {"y": (1, 16, 12, 12)}, {"w": w})


def test_relu_and_clamp_become_the_activation_of_the_convolution(tmp_path: Path) -> None:
    _, graph = _build(_conv_chain("Relu"), {"b": True, "y": True}, tmp_path)
    kinds = Counter(n.op_type for n in graph.node)
    assert kinds["Clip"] == kinds["Relu"] == 0
    activations = [
        (a.s.decode(), [round(p, 1) for p in next(x.floats for x in n.attribute if x.name == "activation_params")])
        for n in graph.node
        for a in n.attribute
        if a.name == "activation"
    ]
    assert activations == [("Clip", [0.0, 65504.0]), ("Clip", [-65504.0, 65504.0])]


def test_blocked_tensors_are_rounded_as_they_are(tmp_path: Path) -> None:
    """No reordering between the two convolutions: the cast pair works on the blocked tensor."""
    _, graph = _build(_conv_chain("Relu"), {"b": True}, tmp_path, ("b", "y"))
    order = [n.op_type for n in graph.node]
    first, second = (i for i, kind in enumerate(order) if kind == "Conv")
    assert order[first + 1 : second] == ["Cast", "Cast"]


def test_the_consumer_reads_rounded_values(tmp_path: Path) -> None:
    model = _conv_chain("Relu")
    _build(model, {"b": True}, tmp_path, ("b", "y"))
    x = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)
    names = [o.name for o in onnx.load(tmp_path / "0.dump.onnx", load_external_data=False).graph.output]
    by_name = dict(zip(names, _run(tmp_path, {"x": x}, "0.dump.onnx"), strict=True))
    half = next(v for v in by_name.values() if v.dtype == np.float16 and (v >= 0).all())
    w = onnx.numpy_helper.to_array(model.graph.initializer[0])
    padded = np.pad(half.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    np.testing.assert_allclose(_run(tmp_path, {"x": x})[0].astype(np.float64), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("nodes", "clamps"),
    [
        ([helper.make_node("Sigmoid", ["x"], ["y"])], 0),
        ([helper.make_node("Softmax", ["x"], ["y"])], 0),
        ([helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Mul", ["t", "t"], ["y"])], 0),
        ([helper.make_node("Clip", ["x", "lo", "hi"], ["y"])], 0),
        ([helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])], 1),
        ([helper.make_node("Exp", ["x"], ["y"])], 1),
        ([helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])], 0),
        ([helper.make_node("MatMul", ["x", "w"], ["y"])], 1),
    ],
)
def test_clamps_are_left_out_where_the_interval_proves_them_idle(
    tmp_path: Path, nodes: list[onnx.NodeProto], clamps: int
) -> None:
    constants: dict[str, Array] = {"lo": np.float32(-3), "hi": np.float32(3), "w": np.ones((8, 8), np.float32)}  # type: ignore[dict-item]
    used = {i for n in nodes for i in n.input}
    model = proto(nodes, {"x": (8, 8)}, {"y": (8, 8)}, {k: v for k, v in constants.items() if k in used})
    built, _ = _build(model, {"y": True}, tmp_path)
    assert (built.roundings, built.clamps) == (1, clamps)


def test_values_clamped_upstream_bound_what_follows() -> None:
    nodes = [helper.make_node("MatMul", ["x", "x"], ["m"]), helper.make_node("Sigmoid", ["m"], ["s"])]
    nodes += [helper.make_node("Mul", ["m", "s"], ["y"])]
    graph = ir.from_proto(proto(nodes, {"x": (4, 4)}, {"y": (4, 4)})).graph
    bounds = Bounds(graph, {"m": 65504.0}, {})
    y = graph.outputs[0]
    low, high = bounds.after[y]
    assert -65600 < low < 0 < high < 65600
    assert Bounds(graph, {}, {}).after[y] == (-np.inf, np.inf)


def test_intervals_hold_for_random_inputs() -> None:
    """Every bound claimed for a chain of operators contains what ONNX Runtime computes."""
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.standard_normal((16, 16)).astype(np.float32),
        "g": rng.standard_normal(16).astype(np.float32),
        "c": rng.standard_normal((4, 16)).astype(np.float32),
        "axes": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "g"], ["ln"], axis=-1),
        helper.make_node("MatMul", ["ln", "w"], ["mm"]),
        helper.make_node("Gelu", ["mm"], ["ge"]),
        helper.make_node("Add", ["ge", "c"], ["ad"]),
        helper.make_node("Sub", ["ad", "mm"], ["su"]),
        helper.make_node("Abs", ["su"], ["ab"]),
        helper.make_node("Sqrt", ["ab"], ["sq"]),
        helper.make_node("Softmax", ["mm"], ["so"]),
        helper.make_node("Mul", ["so", "ad"], ["mu"]),
        helper.make_node("ReduceMean", ["mu", "axes"], ["re"]),
        helper.make_node("HardSwish", ["ad"], ["hs"]),
        helper.make_node("Max", ["ad", "mu"], ["ma"]),
        helper.make_node("Neg", ["ma"], ["ne"]),
        helper.make_node("Erf", ["ne"], ["er"]),
        helper.make_node("Concat", ["er", "ma"], ["y"], axis=1),
    ]
    model = proto(nodes, {"x": (4, 16)}, {"y": (4, 32)}, constants)
    model.opset_import[0].version = 20
    names = [n.output[0] for n in nodes]
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names[:-1])
    session = __import__("onnxruntime").InferenceSession(model.SerializeToString())
    del model.graph.output[1:]
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(model)).graph
    bounds = Bounds(graph, {}, {})
    made = {v.name: v for n in graph for v in n.outputs}
    for scale in (1e-3, 1.0, 1e4):
        x = (rng.standard_normal((4, 16)) * scale).astype(np.float32)
        for name, value in zip(names, session.run(names, {"x": x}), strict=True):
            low, high = bounds.after[made[name]]
            assert np.isfinite([low, high]).all(), name
            assert low <= value.min() and value.max() <= high, name


def test_constant_branches_are_rounded_step_by_step(tmp_path: Path) -> None:
    """ONNX Runtime folds them; folding in fp32 and rounding once at the end would give another number."""
    c = np.float32(0.1234567)
    nodes = [
        helper.make_node("Mul", ["c", "c"], ["m"]),
        helper.make_node("Exp", ["m"], ["e"]),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ]
    model = proto(nodes, {"x": (2,)}, {"y": (2,)}, {"c": c})  # type: ignore[dict-item]
    _build(model, {"m": True, "e": True}, tmp_path)
    m = np.float32(np.float16(c * c))
    assert _run(tmp_path, {"x": np.zeros(2, np.float32)})[0][0] == np.float32(np.float16(np.exp(m)))


def test_a_rounded_view_and_its_unrounded_source_stay_apart(tmp_path: Path) -> None:
    """The device casts u to fp16 for one reader while another goes on with fp32."""
    nodes = [
        helper.make_node("Exp", ["x"], ["u"]),
        helper.make_node("Identity", ["u"], ["v"]),
        helper.make_node("Neg", ["v"], ["a"]),
        helper.make_node("Neg", ["u"], ["b"]),
    ]
    x = np.linspace(0, 1, 64, dtype=np.float32)
    for saturate in (True, False):
        folder = tmp_path / str(saturate)
        folder.mkdir()
        _build(proto(nodes, {"x": (64,)}, {"a": (64,), "b": (64,)}), {"v": saturate}, folder)
        a, b = _run(folder, {"x": x})
        assert (a == a.astype(np.float16)).all()
        assert (b != b.astype(np.float16)).any()
        assert (a == b.astype(np.float16)).all()


def test_transposes_that_the_optimiser_moves_do_not_hide_a_rounding(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    w = rng.standard_normal((8,)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Exp", ["t"], ["e"]),
        helper.make_node("Transpose", ["e"], ["n"], perm=[0, 2, 3, 1]),
        helper.make_node("Mul", ["n", "w"], ["y"]),
    ]
    model = proto(nodes, {"x": (1, 4, 5, 8)}, {"y": (1, 4, 5, 8)}, {"w": w})
    _build(model, {"e": True, "y": True}, tmp_path)
    x = rng.standard_normal((1, 4, 5, 8)).astype(np.float32)
    e = np.exp(x.astype(np.float64)).astype(np.float16).astype(np.float32)
    got, wanted = _run(tmp_path, {"x": x})[0], (e * w).astype(np.float16).astype(np.float32)
    assert np.mean(got != wanted) < 0.02


def test_without_rounding_points_nothing_is_inserted(tmp_path: Path) -> None:
    built, graph = _build(_conv_chain("Relu"), {}, tmp_path, ("a", "y"))
    assert (built.roundings, built.clamps) == (0, 0)
    assert not any(n.op_type in ("Cast", "Clip") and not n.name.endswith("/store") for n in graph.node)


def test_roundings_inside_branches(tmp_path: Path) -> None:
    def body(kind: str, name: str) -> onnx.GraphProto:
        node = helper.make_node(kind, ["x"], [name], f"in_{name}")
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, 1, [16])])

    choose = helper.make_node("If", ["c"], ["y"], "if", then_branch=body("Exp", "p"), else_branch=body("Sin", "q"))
    model = proto([choose], {"x": [16], "c": []}, {"y": [16]}, dtypes={"c": TensorProto.BOOL})
    built, _ = _build(model, {"p": True, "q": True}, tmp_path)
    assert built.roundings == 2
    x = np.linspace(0, 20, 16, dtype=np.float32)
    grown = _run(tmp_path, {"x": x, "c": np.array(True)})[0]
    assert (grown == grown.astype(np.float16)).all()
    assert grown.max() == 65504
    waves = _run(tmp_path, {"x": x, "c": np.array(False)})[0]
    np.testing.assert_allclose(waves, np.sin(x), atol=5e-4)
    assert (waves == waves.astype(np.float16)).all()
