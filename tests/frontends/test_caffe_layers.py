"""Every Caffe layer computes what OpenCV's importer, or a formula written out in numpy, computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontends.caffe_nets import Array, converted, inputs_text, opencv, run

RNG = np.random.default_rng(7)


def _w(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _positive(*shape: int) -> Array:
    return (RNG.random(shape) + 0.5).astype(np.float32)


def _layer(kind: str, params: str = "", bottoms: str = 'bottom: "x"', tops: str = 'top: "y"') -> str:
    return f'layer {{ name: "l" type: "{kind}" {bottoms} {tops} {params} }}\n'


IMAGE = (2, 4, 11, 9)
# layer type, parameters, weights, shape of x
BY_OPENCV: dict[str, tuple[str, str, list[Array], tuple[int, ...]]] = {
    "conv": (
        "Convolution",
        "convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 }",
        [_w(6, 4, 3, 3), _w(6)],
        IMAGE,
    ),
    "conv_group_dilation": (
        "Convolution",
        "convolution_param { num_output: 6 kernel_size: 3 dilation: 2 group: 2 bias_term: false }",
        [_w(6, 2, 3, 3)],
        IMAGE,
    ),
    "conv_h_w": (
        "Convolution",
        "convolution_param { num_output: 3 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 stride_h: 1 stride_w: 2 }",
        [_w(3, 4, 3, 1), _w(3)],
        IMAGE,
    ),
    "deconv": (
        "Deconvolution",
        "convolution_param { num_output: 6 kernel_size: 4 pad: 1 stride: 2 }",
        [_w(4, 6, 4, 4), _w(6)],
        IMAGE,
    ),
    "deconv_group": (
        "Deconvolution",
        "convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4 bias_term: false }",
        [_w(4, 1, 4, 4)],
        IMAGE,
    ),
    "inner_product": ("InnerProduct", "inner_product_param { num_output: 5 }", [_w(5, 396), _w(5)], IMAGE),
    "pool_max": ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", [], IMAGE),
    "pool_max_sticks_out": ("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }", [], IMAGE),
    "pool_max_pad": ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }", [], IMAGE),
    "pool_max_clipped": ("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 pad: 1 }", [], (1, 2, 5, 6)),
    "pool_ave": ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }", [], IMAGE),
    "pool_ave_sticks_out": ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }", [], IMAGE),
    "pool_ave_pad_sticks_out": (
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
        [],
        (2, 4, 12, 10),
    ),
    "pool_global": ("Pooling", "pooling_param { pool: AVE global_pooling: true }", [], IMAGE),
    "pool_global_max": ("Pooling", "pooling_param { pool: MAX global_pooling: true }", [], IMAGE),
    "lrn": ("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }", [], IMAGE),
    "softmax": ("Softmax", "", [], IMAGE),
    "softmax_axis": ("Softmax", "softmax_param { axis: 3 }", [], IMAGE),
    "batch_norm": ("BatchNorm", "batch_norm_param { eps: 0.01 }", [_w(4), _positive(4), np.float32([3.0])], IMAGE),
    "scale": ("Scale", "scale_param { bias_term: true }", [_w(4), _w(4)], IMAGE),
    "relu": ("ReLU", "", [], IMAGE),
    "leaky": ("ReLU", "relu_param { negative_slope: 0.2 }", [], IMAGE),
    "prelu": ("PReLU", "", [_w(4)], IMAGE),
    "elu": ("ELU", "elu_param { alpha: 1 }", [], IMAGE),
    "sigmoid": ("Sigmoid", "", [], IMAGE),
    "tanh": ("TanH", "", [], IMAGE),
    "absval": ("AbsVal", "", [], IMAGE),
    "bnll": ("BNLL", "", [], IMAGE),
    "power": ("Power", "power_param { power: 2 scale: 0.5 shift: 1.5 }", [], IMAGE),
    "exp": ("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.25 }", [], IMAGE),
    "flatten": ("Flatten", "", [], IMAGE),
    "flatten_axes": ("Flatten", "flatten_param { axis: 2 end_axis: 3 }", [], IMAGE),
    "reshape": ("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 9 } }", [], IMAGE),
    "permute": ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [], IMAGE),
    "shuffle": ("ShuffleChannel", "shuffle_channel_param { group: 2 }", [], IMAGE),
    "normalize": ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [_w(4)], IMAGE),
    "dropout": ("Dropout", "dropout_param { dropout_ratio: 0.3 }", [], IMAGE),
}


@pytest.mark.parametrize("name", BY_OPENCV)
def test_layer_computes_what_opencv_computes(name: str, tmp_path: Path) -> None:
    kind, params, weights, shape = BY_OPENCV[name]
    text = inputs_text({"x": shape}) + _layer(kind, params)
    feeds = {"x": _w(*shape)}
    model, warnings = converted(text, {"l": weights})
    assert warnings == []
    (expected,) = opencv(tmp_path, text, {"l": weights}, feeds)
    got = run(model, feeds)["y"]
    np.testing.assert_allclose(got, expected.reshape(got.shape), rtol=2e-5, atol=2e-5)


def _conv_free_formulas() -> dict[
    str, tuple[str, str, list[Array], tuple[int, ...], Callable[[Array, list[Array]], Any]]
]:
    def lrn_within(x: Array, w: list[Array]) -> Array:
        square = np.pad(x.astype(np.float64) ** 2, ((0, 0), (0, 0), (1, 1), (1, 1)))
        h, wide = x.shape[2:]
        mean = sum(square[:, :, i : i + h, j : j + wide] for i in range(3) for j in range(3)) / 9
        return x * (1 + 0.5 * mean) ** -0.75

    def mvn(x: Array, w: list[Array]) -> Array:
        d = x - x.mean((2, 3), keepdims=True)
        return d / (np.sqrt((d**2).mean((2, 3), keepdims=True)) + 1e-3)

    def darknet_reorg(x: Array, w: list[Array]) -> Array:
        """Darknet's loop over memory, element by element."""
        n, c, h, wide, t = *x.shape, 2
        flat, out, less = x.reshape(-1), np.zeros(x.size, np.float32), c // 4
        for b in range(n):
            for k in range(c):
                for j in range(h):
                    for i in range(wide):
                        w2 = i * t + (k // less) % t
                        h2 = j * t + (k // less) // t
                        source = w2 + wide * t * (h2 + h * t * (k % less + less * b))
                        out[i + wide * (j + h * (k + c * b))] = flat[source]
        return out.reshape(n, c * 4, h // 2, wide // 2)

    def interp(x: Array, w: list[Array]) -> Array:
        h, wide = x.shape[2:]
        rows, columns = np.linspace(0, h - 1, 21), np.linspace(0, wide - 1, 17)
        top, left = np.floor(rows).astype(int).clip(0, h - 2), np.floor(columns).astype(int).clip(0, wide - 2)
        a, b = (rows - top)[:, None], (columns - left)[None]
        at = lambda i, j: x[:, :, (top + i)[:, None], (left + j)[None]]  # noqa: E731
        return (1 - a) * ((1 - b) * at(0, 0) + b * at(0, 1)) + a * ((1 - b) * at(1, 0) + b * at(1, 1))

    def topk(x: Array, w: list[Array]) -> Array:
        flat = x.reshape(x.shape[0], -1)
        order = np.argsort(-flat, 1)[:, :3]
        return np.stack([order, np.take_along_axis(flat, order, 1)], 1)

    def bn(x: Array, w: list[Array]) -> Array:
        s, b, m, v = (a.reshape(1, -1, 1, 1) for a in w)
        return (x - m) / np.sqrt(v + 1e-5) * s + b

    bn5 = [_w(4), _positive(4), np.float32([1]), _w(4), _w(4)]
    return {
        "lrn_within": ("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }", [], IMAGE, lrn_within),
        "mvn": ("MVN", "mvn_param { eps: 0.001 }", [], IMAGE, mvn),
        "mvn_mean_only": (
            "MVN",
            "mvn_param { normalize_variance: false across_channels: true }",
            [],
            IMAGE,
            lambda x, w: x - x.mean((1, 2, 3), keepdims=True),
        ),
        "reorg": ("Reorg", "reorg_param { stride: 2 }", [], (2, 8, 4, 6), darknet_reorg),
        "interp": ("Interp", "interp_param { zoom_factor: 2 }", [], IMAGE, interp),
        "argmax_values": ("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", [], IMAGE, topk),
        "argmax_axis": ("ArgMax", "argmax_param { axis: 1 }", [], IMAGE, lambda x, w: x.argmax(1)[:, None]),
        "argmax_flat": ("ArgMax", "", [], IMAGE, lambda x, w: x.reshape(2, -1).argmax(1).reshape(2, 1, 1)),
        "bn": ("BN", "", [_w(4), _w(4), _w(4), _positive(4)], IMAGE, bn),
        "bn_two_blobs": ("BN", "bn_param { bn_mode: INFERENCE }", [_w(4), _w(4)], IMAGE,
                         lambda x, w: x * w[0].reshape(4, 1, 1) + w[1].reshape(4, 1, 1)),
        "batch_norm_nvidia": ("BatchNorm", "", bn5, IMAGE, lambda x, w: bn(x, [w[3], w[4], w[0], w[1]])),
        "batch_norm_zero_factor": ("BatchNorm", "", [_w(4), _positive(4), np.float32([0])], IMAGE,
                                   lambda x, w: x / np.sqrt(1e-5)),
        "batch_norm_of_the_batch": (
            "BatchNorm", "batch_norm_param { use_global_stats: false }", [_w(4), _positive(4), np.float32([1])], IMAGE,
            lambda x, w: (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)),
        "inner_product_axis": ("InnerProduct", "inner_product_param { num_output: 5 axis: 2 transpose: true bias_term: false }",
                               [_w(99, 5)], IMAGE, lambda x, w: x.reshape(2, 4, 99) @ w[0]),
        "embed": ("Embed", "embed_param { input_dim: 7 num_output: 3 }", [_w(7, 3), _w(3)], (2, 4),
                  lambda x, w: w[0][x.astype(int)] + w[1]),
        "log": ("Log", "log_param { base: 10 scale: 2 shift: 20 }", [], IMAGE, lambda x, w: np.log10(2 * x + 20)),
        "exp_e": ("Exp", "exp_param { scale: -0.5 }", [], IMAGE, lambda x, w: np.exp(-0.5 * x)),
        "power_one": ("Power", "power_param { scale: -1 }", [], IMAGE, lambda x, w: -x),
        "threshold": ("Threshold", "threshold_param { threshold: 0.3 }", [], IMAGE, lambda x, w: (x > 0.3) * 1.0),
        "clip": ("Clip", "clip_param { min: -0.5 max: 0.25 }", [], IMAGE, lambda x, w: x.clip(-0.5, 0.25)),
        "relu6": ("ReLU6", "", [], IMAGE, lambda x, w: x.clip(0, 6)),
        "swish": ("Swish", "swish_param { beta: 2 }", [], IMAGE, lambda x, w: x / (1 + np.exp(-2.0 * x))),
        "prelu_shared": ("PReLU", "prelu_param { channel_shared: true }", [np.float32([0.3])], IMAGE,
                         lambda x, w: np.where(x > 0, x, 0.3 * x)),
        "elu_alpha": ("ELU", "elu_param { alpha: 0.5 }", [], IMAGE, lambda x, w: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
        "scale_axis_0": ("Scale", "scale_param { axis: 0 num_axes: 2 }", [_w(2, 4)], IMAGE,
                         lambda x, w: x * w[0][:, :, None, None]),
        "scale_all_axes": ("Scale", "scale_param { axis: 1 num_axes: -1 }", [_w(4, 11, 9)], IMAGE, lambda x, w: x * w[0]),
        "bias": ("Bias", "bias_param { axis: 2 num_axes: 2 }", [_w(11, 9)], IMAGE, lambda x, w: x + w[0]),
        "normalize_all": ("Normalize", "norm_param { eps: 0.01 }", [np.float32([2])], IMAGE,
                          lambda x, w: 2 * x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True) + 0.01)),
        "depthwise": ("DepthwiseConvolution", "convolution_param { num_output: 4 kernel_size: 1 }", [_w(4, 1, 1, 1), _w(4)],
                      IMAGE, lambda x, w: x * w[0].reshape(4, 1, 1) + w[1].reshape(4, 1, 1)),
        "tile": ("Tile", "tile_param { axis: 2 tiles: 3 }", [], IMAGE, lambda x, w: np.tile(x, (1, 1, 3, 1))),
        "reduction_sum": ("Reduction", "reduction_param { axis: 1 coeff: 0.5 }", [], IMAGE,
                          lambda x, w: 0.5 * x.sum((1, 2, 3))),
        "reduction_asum": ("Reduction", "reduction_param { operation: ASUM axis: 2 }", [], IMAGE,
                           lambda x, w: np.abs(x).sum((2, 3))),
        "reduction_sumsq": ("Reduction", "reduction_param { operation: 3 axis: 2 }", [], IMAGE,
                            lambda x, w: (x**2).sum((2, 3))),
        "reduction_mean": ("Reduction", "reduction_param { operation: MEAN axis: -1 }", [], IMAGE, lambda x, w: x.mean(3)),
        "reverse": ("Reverse", "reverse_param { axis: 2 }", [], IMAGE, lambda x, w: x[:, :, ::-1]),
        "upsample": ("Upsample", "upsample_param { scale: 3 }", [], IMAGE, lambda x, w: x.repeat(3, 2).repeat(3, 3)),
        "reshape_axis": ("Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: -1 } }", [], IMAGE,
                         lambda x, w: x.reshape(2, 44, 9)),
        "pixel_shuffle": ("PixelShuffle", "pixel_shuffle_param { upscale_factor: 2 }", [], (1, 8, 3, 5),
                          lambda x, w: x.reshape(1, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 6, 10)),
        "dropout_unscaled": ("Dropout", "dropout_param { dropout_ratio: 0.25 scale_train: false }", [], IMAGE,
                             lambda x, w: 0.75 * x),
        "spp": ("SPP", "spp_param { pyramid_height: 2 pool: MAX }", [], (2, 3, 8, 8),
                lambda x, w: np.concatenate([x.max((2, 3)), x.reshape(2, 3, 2, 4, 2, 4).max((3, 5)).reshape(2, 12)], 1)),
        "floor_pool": ("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 round_mode: FLOOR }", [], (1, 2, 5, 7),
                       lambda x, w: x[:, :, :4, :6].reshape(1, 2, 2, 2, 3, 2).max((3, 5))),
    }  # fmt: skip


BY_FORMULA = _conv_free_formulas()


@pytest.mark.parametrize("name", BY_FORMULA)
def test_layer_computes_its_formula(name: str) -> None:
    kind, params, weights, shape, formula = BY_FORMULA[name]
    x = RNG.integers(0, 7, shape).astype(np.float32) if kind == "Embed" else _w(*shape)
    model, warnings = converted(inputs_text({"x": shape}) + _layer(kind, params), {"l": weights})
    assert warnings == []
    expected = np.asarray(formula(x, weights))
    got = run(model, {"x": x})["y"]
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=3e-5, atol=3e-5)


TWO = 'bottom: "x" bottom: "z"'


@pytest.mark.parametrize(
    ("kind", "params", "formula"),
    [
        ("Eltwise", "", lambda x, z: x + z),
        ("Eltwise", "eltwise_param { coeff: 0.5 coeff: -1 }", lambda x, z: 0.5 * x - z),
        ("Eltwise", "eltwise_param { operation: PROD }", lambda x, z: x * z),
        ("Eltwise", "eltwise_param { operation: MAX }", np.maximum),
        ("Concat", "", lambda x, z: np.concatenate([x, z], 1)),
        ("Concat", "concat_param { axis: -1 }", lambda x, z: np.concatenate([x, z], 3)),
        ("Concat", "concat_param { concat_dim: 2 }", lambda x, z: np.concatenate([x, z], 2)),
    ],
)
def test_layer_of_two_inputs(kind: str, params: str, formula: Callable[[Array, Array], Array]) -> None:
    feeds = {"x": _w(2, 4, 5, 3), "z": _w(2, 4, 5, 3)}
    model, _ = converted(
        inputs_text({k: v.shape for k, v in feeds.items()}) + _layer(kind, params, TWO), {"none": [_w(1)]}
    )
    np.testing.assert_allclose(run(model, feeds)["y"], formula(*feeds.values()), rtol=1e-6)


def test_crop_scale_and_axpy_take_a_second_tensor() -> None:
    x, small, factor = _w(1, 3, 9, 9), _w(1, 3, 5, 6), _w(1, 3)
    text = inputs_text({"x": x.shape, "z": small.shape, "f": factor.shape})
    text += (
        'layer { name: "c" type: "Crop" bottom: "x" bottom: "z" top: "c" crop_param { axis: 2 offset: 2 offset: 1 } }'
    )
    text += 'layer { name: "s" type: "Scale" bottom: "c" bottom: "f" top: "s" scale_param { axis: 0 } }'
    text += 'layer { name: "a" type: "Axpy" bottom: "f4" bottom: "c" bottom: "z" top: "a" }'
    text = text.replace('layer { name: "a"', 'layer { name: "f4" type: "Reshape" bottom: "f" top: "f4" reshape_param '
                        '{ shape { dim: 1 dim: 3 dim: 1 dim: 1 } } } layer { name: "a"')  # fmt: skip
    model, _ = converted(text, {"none": [_w(1)]})
    got = run(model, {"x": x, "z": small, "f": factor})
    cut = x[:, :, 2:7, 1:7]
    np.testing.assert_allclose(got["s"], cut * factor[:, :, None, None], rtol=1e-6)
    np.testing.assert_allclose(got["a"], cut * factor[:, :, None, None] + small, rtol=1e-5, atol=1e-6)


def test_slice_cuts_at_points_and_into_equal_parts() -> None:
    x = _w(2, 6, 3, 3)
    text = inputs_text({"x": x.shape})
    text += 'layer { name: "a" type: "Slice" bottom: "x" top: "a1" top: "a2" slice_param { axis: 1 slice_point: 2 } }'
    text += 'layer { name: "b" type: "Slice" bottom: "x" top: "b1" top: "b2" top: "b3" }'
    got = run(converted(text, {"none": [_w(1)]})[0], {"x": x})
    for name, expected in {"a1": x[:, :2], "a2": x[:, 2:], "b1": x[:, :2], "b2": x[:, 2:4], "b3": x[:, 4:]}.items():
        np.testing.assert_array_equal(got[name], expected)


def test_prior_box_makes_opencvs_boxes(tmp_path: Path) -> None:
    params = """prior_box_param { min_size: 30 min_size: 50 max_size: 60 max_size: 90 aspect_ratio: 2 aspect_ratio: 3
        variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 step: 16 clip: false }"""
    shapes = {"x": (1, 3, 5, 4), "z": (1, 3, 64, 80)}
    text = inputs_text(shapes) + _layer("PriorBox", params, TWO)
    feeds = {k: _w(*v) for k, v in shapes.items()}
    (expected,) = opencv(tmp_path, text, {"none": [_w(1)]}, feeds)
    got = run(converted(text, {"none": [_w(1)]})[0], feeds)["y"]
    np.testing.assert_allclose(got, expected.reshape(got.shape), atol=1e-6)


def test_roi_pooling_takes_the_maximum_of_each_part() -> None:
    x, regions = _w(1, 2, 8, 8), np.float32([[0, 0, 0, 7, 7], [0, 2, 2, 5, 5]])
    params = "roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 1 }"
    text = inputs_text({"x": x.shape, "z": regions.shape}) + _layer("ROIPooling", params, TWO)
    got = run(converted(text, {"none": [_w(1)]})[0], {"x": x, "z": regions})["y"]
    for row, (low, size) in enumerate(((0, 8), (2, 4))):
        part = x[0, :, low : low + size, low : low + size].reshape(2, 2, size // 2, 2, size // 2)
        np.testing.assert_array_equal(got[row], part.max((2, 4)))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def test_lstm_clears_its_state_where_the_indicator_is_zero() -> None:
    steps, batch, features, units = 6, 2, 3, 4
    x = _w(steps, batch, features)
    marks = np.float32([[0, 0], [1, 1], [1, 0], [1, 1], [0, 1], [1, 1]])
    wx, b, wh = _w(4 * units, features), _w(4 * units), _w(4 * units, units)
    text = inputs_text({"x": x.shape, "z": marks.shape}) + _layer("LSTM", "recurrent_param { num_output: 4 }", TWO)
    got = run(converted(text, {"l": [wx, b, wh]})[0], {"x": x, "z": marks})["y"]
    h = c = np.zeros((batch, units))
    for t in range(steps):
        keep = marks[t][:, None]
        gates = x[t] @ wx.T + b + (h * keep) @ wh.T
        i, f, o, g = np.split(gates, 4, 1)
        c = _sigmoid(f) * (c * keep) + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(got[t], h, rtol=1e-4, atol=1e-5)


def test_rnn_with_an_indicator_layer() -> None:
    steps, batch, features, units = 5, 2, 3, 4
    x = _w(steps, batch, features)
    weights = [_w(units, features), _w(units), _w(units, units), _w(units, units), _w(units)]
    text = inputs_text({"x": x.shape}) + 'layer { name: "i" type: "ContinuationIndicator" bottom: "x" top: "z" }'
    text += _layer("RNN", "recurrent_param { num_output: 4 }", TWO)
    got = run(converted(text, {"l": weights})[0], {"x": x})["y"]
    h = np.zeros((batch, units))
    for t in range(steps):
        h = np.tanh(x[t] @ weights[0].T + weights[1] + h @ weights[2].T)
        np.testing.assert_allclose(got[t], np.tanh(h @ weights[3].T + weights[4]), rtol=1e-4, atol=1e-5)
