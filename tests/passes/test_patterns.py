"""Small graphs for each rewrite: what it makes of its pattern, what it leaves alone, and that results stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from asc_devkit.ops.infer import infer
from asc_devkit.passes import PassContext, Switches, optimise
from tests.passes.execute import difference, run

# name -> (graph in ONNX's text syntax; operators expected afterwards)
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "hard swish, clip divided last": (
        """(float[2,3,4,4] x) => (float[2,3,4,4] y) <float three = {3.0}, float zero = {0.0}, float six = {6.0}>
        { a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six) }""",
        {"HardSwish": 1},
    ),
    "hard swish from x * HardSigmoid": (
        """(float[2,3] x) => (float[2,3] y)
        { a = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(a, x) }""",
        {"HardSwish": 1},
    ),
    "another slope is no hard swish": (
        """(float[2,3] x) => (float[2,3] y) { a = HardSigmoid<alpha = 0.2, beta = 0.5>(x) y = Mul(a, x) }""",
        {"HardSigmoid": 1, "Mul": 1},
    ),
    "a gate that is also an output stays": (
        """(float[2,3] x) => (float[2,3] y, float[2,3] g)
        { g = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(g, x) }""",
        {"HardSigmoid": 1, "Mul": 1},
    ),
    "hard sigmoid": (
        """(float[2,3] x) => (float[2,3] y) <float three = {3.0}, float zero = {0.0}, float six = {6.0}>
        { a = Add(three, x) b = Clip(a, zero, six) y = Div(b, six) }""",
        {"HardSigmoid": 1},
    ),
    "gelu with erf": (
        """(float[2,8] x) => (float[2,8] y) <float r = {1.4142135}, float one = {1.0}, float half = {0.5}>
        { a = Div(x, r) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }""",
        {"Gelu": 1},
    ),
    "gelu with tanh": (
        """(float[2,8] x) => (float[2,8] y)
        <float k = {0.044715}, float s = {0.7978845608}, float one = {1.0}, float half = {0.5}, float three = {3.0}>
        { a = Pow(x, three) b = Mul(a, k) c = Add(x, b) d = Mul(c, s) e = Tanh(d) f = Add(e, one) g = Mul(half, x)
          y = Mul(g, f) }""",
        {"Gelu": 1},
    ),
    "erf with another scale is no gelu": (
        """(float[2,8] x) => (float[2,8] y) <float r = {1.5}, float one = {1.0}, float half = {0.5}>
        { a = Div(x, r) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }""",
        {"Div": 1, "Erf": 1, "Add": 1, "Mul": 2},
    ),
    "mish": (
        """(float[2,8] x) => (float[2,8] y) { a = Softplus(x) b = Tanh(a) y = Mul(x, b) }""",
        {"Mish": 1},
    ),
    "mish with softplus spelled out": (
        """(float[2,8] x) => (float[2,8] y) <float one = {1.0}>
        { e = Exp(x) p = Add(e, one) a = Log(p) b = Tanh(a) y = Mul(b, x) }""",
        {"Mish": 1},
    ),
    "relu6 from max and min": (
        """(float[2,8] x) => (float[2,8] y) <float zero = {0.0}, float six = {6.0}>
        { a = Max(x, zero) y = Min(six, a) }""",
        {"Clip": 1},
    ),
    "layer norm with affine": (
        """(float[2,4,8] x) => (float[2,4,8] y)
        <int64[1] axes = {-1}, float two = {2.0}, float eps = {0.00001}, float[8] g = {1,2,3,4,5,6,7,8},
         float[8] b = {1,1,1,1,2,2,2,2}>
        { m = ReduceMean(x, axes) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, axes) e = Add(v, eps) s = Sqrt(e)
          n = Div(d, s) w = Mul(n, g) y = Add(w, b) }""",
        {"LayerNormalization": 1},
    ),
    "layer norm whose variance is also an output": (
        """(float[2,8] x) => (float[2,8] y, float[2,1] v) <int64[1] axes = {-1}, float two = {2.0}, float eps = {0.01}>
        { m = ReduceMean(x, axes) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, axes) e = Add(v, eps) s = Sqrt(e)
          y = Div(d, s) }""",
        {"ReduceMean": 2, "Sub": 1, "Pow": 1, "Add": 1, "Sqrt": 1, "Div": 1},
    ),
    "rms norm": (
        """(float[2,4,8] x) => (float[2,4,8] y)
        <int64[1] axes = {-1}, float eps = {0.000001}, float one = {1.0}, float[8] g = {1,2,3,4,5,6,7,8}>
        { q = Mul(x, x) v = ReduceMean(q, axes) e = Add(v, eps) s = Sqrt(e) r = Div(one, s) n = Mul(x, r)
          y = Mul(g, n) }""",
        {"RMSNormalization": 1},
    ),
    "softmax with the maximum taken off": (
        """(float[2,4,8] x) => (float[2,4,8] y) <int64[1] axes = {1}>
        { m = ReduceMax(x, axes) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, axes) y = Div(e, s) }""",
        {"Softmax": 1},
    ),
    "softmax without": (
        """(float[2,4,8] x) => (float[2,4,8] y) <int64[1] axes = {-1}>
        { e = Exp(x) s = ReduceSum(e, axes) y = Div(e, s) }""",
        {"Softmax": 1},
    ),
    "softmax between transposes": (
        """(float[2,4,8] x) => (float[2,4,8] y)
        { t = Transpose<perm = [0, 2, 1]>(x) s = Softmax<axis = 2>(t) y = Transpose<perm = [0, 2, 1]>(s) }""",
        {"Softmax": 1},
    ),
    "L2 normalisation": (
        """(float[2,8] x) => (float[2,8] y) <int64[1] axes = {1}, float eps = {0.000000000001}>
        { n = ReduceL2<keepdims = 1>(x, axes) c = Clip(n, eps) y = Div(x, c) }""",
        {"LpNormalization": 1},
    ),
    "layer norm of TensorFlow, by moments": (
        """(float[2,4,8] x) => (float[2,4,8] y)
        <int64[1] axes = {-1}, float eps = {0.00001}, float[8] g = {1,2,3,4,5,6,7,8}, float[8] b = {1,1,1,1,2,2,2,2}>
        { m = ReduceMean(x, axes) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, axes) e = Add(v, eps) s = Sqrt(e)
          i = Reciprocal(s) r = Mul(i, g) l = Mul(x, r) p = Mul(m, r) t = Sub(b, p) y = Add(l, t) }""",
        {"LayerNormalization": 1},
    ),
    "sum over n divided by n": (
        """(float[2,4,8] x) => (float[2,4,1] y) <int64[1] axes = {-1}, float r = {0.125}>
        { s = ReduceSum(x, axes) y = Mul(s, r) }""",
        {"ReduceMean": 1},
    ),
    "reduction of a transposed tensor": (
        """(float[2,3,4,5] x) => (float[2,3] y) <int64[2] axes = {1, 2}>
        { t = Transpose<perm = [0,2,3,1]>(x) y = ReduceMax<keepdims = 0>(t, axes) }""",
        {"ReduceMax": 1},
    ),
    "reduction that would leave another order stays": (
        """(float[2,3,4,5] x) => (float[3,2] y) <int64[2] axes = {1, 2}>
        { t = Transpose<perm = [1,2,3,0]>(x) y = ReduceMax<keepdims = 0>(t, axes) }""",
        {"Transpose": 1, "ReduceMax": 1},
    ),
    "expand in front of a broadcasting operator": (
        """(float[2,1] x, float[2,8] z) => (float[2,8] y) <int64[2] s = {2, 8}> { e = Expand(x, s) y = Mul(e, z) }""",
        {"Mul": 1},
    ),
    "expand that makes the shape stays": (
        """(float[2,1] x) => (float[2,8] y) <int64[2] s = {2, 8}, float c = {2.0}> { e = Expand(x, s) y = Mul(e, c) }""",
        {"Expand": 1, "Mul": 1},
    ),
    "bias behind the squeeze of a convolution": (
        """(float[1,2,4,1] x) => (float[1,3,3] y)
        <float[3,2,2,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[1] ax = {3}, float[3,1] b = {1,2,3}, float c = {2.0}>
        { a = Conv(x, w) s = Squeeze(a, ax) t = Add(b, s) y = Mul(t, c) }""",
        {"Conv": 1, "Reshape": 1},
    ),
    "zero padding before a transpose to channels first": (
        """(float[1,4,4,2] x) => (float[1,1,5,6] y)
        <int64[8] p = {0,1,1,0,0,1,2,0}, float[1,2,2,2] w = {1,2,3,4,5,6,7,8}>
        { a = Pad(x, p) t = Transpose<perm = [0,3,1,2]>(a) y = Conv(t, w) }""",
        {"Transpose": 1, "Conv": 1},
    ),
    "zero padding before a new dimension": (
        """(float[1,2,4] x) => (float[1,1,1,6] y)
        <int64[6] p = {0,0,2,0,0,1}, int64[4] s = {1,2,1,7}, float[1,2,1,2] w = {1,2,3,4}>
        { a = Pad(x, p) t = Reshape(a, s) y = Conv(t, w) }""",
        {"Reshape": 1, "Conv": 1},
    ),
    "global average pooling": (
        """(float[2,3,4,4] x) => (float[2,3,1,1] y) <int64[2] axes = {-1, -2}> { y = ReduceMean(x, axes) }""",
        {"GlobalAveragePool": 1},
    ),
    "scale and shift before an unpadded convolution": (
        """(float[1,2,4,4] x) => (float[1,1,3,3] y)
        <float[2,1,1] s = {2, 3}, float[2,1,1] t = {1, -1}, float[1,2,2,2] w = {1,2,3,4,5,6,7,8}>
        { a = Mul(x, s) b = Add(a, t) y = Conv(b, w) }""",
        {"Conv": 1},
    ),
    "only the scale before a padded convolution": (
        """(float[1,2,4,4] x) => (float[1,1,5,5] y)
        <float[2,1,1] s = {2, 3}, float[2,1,1] t = {1, -1}, float[1,2,2,2] w = {1,2,3,4,5,6,7,8}>
        { a = Add(x, t) b = Mul(a, s) y = Conv<pads = [1,1,1,1]>(b, w) }""",
        {"Add": 1, "Conv": 1},
    ),
    "scale, shift and subtraction behind a convolution": (
        """(float[1,2,4,4] x) => (float[1,2,3,3] y)
        <float[2,1,1] s = {2, 3}, float[1,2,1,1] t = {1, -1}, float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}>
        { a = Conv(x, w) b = Div(a, s) y = Sub(t, b) }""",
        {"Conv": 1},
    ),
    "grouped transposed convolution with batch norm": (
        """(float[1,2,3,3] x) => (float[1,4,4,4] y)
        <float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[4] g = {1,2,3,4}, float[4] b = {4,3,2,1},
         float[4] m = {1,0,1,0}, float[4] v = {1,2,1,2}>
        { a = ConvTranspose<group = 2>(x, w) y = BatchNormalization(a, g, b, m, v) }""",
        {"ConvTranspose": 1},
    ),
    "a convolution read twice keeps its scale outside": (
        """(float[1,2,4,4] x) => (float[1,2,3,3] y, float[1,2,3,3] z)
        <float[2,1,1] s = {2, 3}, float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}>
        { a = Conv(x, w) y = Mul(a, s) z = Relu(a) }""",
        {"Conv": 1, "Mul": 1, "Relu": 1},
    ),
    "zero padding before convolution": (
        """(float[1,2,4,4] x) => (float[1,1,5,5] y)
        <int64[8] p = {0,0,1,1,0,0,1,1}, float[1,2,2,2] w = {1,2,3,4,5,6,7,8}> { a = Pad(x, p) y = Conv(a, w) }""",
        {"Conv": 1},
    ),
    "padding with ones before convolution stays": (
        """(float[1,2,4,4] x) => (float[1,1,5,5] y)
        <int64[8] p = {0,0,1,1,0,0,1,1}, float one = {1.0}, float[1,2,2,2] w = {1,2,3,4,5,6,7,8}>
        { a = Pad(x, p, one) y = Conv(a, w) }""",
        {"Pad": 1, "Conv": 1},
    ),
    "zero padding of positive values before max pooling": (
        """(float[1,2,4,4] x) => (float[1,2,3,3] y) <int64[8] p = {0,0,1,1,0,0,1,1}>
        { r = Relu(x) a = Pad(r, p) y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(a) }""",
        {"Relu": 1, "MaxPool": 1},
    ),
    "zero padding of any values before max pooling stays": (
        """(float[1,2,4,4] x) => (float[1,2,3,3] y) <int64[8] p = {0,0,1,1,0,0,1,1}>
        { a = Pad(x, p) y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(a) }""",
        {"Pad": 1, "MaxPool": 1},
    ),
    "zero padding before average pooling": (
        """(float[1,2,4,4] x) => (float[1,2,3,3] y) <int64[8] p = {0,0,1,1,0,0,1,1}>
        { a = Pad(x, p) y = AveragePool<kernel_shape = [2,2], strides = [2,2]>(a) }""",
        {"AveragePool": 1},
    ),
    "matrix product with bias": (
        """(float[3,4] x) => (float[3,2] y) <float[4,2] w = {1,2,3,4,5,6,7,8}, float[2] b = {1, 2}>
        { a = MatMul(x, w) y = Add(b, a) }""",
        {"Gemm": 1},
    ),
    "transposed operands of a matrix product": (
        """(float[4,3] x, float[2,4] z) => (float[3,2] y)
        { a = Transpose<perm = [1,0]>(x) b = Transpose<perm = [1,0]>(z) y = MatMul(a, b) }""",
        {"Gemm": 1},
    ),
    "chains of constants": (
        """(float[2,3] x) => (float[2,3] y)
        <float[3] a = {1,2,3}, float b = {4.0}, float[3] c = {1,2,4}, float d = {2.0}>
        { p = Sub(a, x) q = Add(p, b) r = Mul(q, c) y = Div(r, d) }""",
        {"Sub": 1, "Mul": 1},
    ),
    "transposes cancel through elementwise operators": (
        """(float[2,3,4,5] x) => (float[2,3,4,5] y) <float[3] c = {1, 2, 3}>
        { t = Transpose<perm = [0,2,3,1]>(x) a = Add(t, c) b = Relu(a) y = Transpose<perm = [0,3,1,2]>(b) }""",
        {"Add": 1, "Relu": 1},
    ),
    "a transpose that would only move stays": (
        """(float[2,3,4] x) => (float[4,3,2] y) { t = Transpose<perm = [2,1,0]>(x) y = Relu(t) }""",
        {"Transpose": 1, "Relu": 1},
    ),
    "moving a dimension of length 1 is a reshape": (
        """(float[2,1,4] x) => (float[1,2,4] y) { y = Transpose<perm = [1,0,2]>(x) }""",
        {"Reshape": 1},
    ),
    "reshapes merge": (
        """(float[2,3,4] x) => (float[4,6] y) <int64[2] a = {6,4}, int64[1] u = {0}, int64[2] b = {4,-1}>
        { p = Reshape(x, a) q = Unsqueeze(p, u) r = Squeeze(q, u) y = Reshape(r, b) }""",
        {"Reshape": 1},
    ),
    "casts to wider types and back vanish": (
        """(float[2,3] x) => (float[2,3] y) { a = Cast<to = 11>(x) y = Cast<to = 1>(a) }""",
        {"Identity": 1},
    ),
    "casts through a narrower type stay": (
        """(float[2,3] x) => (float[2,3] y) { a = Cast<to = 10>(x) y = Cast<to = 1>(a) }""",
        {"Cast": 2},
    ),
    "slices merge": (
        """(float[8,8] x) => (float[3,2] y)
        <int64[1] s = {1}, int64[1] e = {7}, int64[1] z = {0}, int64[1] one = {1}, int64[1] two = {2},
         int64[1] e2 = {4}>
        { a = Slice(x, s, e, z, two) y = Slice(a, z, e2, one, two) }""",
        {"Slice": 1},
    ),
    "slices that cover a dimension become a split": (
        """(float[8,6] x) => (float[8,2] a, float[8,3] b, float[8,1] c)
        <int64[1] s0 = {0}, int64[1] s1 = {2}, int64[1] s2 = {5}, int64[1] end = {100}, int64[1] ax = {1}>
        { a = Slice(x, s0, s1, ax) b = Slice(x, s1, s2, ax) c = Slice(x, s2, end, ax) }""",
        {"Split": 1},
    ),
    "gather of one index and unsqueeze": (
        """(float[4,6] x) => (float[4,1] y) <int64 i = {-2}, int64[1] ax = {1}>
        { g = Gather<axis = 1>(x, i) y = Unsqueeze(g, ax) }""",
        {"Slice": 1},
    ),
    "concat of all parts of a split": (
        """(float[2,6] x) => (float[2,6] y) { a, b = Split<axis = 1, num_outputs = 2>(x) c = Concat<axis = -1>(a, b)
          y = Relu(c) }""",
        {"Relu": 1},
    ),
    "concat of the parts in another order stays": (
        """(float[2,6] x) => (float[2,6] y) { a, b = Split<axis = 1, num_outputs = 2>(x) y = Concat<axis = 1>(b, a) }""",
        {"Split": 1, "Concat": 1},
    ),
    "concats merge": (
        """(float[1,2] a, float[1,3] b, float[1,4] c) => (float[1,9] y)
        { p = Concat<axis = 1>(a, b) y = Concat<axis = -1>(p, c) }""",
        {"Concat": 1},
    ),
    "focus layer": (
        """(float[1,3,4,4] x) => (float[1,2,2,2] y)
        <int64[2] s00 = {0,0}, int64[2] s10 = {1,0}, int64[2] s01 = {0,1}, int64[2] s11 = {1,1}, int64[2] e = {100,100},
         int64[2] ax = {2,3}, int64[2] st = {2,2},
         float[2,12,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,12,11,10,9,8,7,6,5,4,3,2,1}>
        { a = Slice(x, s00, e, ax, st) b = Slice(x, s10, e, ax, st) c = Slice(x, s01, e, ax, st)
          d = Slice(x, s11, e, ax, st) f = Concat<axis = 1>(a, b, c, d) y = Conv(f, w) }""",
        {"SpaceToDepth": 1, "Conv": 1},
    ),
    "shape arithmetic folds": (
        """(float[2,3,4] x) => (float[6,4] y) <int64[1] two = {2}, int64[1] minus = {-1}, int64 ax = {2}>
        { s = Shape(x) d = Gather(s, two) t = Concat<axis = 0>(minus, d) y = Reshape(x, t) }""",
        {"Reshape": 1},
    ),
    "equal nodes and equal constants merge": (
        """(float[2,3] x) => (float[2,3] y) <float a = {2.0}, float b = {2.0}>
        { p = Mul(x, a) q = Mul(x, b) r = Relu(p) s = Relu(q) y = Add(r, s) }""",
        {"Mul": 1, "Relu": 1, "Add": 1},
    ),
    "dropout, identity and neutral elements vanish": (
        """(float[2,3] x) => (float[2,3] y) <float one = {1.0}, float[2,3] zero = {0,0,0,0,0,0}>
        { a = Dropout(x) b = Identity(a) c = Mul(b, one) d = Add(zero, c) y = Relu(d) }""",
        {"Relu": 1},
    ),
    "an input passed through keeps its identity": (
        """(float[2,3] x) => (float[2,3] y) { y = Identity(x) }""",
        {"Identity": 1},
    ),
    "a known condition is inlined": (
        """(float[2,3] x) => (float[2,3] y) <bool c = {1}>
        { y = If (c) <then_branch = t () => (float[2,3] p) { p = Relu(x) },
                      else_branch = e () => (float[2,3] q) { q = Neg(x) }> }""",
        {"Relu": 1},
    ),
}


def parse(text: str) -> ir.Model:
    header = '<ir_version: 10, opset_import: ["" : 23]> g '
    model = ir.from_proto(onnx.parser.parse_model(header + text))
    infer(model)
    return model


def inputs(model: ir.Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {v.name or "": (rng.standard_normal(v.shape.numpy()) * 2).astype(np.float32) for v in model.graph.inputs}


@pytest.mark.parametrize("name", CASES)
def test_rewrite(name: str) -> None:
    text, expected_types = CASES[name]
    model = parse(text)
    feeds = inputs(model)
    expected = run(model, feeds)
    optimise(model)
    assert Counter(n.op_type for n in model.graph) == Counter(expected_types)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    actual = run(model, feeds)
    assert list(actual) == list(expected)
    for key, value in expected.items():
        assert difference(value, actual[key]) < 1e-5


def test_random_numbers_are_neither_folded_nor_merged() -> None:
    model = parse(
        """(float[2,3] x) => (float[2,3] y)
        { a = RandomNormal<shape = [2,3]>() b = RandomNormal<shape = [2,3]>() c = Sub(a, b) y = Add(x, c) }"""
    )
    optimise(model)
    assert [n.op_type for n in model.graph] == ["RandomNormal", "RandomNormal", "Sub", "Add"]


def test_rewrites_reach_into_the_bodies_of_loops() -> None:
    model = parse(
        """(float[2,3] x, int64 n) => (float[2,3] y) <bool c = {1}, float one = {1.0}>
        { y = Loop (n, c, x) <body = b (int64 i, bool go, float[2,3] v) => (bool again, float[2,3] w) {
            again = Identity(go) p = Mul(v, one) q = Identity(p) w = Relu(q) }> }"""
    )
    optimise(model)
    body = model.graph[0].attributes["body"].as_graph()
    assert [n.op_type for n in body] == ["Identity", "Relu"]


def test_a_folded_constant_may_not_blow_up_the_model() -> None:
    model = parse(
        """(float[1] x) => (float[100000,1000] y) <int64[2] s = {100000, 1000}, float one = {1.0}>
        { e = Expand(one, s) y = Add(e, x) }"""
    )
    optimise(model)
    assert [n.op_type for n in model.graph] == ["Expand", "Add"]


def test_weights_are_not_scaled_out_of_float16() -> None:
    model = parse(
        """(float[1,1,2,2] x) => (float[1,1,2,2] y) <float s = {1000000.0}, float[1,1,1,1] w = {1}>
        { a = Conv(x, w) y = Mul(a, s) }"""
    )
    optimise(model)
    assert [n.op_type for n in model.graph] == ["Conv", "Mul"]


def test_switched_off_passes_do_not_run_and_are_not_reported() -> None:
    text, _ = CASES["gelu with erf"]
    model = parse(text)
    report = optimise(model, PassContext(Switches().off("GeluFusionPass")))
    assert "Gelu" not in {n.op_type for n in model.graph}
    assert "GeluFusionPass" not in {c.name for c in report.counts}
