"""Each adapter: a model of the old opset and its canonical form give the same result.

The expected result comes from ONNX Runtime on the original, where it still has the old operator, else from numpy
written out by hand after the old operator's definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from asc_devkit.errors import AscError
from asc_devkit.ops.catalogue import CANONICAL_OPSET
from tests.frontends.running import loaded, make, run, run_loaded

Node = helper.make_node
RNG = np.random.default_rng(7)
Array = np.ndarray[Any, Any]


def rnd(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """``expected`` None: ONNX Runtime on the original is the judge."""

    name: str
    opset: int
    nodes: list[onnx.NodeProto]
    feeds: dict[str, Array]
    expected: Callable[..., Any] | None = None
    constants: dict[str, Array] = field(default_factory=dict)
    declare: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y",)


X4 = rnd(2, 3, 4, 5)
POSITIVE = np.abs(rnd(2, 3, 4, 5)) + 0.5
BN = {k: np.abs(rnd(3)) + 0.5 for k in ("s", "b", "m", "v")}


def _bn(x: Array, s: Array, b: Array, m: Array, v: Array, eps: float = 1e-5) -> Array:
    return s.reshape(1, -1, 1, 1) * (x - m.reshape(1, -1, 1, 1)) / np.sqrt(v.reshape(1, -1, 1, 1) + eps) + b.reshape(
        1, -1, 1, 1
    )


def _softmax_2d(x: Array, axis: int, form: str) -> Array:
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(flat - flat.max(1, keepdims=True))
    result = e / e.sum(1, keepdims=True)
    if form == "LogSoftmax":
        result = np.log(result)
    if form == "Hardmax":
        result = np.eye(flat.shape[1], dtype=x.dtype)[flat.argmax(1)]
    return result.reshape(x.shape).astype(x.dtype)


def _binary() -> list[Case]:
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
        "Greater": np.greater, "Less": np.less, "Equal": np.equal, "And": np.logical_and, "Or": np.logical_or,
        "Xor": np.logical_xor,
    }  # fmt: skip
    cases = []
    for op, function in functions.items():
        a, b = np.abs(X4), np.abs(rnd(3))
        if op in ("And", "Or", "Xor"):
            a, b = X4 > 0, rnd(3) > 0
        if op == "Equal":
            a, b = (X4 * 2).astype(np.int32), (rnd(3) * 2).astype(np.int32)

        def expected(a: Array, b: Array, f: Any = function) -> Array:
            return np.asarray(f(a, b[:, None, None] if b.shape == (3,) else b))

        node = Node(op, ["a", "b"], ["y"], broadcast=1, axis=1)
        cases.append(Case(f"{op}-axis", 6, [node], {"a": a, "b": b}, expected))
        cases.append(Case(f"{op}-axis-constant", 6, [node], {"a": a}, lambda a, e=expected, b=b: e(a, b), {"b": b}))
        full = np.ascontiguousarray(a[::-1])
        cases.append(Case(f"{op}-same-shape", 6, [Node(op, ["a", "b"], ["y"])], {"a": a, "b": full}, expected))
    return cases


def _reductions() -> list[Case]:
    cases = []
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare", "Sum"):
        opset = 11 if op == "Sum" else 13
        for label, attrs in (("all", {}), ("axes", {"axes": [1, -1]}), ("flat", {"axes": [2], "keepdims": 0})):
            node = Node(f"Reduce{op}", ["x"], ["y"], **attrs)
            cases.append(Case(f"Reduce{op}-{label}", opset, [node], {"x": POSITIVE}))
    return cases


def _softmaxes() -> list[Case]:
    cases = []
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, 1, 2, 3, -1, -3):
            node = Node(op, ["x"], ["y"], axis=axis)
            cases.append(Case(f"{op}-axis{axis}", 11, [node], {"x": X4}))
        cases.append(
            Case(f"{op}-default", 9, [Node(op, ["x"], ["y"])], {"x": X4}, lambda x, o=op: _softmax_2d(x, 1, o))
        )
        open_rank = [Node("Reshape", ["x", "s"], ["r"]), Node(op, ["r"], ["y"])]
        cases.append(Case(f"{op}-unknown-rank", 11, open_rank, {"x": X4, "s": i64(2, 3, 20)}, declare={"s": ["n"]}))
        cases.append(Case(f"{op}-image-logits", 11, [Node(op, ["x"], ["y"])], {"x": rnd(2, 7, 1, 1)}))
    return cases


def _recurrent() -> list[Case]:
    cases = []
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        weights = {"w": rnd(1, gates * 4, 3), "r": rnd(1, gates * 4, 4), "b": rnd(1, gates * 8)}
        node = Node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4)
        feeds = {"x": rnd(5, 2, 3)}
        cases.append(Case(f"{op}-7", 7, [node], feeds, None, weights, outputs=("y", "h")))

        def newest(x: Array, o: str = op, w: dict[str, Array] = weights) -> list[Array]:
            modern = Node(o, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4)
            return run(make([modern], {"x": x}, ["y", "h"], 22, w).SerializeToString(), {"x": x})

        old = Node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4, output_sequence=1)
        cases.append(Case(f"{op}-1", 5, [old], feeds, newest, weights, outputs=("y", "h")))
    return cases


def _scan8() -> Case:
    """Running sums along axis 1, for each row of axis 0 by itself."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [Node("Add", ["s", "v"], ["s2"]), Node("Identity", ["s2"], ["o"])],
        "body",
        [value("s", TensorProto.FLOAT, [2]), value("v", TensorProto.FLOAT, [2])],
        [value("s2", TensorProto.FLOAT, [2]), value("o", TensorProto.FLOAT, [2])],
    )
    node = Node("Scan", ["", "init", "x"], ["last", "y"], body=body, num_scan_inputs=1)

    def expected(init: Array, x: Array) -> list[Array]:
        sums = init[:, None] + np.cumsum(x, 1)
        return [sums[:, -1], sums]

    return Case("Scan-8", 8, [node], {"init": rnd(3, 2), "x": rnd(3, 4, 2)}, expected, outputs=("last", "y"))


def _group_norm_18(x: Array, s: Array, b: Array) -> Array:
    grouped = x.reshape(2, 2, 2, -1)
    flat = grouped.reshape(2, 2, -1)
    normal = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
    return (normal * s[None, :, None] + b[None, :, None]).reshape(x.shape)


_EMPTY = np.zeros(0, np.float32)
_ROI = {"rois": np.array([[0, 0, 3, 3], [1, 0, 4, 2]], np.float32), "bi": i64(0, 1)}
_SD = rnd(1, 2, 4, 6)

CASES: list[Case] = [
    *_binary(),
    *_reductions(),
    *_softmaxes(),
    *_recurrent(),
    _scan8(),
    Case("Relu-1", 1, [Node("Relu", ["x"], ["y"], consumed_inputs=[0])], {"x": X4}, lambda x: np.maximum(x, 0)),
    Case("BatchNormalization-1", 5, [Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], is_test=1,
         consumed_inputs=[0, 0, 0, 1, 1])], {"x": X4}, lambda x: _bn(x, **BN), BN),
    Case("BatchNormalization-6", 6, [Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], is_test=1,
         epsilon=1e-3)], {"x": X4}, lambda x: _bn(x, **BN, eps=1e-3), BN),
    Case("BatchNormalization-7-spatial", 7, [Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])], {"x": X4},
         None, BN),
    Case("BatchNormalization-7-activations", 7, [Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"],
         spatial=0)], {"x": X4}, lambda x: 2 * (x - POSITIVE[0]) / np.sqrt(POSITIVE[1] + 1e-5) + POSITIVE[1],
         {"s": np.full((3, 4, 5), 2, np.float32), "b": POSITIVE[1], "m": POSITIVE[0], "v": POSITIVE[1]}),
    Case("BatchNormalization-9", 9, [Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])], {"x": X4}, None,
         BN),
    Case("BatchNormalization-9-idle-outputs", 9, [Node("BatchNormalization", ["x", "s", "b", "m", "v"],
         ["y", "o1", "o2", "o3", "o4"])], {"x": X4}, lambda x: _bn(x, **BN), BN),
    Case("Cast-1", 5, [Node("Cast", ["x"], ["y"], to="INT32")], {"x": X4 * 9}, lambda x: x.astype(np.int32)),
    Case("Clip-1", 1, [Node("Clip", ["x"], ["y"], min=-0.5, max=0.5, consumed_inputs=[0])], {"x": X4},
         lambda x: np.clip(x, -0.5, 0.5)),
    Case("Clip-6", 10, [Node("Clip", ["x"], ["y"], min=-0.5, max=0.25)], {"x": X4}),
    Case("Clip-6-one-sided", 10, [Node("Clip", ["x"], ["y"], min=0.0)], {"x": X4}),
    Case("Clip-6-no-limits", 10, [Node("Clip", ["x"], ["y"])], {"x": X4}),
    Case("Clip-6-after-unknown-rank", 10, [Node("Reshape", ["x", "s"], ["r"]), Node("Clip", ["r"], ["y"], max=0.1)],
         {"x": X4, "s": i64(-1)}, declare={"s": ["n"]}),
    Case("Clip-6-double", 9, [Node("Clip", ["x"], ["y"], min=-0.5)], {"x": rnd(4, dtype=np.float64)},
         lambda x: np.maximum(x, np.float64(np.float32(-0.5)))),
    Case("Concat-1-default-axis", 3, [Node("Concat", ["x", "x"], ["y"])], {"x": X4},
         lambda x: np.concatenate([x, x], 1)),
    Case("DFT-17", 17, [Node("DFT", ["x"], ["y"], axis=1)], {"x": rnd(2, 8, 3, 1)}),
    Case("DFT-17-default-axis", 17, [Node("DFT", ["x"], ["y"])], {"x": rnd(2, 8, 3, 1)}),
    Case("DFT-17-length", 17, [Node("DFT", ["x", "n"], ["y"])], {"x": rnd(2, 8, 3, 1)}, None,
         {"n": np.array(4, np.int64)}),
    Case("Dropout-1", 5, [Node("Dropout", ["x"], ["y"], is_test=1, ratio=0.3)], {"x": X4}, lambda x: x),
    Case("Dropout-7", 7, [Node("Dropout", ["x"], ["y"], ratio=0.3)], {"x": X4}),
    Case("Dropout-10", 10, [Node("Dropout", ["x"], ["y"], ratio=0.9)], {"x": X4}),
    Case("Gemm-6", 6, [Node("Gemm", ["a", "b", "c"], ["y"], broadcast=1, alpha=0.5, transB=1)],
         {"a": rnd(3, 4), "b": rnd(5, 4), "c": rnd(5)}, lambda a, b, c: np.float32(0.5) * a @ b.T + c),
    Case("GridSample-16", 16, [Node("GridSample", ["x", "g"], ["y"])], {"x": X4, "g": np.tanh(rnd(2, 3, 3, 2))}),
    Case("GridSample-16-bicubic", 16, [Node("GridSample", ["x", "g"], ["y"], mode="bicubic")],
         {"x": X4, "g": np.tanh(rnd(2, 3, 3, 2))}),
    Case("GroupNormalization-18", 18, [Node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
         {"x": rnd(2, 4, 5)}, lambda x: _group_norm_18(x, BN["s"][:2], BN["b"][:2]),
         {"s": BN["s"][:2], "b": BN["b"][:2]}),
    Case("GroupNormalization-18-computed-scale", 18, [Node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
         {"x": rnd(2, 4, 5), "s": rnd(2), "b": rnd(2)}, _group_norm_18),
    Case("LpPool-1", 1, [Node("LpPool", ["x"], ["y"], p=2.0, kernel_shape=[2, 2], strides=[2, 1])], {"x": X4},
         lambda x: np.sqrt(sum(x[:, :, i::2, j:j + 4][:, :, :2] ** 2 for i in (0, 1) for j in (0, 1)))),
    Case("PRelu-6-per-channel", 6, [Node("PRelu", ["x", "s"], ["y"])], {"x": X4, "s": rnd(3)},
         lambda x, s: np.where(x < 0, x * s[:, None, None], x)),
    Case("PRelu-6-shared", 6, [Node("PRelu", ["x", "s"], ["y"])], {"x": X4, "s": rnd(1)},
         lambda x, s: np.where(x < 0, x * s, x)),
    Case("Pad-1", 1, [Node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 2, 0, 0, 0, 1], value=1.5)], {"x": X4},
         lambda x: np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 1)], constant_values=1.5)),
    Case("Pad-2", 10, [Node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 0, 1], value=-2.0)], {"x": X4}),
    Case("Pad-2-reflect", 10, [Node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 0, 1], mode="reflect")], {"x": X4}),
    Case("Pad-2-crop", 10, [Node("Pad", ["x"], ["y"], pads=[0, 0, -1, 2, 0, 0, 0, -1], mode="edge")], {"x": X4}),
    Case("Reshape-1", 4, [Node("Reshape", ["x"], ["y"], shape=[0, -1, 5])], {"x": X4}, lambda x: x.reshape(2, -1, 5)),
    Case("Resize-10-up", 10, [Node("Resize", ["x", "s"], ["y"])], {"x": X4}, None,
         {"s": np.array([1, 1, 2, 1.5], np.float32)}),
    Case("Resize-10-down", 10, [Node("Resize", ["x", "s"], ["y"])], {"x": rnd(1, 1, 9, 9)}, None,
         {"s": np.array([1, 1, 0.6, 0.4], np.float32)}),
    Case("Resize-10-linear", 10, [Node("Resize", ["x", "s"], ["y"], mode="linear")], {"x": X4}, None,
         {"s": np.array([1, 1, 2, 3], np.float32)}),
    Case("Resize-10-linear-down", 10, [Node("Resize", ["x", "s"], ["y"], mode="linear")], {"x": rnd(1, 1, 9, 9)}, None,
         {"s": np.array([1, 1, 0.6, 0.4], np.float32)}),
    Case("Resize-11-sizes", 11, [Node("Resize", ["x", "r", "s", "z"], ["y"], mode="linear",
         coordinate_transformation_mode="pytorch_half_pixel")], {"x": X4}, None,
         {"r": _EMPTY, "s": _EMPTY, "z": i64(2, 3, 7, 9)}),
    Case("Resize-11-tf-half-pixel", 11, [Node("Resize", ["x", "r", "s"], ["y"], nearest_mode="floor",
         coordinate_transformation_mode="tf_half_pixel_for_nn")], {"x": X4}, None,
         {"r": _EMPTY, "s": np.array([1, 1, 2.5, 1.3], np.float32)}),
    Case("Resize-11-tf-half-pixel-default-rounding", 11, [Node("Resize", ["x", "r", "s"], ["y"],
         coordinate_transformation_mode="tf_half_pixel_for_nn")], {"x": X4}, None,
         {"r": _EMPTY, "s": np.array([1, 1, 2.5, 0.6], np.float32)}),
    Case("RoiAlign-10", 10, [Node("RoiAlign", ["x", "rois", "bi"], ["y"], output_height=2, output_width=2,
         sampling_ratio=2)], {"x": X4}, None, _ROI),
    Case("Scatter-9", 10, [Node("Scatter", ["x", "i", "u"], ["y"], axis=1)], {"x": rnd(2, 4), "u": rnd(2, 2)}, None,
         {"i": np.array([[1, 3], [0, 2]], np.int64)}),
    Case("Selu-1-defaults", 5, [Node("Selu", ["x"], ["y"])], {"x": X4},
         lambda x: np.where(x > 0, 1.0507 * x, 1.0507 * (1.6732 * np.exp(x) - 1.6732)).astype(np.float32)),
    Case("Slice-1", 9, [Node("Slice", ["x"], ["y"], starts=[1, -3], ends=[9, -1], axes=[1, 3])], {"x": X4}),
    Case("Slice-1-no-axes", 9, [Node("Slice", ["x"], ["y"], starts=[0, 1], ends=[1, 3])], {"x": X4}),
    Case("Split-1-sizes-input", 1, [Node("Split", ["x", "s"], ["y", "z"], axis=1)], {"x": X4},
         lambda x: [x[:, :1], x[:, 1:]], {"s": np.array([1, 2], np.float32)}, outputs=("y", "z")),
    Case("Split-2", 11, [Node("Split", ["x"], ["y", "z"], axis=3, split=[2, 3])], {"x": X4}, outputs=("y", "z")),
    Case("Split-2-equal", 11, [Node("Split", ["x"], ["y", "z"], axis=2)], {"x": X4}, outputs=("y", "z")),
    Case("Split-13-equal", 13, [Node("Split", ["x"], ["y", "z"], axis=2)], {"x": X4}, outputs=("y", "z")),
    Case("Squeeze-1", 11, [Node("Squeeze", ["x"], ["y"], axes=[0, -1])], {"x": rnd(1, 3, 1, 1)}),
    Case("Squeeze-1-all", 11, [Node("Squeeze", ["x"], ["y"])], {"x": rnd(1, 3, 1, 1)}),
    Case("Unsqueeze-1", 11, [Node("Unsqueeze", ["x"], ["y"], axes=[0, -1])], {"x": X4}),
    Case("Tile-1", 5, [Node("Tile", ["x", "t", "a"], ["y"])], {"x": X4}, lambda x: np.tile(x, (1, 1, 3, 1)),
         {"t": np.array([3], np.float32), "a": np.array([2], np.float32)}),
    Case("TopK-1", 9, [Node("TopK", ["x"], ["y", "z"], k=2, axis=1)], {"x": X4}, outputs=("y", "z")),
    Case("TopK-10", 10, [Node("TopK", ["x", "k"], ["y", "z"])], {"x": X4}, None, {"k": i64(3)}, outputs=("y", "z")),
    Case("Upsample-1", 1, [Node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0, mode="nearest")],
         {"x": X4}, lambda x: x.repeat(2, 2).repeat(3, 3)),
    Case("Upsample-7", 7, [Node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.5])], {"x": X4}),
    Case("Upsample-7-linear", 7, [Node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0], mode="linear")],
         {"x": X4}),
    Case("Upsample-9", 9, [Node("Upsample", ["x", "s"], ["y"], mode="linear")], {"x": X4}, None,
         {"s": np.array([1, 1, 3, 2], np.float32)}),
    Case("AveragePool-10-ceil", 10, [Node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2],
         ceil_mode=1)], {"x": X4}),
    Case("AveragePool-11-ceil-pads", 11, [Node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2],
         ceil_mode=1, pads=[1, 1, 1, 1])], {"x": rnd(1, 1, 6, 6)}),
    Case("AveragePool-11-ceil-count-pads", 11, [Node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2],
         ceil_mode=1, count_include_pad=1, pads=[1, 1, 1, 1])], {"x": rnd(1, 1, 6, 6)}),
    Case("Cast-24-round-mode", 24, [Node("Cast", ["x"], ["y"], to=TensorProto.INT32, round_mode="down")], {"x": X4},
         lambda x: x.astype(np.int32)),
    Case("Swish-24", 24, [Node("Swish", ["x"], ["y"], alpha=1.5)], {"x": X4}, lambda x: x / (1 + np.exp(-1.5 * x))),
    Case("SwiGLU-28", 28, [Node("SwiGLU", ["a", "b"], ["y"])], {"a": X4, "b": POSITIVE},
         lambda a, b: a / (1 + np.exp(-a)) * b),
    Case("SpaceToDepth-28-CRD", 28, [Node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")], {"x": _SD},
         lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3)),
    Case("Range-27-half", 27, [Node("Range", ["a", "b", "c"], ["y"])],
         {"a": np.float16(2040), "b": np.float16(2060), "c": np.float16(1.5)},
         lambda a, b, c: np.arange(2040, 2060, 1.5, np.float32).astype(np.float16)),
    Case("Mod-28-integers", 28, [Node("Mod", ["a", "b"], ["y"])], {"a": i64(-7, 7), "b": i64(3, -3)},
         lambda a, b: np.mod(a, b)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_upgraded_model_computes_what_the_original_did(case: Case, tmp_path: Path) -> None:
    feeds = {k: np.asarray(v) for k, v in case.feeds.items()}
    model = make(case.nodes, feeds, case.outputs, case.opset, case.constants, case.declare)
    if case.expected is None:
        expected = run(model.SerializeToString(), feeds)
    else:
        result = case.expected(**feeds)
        expected = result if isinstance(result, list) else [result]
    form = loaded(model, tmp_path)
    assert form.model.opset_imports[""] == CANONICAL_OPSET
    assert form.original.opset == case.opset
    for got, want in zip(run_loaded(form, feeds), expected, strict=True):
        assert got.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


REFUSED = [
    ("computed Resize-10 scales", 10, Node("Resize", ["x", "s"], ["y"], name="bad"), {"x": X4, "s": rnd(4)}),
    ("BatchNormalization in training", 6, Node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], name="bad"),
     {"x": X4, **BN}),
    ("Dropout-7 mask", 7, Node("Dropout", ["x"], ["", "y"], name="bad"), {"x": X4}),
    ("broadcast to nowhere", 6, Node("Add", ["x", "b"], ["y"], broadcast=1, axis=3, name="bad"),
     {"x": X4, "b": rnd(4, 5)}),
    ("fractional p", 1, Node("GlobalLpPool", ["x"], ["y"], p=1.5, name="bad"), {"x": X4}),
    ("unknown Cast-1 type", 5, Node("Cast", ["x"], ["y"], to="FLOAT33", name="bad"), {"x": X4}),
    ("sliding window", 25, Node("Attention", ["q", "q", "q"], ["y"], left_window_size=2, name="bad"),
     {"q": rnd(1, 2, 3, 4)}),
    ("float floor remainder", 28, Node("Mod", ["x", "x"], ["y"], name="bad"), {"x": X4}),
    ("signed shift", 28, Node("BitShift", ["x", "x"], ["y"], direction="LEFT", name="bad"), {"x": i64(1, 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "node", "feeds"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_be_converted_exactly_is_refused_with_the_node_named(
    opset: int, node: onnx.NodeProto, feeds: dict[str, Array], tmp_path: Path
) -> None:
    with pytest.raises(AscError) as caught:
        loaded(make([node], feeds, ["y"], opset), tmp_path)
    assert "'bad'" in str(caught.value)


def test_the_exponent_of_old_pooling_becomes_a_whole_number(tmp_path: Path) -> None:
    form = loaded(make([Node("GlobalLpPool", ["x"], ["y"], p=3.0)], {"x": X4}, ["y"], 1), tmp_path)
    exponent = form.model.graph.node(0).attributes["p"]
    assert (exponent.type.name, exponent.value) == ("INT", 3)


def test_removed_operators_are_replaced_even_in_models_of_a_newer_opset(tmp_path: Path) -> None:
    scales = {"s": np.array([1, 1, 2, 2], np.float32)}
    form = loaded(make([Node("Upsample", ["x", "s"], ["y"])], {"x": X4}, ["y"], 13, scales), tmp_path)
    np.testing.assert_array_equal(run_loaded(form, {"x": X4})[0], X4.repeat(2, 2).repeat(2, 3))


def test_all_refusals_of_a_model_are_listed_together(tmp_path: Path) -> None:
    nodes = [Node("Mod", ["x", "x"], ["a"], name="first"), Node("Mod", ["a", "x"], ["y"], name="second")]
    with pytest.raises(AscError) as caught:
        loaded(make(nodes, {"x": X4}, ["y"], 28), tmp_path)
    assert "'first'" in str(caught.value) and "'second'" in str(caught.value)


def test_new_operators_without_a_rewrite_keep_their_identity(tmp_path: Path) -> None:
    node = Node("TensorScatter", ["p", "u"], ["y"])
    form = loaded(make([node], {"p": rnd(1, 2, 4, 3), "u": rnd(1, 2, 1, 3)}, ["y"], 24), tmp_path)
    assert [n.op_type for n in form.model.graph] == ["TensorScatter"]


def test_an_operator_newer_than_the_models_opset_is_taken_with_a_warning(tmp_path: Path) -> None:
    form = loaded(make([Node("Gelu", ["x"], ["y"], name="act")], {"x": X4}, ["y"], 17), tmp_path)
    assert any("Gelu 'act'" in w and "opset 20" in w for w in form.warnings)


def test_nodes_in_branches_and_loops_are_upgraded_too(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [Node("ReduceSum", ["x"], ["t"], axes=[1])], "then", [], [value("t", TensorProto.FLOAT, None)]
    )
    other = helper.make_graph(
        [Node("Clip", ["x"], ["c"], min=0.0), Node("ReduceSum", ["c"], ["e"], axes=[1])],
        "else", [], [value("e", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [Node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    for flag in (True, False):
        feeds = {"x": X4, "flag": np.array(flag)}
        model = make(nodes, feeds, ["y"], 10)
        got = run_loaded(loaded(model, tmp_path), feeds)[0]
        want = (X4 if flag else np.maximum(X4, 0)).sum(1, keepdims=True)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_functions_are_inlined_and_may_have_another_opset_than_the_model(tmp_path: Path) -> None:
    function = helper.make_function(
        "local", "TwiceSum", ["a"], ["b"],
        [
            Node("Constant", [], ["two"], value_float=2.0),
            Node("Mul", ["a", "two"], ["d"]),
            Node("ReduceSum", ["d"], ["b"], axes=[1]),
        ],
        [helper.make_opsetid("", 12)],
    )  # fmt: skip
    nodes = [Node("TwiceSum", ["x"], ["h"], domain="local"), Node("TwiceSum", ["h"], ["y"], domain="local")]
    model = make(nodes, {"x": X4}, ["y"], 18, functions=[function])
    model.opset_import.append(helper.make_opsetid("local", 1))
    form = loaded(model, tmp_path)
    assert not form.model.functions and {n.op_type for n in form.model.graph} == {"Mul", "ReduceSum"}
    np.testing.assert_allclose(run_loaded(form, {"x": X4})[0], 4 * X4.sum(1, keepdims=True), rtol=1e-5)
