"""Layers that slide a window over an image: convolution, deconvolution, pooling, pyramid pooling."""

from __future__ import annotations

import math

import numpy as np

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value
from asc_devkit.frontends.caffe.text import Message

_LIMIT = 1 << 20


def _per_axis(p: Message, name: str, axes: int, default: int, split: str = "") -> list[int]:
    """A parameter given once, per spatial axis, or as ``x_h`` and ``x_w``."""
    base = split or name
    high, wide = p.integers(f"{base}_h"), p.integers(f"{base}_w")
    values = p.integers(name)
    if high or wide:
        if axes != 2 or not (high and wide) or values:
            raise LayerError(f"{base}_h and {base}_w must both be given, alone, and for two spatial axes")
        values = [high[-1], wide[-1]]
    if not values:
        values = [default] * axes
    if len(values) == 1:
        values *= axes
    if len(values) != axes:
        raise LayerError(f"{name} has {len(values)} values for {axes} spatial axes")
    if any(not 0 <= v <= _LIMIT for v in values):
        raise LayerError(f"{name} {values} is out of range")
    return values


def _filter(
    s: Site, p: Message, transposed: bool, group: int | None
) -> tuple[list[int], dict[str, list[int] | int], list[Value]]:
    """Output channels and extents checked against the weights, ONNX attributes, and the weight values."""
    x = s.x
    axes = len(x.shape) - 2
    if p.integer("axis", 1) not in (1, 1 - len(x.shape)) or axes < 1:
        raise LayerError(f"axis {p.integer('axis', 1)} of an input of {len(x.shape)} axes is not supported")
    p.flag("force_nd_im2col")
    count = p.integer("num_output")
    stated = p.integer("group", 1)
    group = stated if group is None else group
    kernel = _per_axis(p, "kernel_size", axes, 0, "kernel")
    pads, strides = _per_axis(p, "pad", axes, 0), _per_axis(p, "stride", axes, 1)
    dilations = _per_axis(p, "dilation", axes, 1)
    if min(count, group, *kernel, *strides, *dilations) < 1:
        raise LayerError("num_output, group, kernel_size, stride and dilation must be positive")
    if x.shape[1] % group or count % group:
        raise LayerError(f"{x.shape[1]} channels in and {count} out cannot be split into {group} groups")
    want = (x.shape[1], count // group, *kernel) if transposed else (count, x.shape[1] // group, *kernel)
    raw = s.weight(0, "weights")
    if raw.size != math.prod(want):
        raise LayerError(f"its weights have the shape {list(raw.shape)}, {list(want)} is expected")
    values = [s.constant(raw.reshape(want).astype(np.float32), "weight")]
    if p.flag("bias_term", True):
        bias = s.weight(1, "biases")
        if bias.size != count:
            raise LayerError(f"it has {bias.size} biases for {count} channels")
        values.append(s.constant(bias.reshape(-1).astype(np.float32), "bias"))
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    if transposed:
        sizes = [t * (n - 1) + e - 2 * q for n, t, e, q in zip(x.shape[2:], strides, extents, pads, strict=True)]
    else:
        sizes = [(n + 2 * q - e) // t + 1 for n, t, e, q in zip(x.shape[2:], strides, extents, pads, strict=True)]
        if any(n + 2 * q < e for n, e, q in zip(x.shape[2:], extents, pads, strict=True)):
            raise LayerError(f"its window {extents} is larger than its padded input {list(x.shape[2:])}")
    attributes: dict[str, list[int] | int] = {
        "kernel_shape": kernel, "pads": pads * 2, "strides": strides, "dilations": dilations, "group": group,
    }  # fmt: skip
    return [x.shape[0], count, *sizes], attributes, values


def convolution(s: Site) -> list[Value]:
    """Cross-correlation with floor((n + 2 pad - extent) / stride) + 1 outputs per axis."""
    shape, attributes, weights = _filter(s, s.param("convolution_param"), False, None)
    return [s.op("Conv", [s.x, *weights], shape, **attributes)]


def depthwise(s: Site) -> list[Value]:
    """A convolution with one group per channel (layer types of MobileNet forks)."""
    shape, attributes, weights = _filter(
        s, s.param("convolution_param"), False, s.x.shape[1] if len(s.x.shape) > 1 else 1
    )
    return [s.op("Conv", [s.x, *weights], shape, **attributes)]


def deconvolution(s: Site) -> list[Value]:
    """Transposed convolution with stride * (n - 1) + extent - 2 pad outputs per axis."""
    shape, attributes, weights = _filter(s, s.param("convolution_param"), True, None)
    return [s.op("ConvTranspose", [s.x, *weights], shape, **attributes)]


def pooling(s: Site) -> list[Value]:
    """Maximum or mean of each window; the number of windows is rounded up unless the layer says otherwise."""
    p = s.param("pooling_param")
    kind = p.enum("pool", ("MAX", "AVE", "STOCHASTIC"), "MAX")
    if len(s.x.shape) != 4:
        raise LayerError(f"its input has {len(s.x.shape)} axes, 4 are expected")
    if kind == "STOCHASTIC":
        kind = "AVE"
        s.warnings.append(f"layer {s.layer.name!r}: stochastic pooling is converted as the mean of each window")
    if len(s.layer.tops) > 1:
        raise LayerError("a second top (the mask of positions) is not supported")
    if p.flag("global_pooling"):
        whole = (*s.x.shape[:2], 1, 1)
        return [s.op("GlobalMaxPool" if kind == "MAX" else "GlobalAveragePool", [s.x], whole)]
    kernel = _per_axis(p, "kernel_size", 2, 0, "kernel")
    pads, strides = _per_axis(p, "pad", 2, 0), _per_axis(p, "stride", 2, 1)
    up = p.enum("round_mode", ("CEIL", "FLOOR"), "CEIL") == "CEIL" and p.flag("ceil_mode", True)
    return [pool(s, kind, kernel, strides, pads, up)]


def pool(s: Site, kind: str, kernel: list[int], strides: list[int], pads: list[int], up: bool) -> Value:
    """One pooling of the first input. Windows that would start behind the padded end are left out.

    A mean divides by the part of the window inside the padded input; so where rounding up makes windows stick out behind
    the padding, the padding is written out and only what sticks out is excluded from the count.
    """
    if min(*kernel, *strides) < 1 or any(q >= k for q, k in zip(pads, kernel, strict=True)):
        raise LayerError(f"kernel_size {kernel}, stride {strides} and pad {pads} do not fit together")
    sizes, behind = [], []
    for n, k, t, q in zip(s.x.shape[2:], kernel, strides, pads, strict=True):
        if n + 2 * q < k and not up:
            raise LayerError(f"its window {kernel} is larger than its padded input {list(s.x.shape[2:])}")
        room = max(n + 2 * q - k, 0)
        count = (-(-room // t) if up else room // t) + 1
        if any(pads) and (count - 1) * t >= n + q:
            count -= 1
        if (count - 1) * t >= n + q:
            raise LayerError(f"a window starts behind the end of its input {list(s.x.shape[2:])}")
        sizes.append(count)
        behind.append(max(0, (count - 1) * t + k - n - q))
    shape = [*s.x.shape[:2], *sizes]
    attributes = {"kernel_shape": kernel, "strides": strides}
    if kind == "MAX":
        return s.op("MaxPool", [s.x], shape, pads=[*pads, *behind], **attributes)
    if any(b > q for b, q in zip(behind, pads, strict=True)) and any(pads):
        padded = [*s.x.shape[:2], *(n + 2 * q for n, q in zip(s.x.shape[2:], pads, strict=True))]
        amounts = s.constant([0, 0, *pads, 0, 0, *pads], "pads")
        x = s.op("Pad", [s.x, amounts], padded)
        behind = [max(0, b - q) for b, q in zip(behind, pads, strict=True)]
        return s.op("AveragePool", [x], shape, pads=[0, 0, *behind], count_include_pad=0, **attributes)
    return s.op("AveragePool", [s.x], shape, pads=[*pads, *behind], count_include_pad=int(any(pads)), **attributes)


def pyramid(s: Site) -> list[Value]:
    """Pooling over 1, 4, 16, ... parts of the image, flattened and joined (spatial pyramid pooling)."""
    p = s.param("spp_param")
    height = p.integer("pyramid_height")
    kind = p.enum("pool", ("MAX", "AVE", "STOCHASTIC"), "MAX")
    if not 1 <= height <= 10 or len(s.x.shape) != 4:
        raise LayerError(f"pyramid_height {height} for an input of {len(s.x.shape)} axes is not possible")
    parts = []
    for level in range(height):
        bins = 1 << level
        kernel = [-(-n // bins) for n in s.x.shape[2:]]
        pads = [(k * bins - n + 1) // 2 for k, n in zip(kernel, s.x.shape[2:], strict=True)]
        pooled = pool(s, "MAX" if kind == "MAX" else "AVE", kernel, kernel, pads, True)
        parts.append(s.reshape(pooled, (s.x.shape[0], math.prod(pooled.shape[1:])), f"shape{level}"))
    if len(parts) == 1:
        return parts
    return [s.op("Concat", parts, (s.x.shape[0], sum(v.shape[1] for v in parts)), axis=1)]


HANDLERS = {
    "Convolution": convolution,
    "ConvolutionDepthwise": depthwise,
    "Deconvolution": deconvolution,
    "DepthwiseConvolution": depthwise,
    "Pooling": pooling,
    "SPP": pyramid,
}
