"""Layers that normalise, scale and shift: BatchNorm, Scale, Bias, LRN, MVN, Normalize, Softmax."""

from __future__ import annotations

import math

import numpy as np

from asc_devkit.frontends.caffe.emit import Array, LayerError, Site, Value


def batch_norm(s: Site) -> list[Value]:
    """(x - mean) / sqrt(variance + eps) with stored statistics, each divided by the stored scale factor.

    Five blobs (NVIDIA's fork) carry scale and bias too. Without ``use_global_stats`` the batch's own statistics are taken.
    """
    p = s.param("batch_norm_param")
    epsilon = p.number("eps", 1e-5)
    channels = s.x.shape[1] if len(s.x.shape) > 1 else 1
    if not p.flag("use_global_stats", True):
        axes = [0, *range(2, len(s.x.shape))]
        return [_standardised(s, s.x, axes, epsilon, inside=True)]
    mean, variance = (_channel(s, i, channels, what) for i, what in ((0, "means"), (1, "variances")))
    factor = float(s.weight(2, "scale factor").reshape(-1)[0]) if len(s.weights) > 2 and s.weights[2].size else 1.0
    with np.errstate(all="ignore"):
        mean, variance = (v / factor if factor else np.zeros_like(v) for v in (mean, variance))
    scale, bias = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    if len(s.weights) >= 5:
        scale, bias = _channel(s, 3, channels, "scales"), _channel(s, 4, channels, "biases")
    return [_normalised(s, scale, bias, mean, variance, epsilon)]


def bn(s: Site) -> list[Value]:
    """Scale, bias, mean and variance in one layer (segmentation forks); with two blobs only scale and bias."""
    p = s.param("bn_param")
    channels = s.x.shape[1] if len(s.x.shape) > 1 else 1
    scale, bias = _channel(s, 0, channels, "scales"), _channel(s, 1, channels, "biases")
    p.flag("frozen")
    p.enum("bn_mode", ("LEARN", "INFERENCE"), "INFERENCE")
    if len(s.weights) < 4:
        shape = (channels, *[1] * (len(s.x.shape) - 2))
        scaled = s.op("Mul", [s.x, s.constant(scale.reshape(shape), "scale")], s.x.shape)
        return [s.op("Add", [scaled, s.constant(bias.reshape(shape), "bias")], s.x.shape)]
    mean, variance = _channel(s, 2, channels, "means"), _channel(s, 3, channels, "variances")
    return [_normalised(s, scale, bias, mean, variance, p.number("eps", 1e-5))]


def _normalised(s: Site, scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float) -> Value:
    named = (("scale", scale), ("bias", bias), ("mean", mean), ("variance", variance))
    constants = [s.constant(np.asarray(v, np.float32), label) for label, v in named]
    return s.op("BatchNormalization", [s.x, *constants], s.x.shape, epsilon=epsilon)


def _channel(s: Site, index: int, channels: int, what: str) -> Array:
    blob = s.weight(index, what)
    if blob.size != channels:
        raise LayerError(f"it has {blob.size} {what} for {channels} channels")
    return blob.reshape(-1).astype(np.float32)


def _standardised(s: Site, x: Value, axes: list[int], epsilon: float, inside: bool, variance: bool = True) -> Value:
    """x minus its mean over ``axes``, divided by the deviation (``epsilon`` inside or behind the square root)."""
    small = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    where = s.constant(axes, "axes")
    centred = s.op("Sub", [x, s.op("ReduceMean", [x, where], small, keepdims=1)], x.shape)
    if not variance:
        return centred
    square = s.op("Mul", [centred, centred], x.shape)
    spread = s.op("ReduceMean", [square, where], small, keepdims=1)
    eps = s.number(epsilon, "eps")
    if inside:
        spread = s.op("Sqrt", [s.op("Add", [spread, eps], small)], small)
    else:
        spread = s.op("Add", [s.op("Sqrt", [spread], small), eps], small)
    return s.op("Div", [centred, spread], x.shape)


def mvn(s: Site) -> list[Value]:
    """(x - mean) / (deviation + eps) per sample and channel, or per sample."""
    p = s.param("mvn_param")
    axes = list(range(1 if p.flag("across_channels") else 2, len(s.x.shape)))
    if not axes:
        raise LayerError(f"its input of {len(s.x.shape)} axes has nothing to take a mean over")
    return [
        _standardised(s, s.x, axes, p.number("eps", 1e-9), inside=False, variance=p.flag("normalize_variance", True))
    ]


def _spread(s: Site, count: int, axis: int, other: tuple[int, ...]) -> tuple[int, ...]:
    """Shape with which ``other`` (a run of axes of x from ``axis`` on) is broadcast against x; ``count``: how many axes."""
    rank = len(s.x.shape)
    if count < 0 or axis + count > rank or s.x.shape[axis : axis + count] != other:
        raise LayerError(f"{list(other)} does not fit the axes from {axis} on of {list(s.x.shape)}")
    return (*[1] * axis, *other, *[1] * (rank - axis - count))


def _stored(s: Site, param_axis: int, axes: int, index: int, what: str) -> Value:
    axis = s.axis(param_axis)
    count = len(s.x.shape) - axis if axes == -1 else axes
    expected = s.x.shape[axis : axis + count]
    blob = s.weight(index, what)
    if blob.size != math.prod(expected):
        raise LayerError(f"it has {what} of shape {list(blob.shape)}, {list(expected)} is expected")
    return s.constant(blob.reshape(_spread(s, count, axis, expected)).astype(np.float32), what)


def scale(s: Site) -> list[Value]:
    """x * scale + bias; the scale is stored or the second input."""
    p = s.param("scale_param")
    number, axes = p.integer("axis", 1), p.integer("num_axes", 1)
    if len(s.inputs) > 1:
        other = s.input(1)
        factor = s.reshape(other, _spread(s, len(other.shape), s.axis(number) if other.shape else 0, other.shape))
        axes, first = len(other.shape), 0
    else:
        factor, first = _stored(s, number, axes, 0, "scale"), 1
    result = s.op("Mul", [s.x, factor], s.x.shape)
    if p.flag("bias_term"):
        result = s.op("Add", [result, _stored(s, number, axes, first, "bias")], s.x.shape)
    return [result]


def bias(s: Site) -> list[Value]:
    """x + bias; the bias is stored or the second input."""
    p = s.param("bias_param")
    number, axes = p.integer("axis", 1), p.integer("num_axes", 1)
    if len(s.inputs) > 1:
        other = s.input(1)
        term = s.reshape(other, _spread(s, len(other.shape), s.axis(number) if other.shape else 0, other.shape))
    else:
        term = _stored(s, number, axes, 0, "bias")
    return [s.op("Add", [s.x, term], s.x.shape)]


def lrn(s: Site) -> list[Value]:
    """x / (k + alpha / size * sum of squares over neighbouring channels)^beta, or over a square of the same channel.

    Within a channel the mean counts the padding and k is 1.
    """
    p = s.param("lrn_param")
    size, alpha, beta = p.integer("local_size", 5), p.number("alpha", 1.0), p.number("beta", 0.75)
    if size < 1 or size % 2 == 0 or len(s.x.shape) != 4:
        raise LayerError(f"local_size {size} for an input of {len(s.x.shape)} axes is not possible")
    k = p.number("k", 1.0)
    if p.enum("norm_region", ("ACROSS_CHANNELS", "WITHIN_CHANNEL"), "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        return [s.op("LRN", [s.x], s.x.shape, size=size, alpha=alpha, beta=beta, bias=k)]
    square = s.op("Mul", [s.x, s.x], s.x.shape)
    half = (size - 1) // 2
    mean = s.op(
        "AveragePool", [square], s.x.shape, kernel_shape=[size] * 2, pads=[half] * 4, count_include_pad=1
    )  # fmt: skip
    inner = s.op("Add", [s.op("Mul", [mean, s.number(alpha, "alpha")], s.x.shape), s.number(1, "one")], s.x.shape)
    return [s.op("Mul", [s.x, s.op("Pow", [inner, s.number(-beta, "beta")], s.x.shape)], s.x.shape)]


def normalize(s: Site) -> list[Value]:
    """x / sqrt(sum of squares + eps) * scale, the sum over channels or over the whole sample (SSD)."""
    p = s.param("norm_param")
    rank = len(s.x.shape)
    axes = list(range(1, rank)) if p.flag("across_spatial", True) else [1]
    p.flag("channel_shared", True)
    if rank < 2:
        raise LayerError(f"its input has {rank} axes, two or more are needed")
    small = tuple(1 if i in axes else n for i, n in enumerate(s.x.shape))
    total = s.op("ReduceSum", [s.op("Mul", [s.x, s.x], s.x.shape), s.constant(axes, "axes")], small, keepdims=1)
    norm = s.op("Sqrt", [s.op("Add", [total, s.number(p.number("eps", 1e-10), "eps")], small)], small)
    factor = s.weight(0, "scales").reshape(-1).astype(np.float32)
    if factor.size not in (1, s.x.shape[1]):
        raise LayerError(f"it has {factor.size} scales for {s.x.shape[1]} channels")
    factor = factor.reshape(-1, *[1] * (rank - 2))
    return [s.op("Mul", [s.op("Div", [s.x, norm], s.x.shape), s.constant(factor, "scale")], s.x.shape)]


def softmax(s: Site) -> list[Value]:
    """exp(x - max) / sum over one axis."""
    axis = s.axis(s.param("softmax_param").integer("axis", 1))
    return [s.op("Softmax", [s.x], s.x.shape, axis=axis)]


HANDLERS = {
    "BN": bn,
    "BatchNorm": batch_norm,
    "Bias": bias,
    "LRN": lrn,
    "MVN": mvn,
    "Normalize": normalize,
    "Scale": scale,
    "Softmax": softmax,
}
