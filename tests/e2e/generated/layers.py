"""Steps that add the operators of networks: convolutions, pools, products, recurrences, normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.e2e.generated.maker import ModelMaker, need
from tests.passes.random_graphs import Shape


def _pads(g: ModelMaker, n: int, top: int) -> list[int]:
    return [g.number(0, top) for _ in range(2 * n)]


def _window(
    g: ModelMaker, n: int, kernel: list[int], dilations: list[int], pads_below_kernel: bool = False
) -> dict[str, Any]:
    attrs: dict[str, Any] = {"strides": [g.number(1, 3) for _ in range(n)]}
    if max(dilations) > 1:
        attrs["dilations"] = dilations
    if g.chance(0.3) and max(dilations) == 1:
        attrs["auto_pad"] = g.choose("SAME_UPPER", "SAME_LOWER", "VALID")
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel, strict=True)]  # SAME never crops
    elif g.chance(0.7):
        attrs["pads"] = [
            min(p, k - 1) if pads_below_kernel else p for p, k in zip(_pads(g, n, 2), kernel * 2, strict=True)
        ]
    return attrs


def any_conv(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) in (3, 4, 5))
    n, channels = len(shape) - 2, shape[1]
    group = g.pick([k for k in range(1, channels + 1) if channels % k == 0])
    out = group * g.number(1, 3)
    kernel = [g.number(1, 3) for _ in range(n)]
    dilations = [g.number(1, 2) if g.chance(0.3) else 1 for _ in range(n)]
    weight = g.normal(out, channels // group, *kernel)
    if g.chance(0.15):
        weight = g.make("Mul", [weight, g.const(0.5)], keep=0)[0]
    inputs = [x, weight] + ([g.normal(out)] if g.chance(0.5) else [])
    (y,) = g.make("Conv", inputs, group=group, **_window(g, n, kernel, dilations))
    after = g.values[-1][1]
    follow = g.number(0, 5)
    if follow == 0:
        g.make(g.choose("Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Elu", "Softplus", "Tanh"), [y])
    elif follow == 1:
        g.make("PRelu", [y, g.normal(after[1], *[1] * n)])
    elif follow == 2:
        stats = [g.normal(after[1]) for _ in range(3)]
        g.make("BatchNormalization", [y, *stats, g.const(g.rng.random(after[1]) + 0.2)])
        g.make(g.choose("Relu", "Clip"), [g.values[-1][0]])
    elif follow == 3:
        same = [v for v, s in g.values if s == after and v != y]
        if same:
            z = g.make(g.choose("Add", "Sub", "Mul"), [y, g.pick(same)] if g.chance(0.5) else [g.pick(same), y])[0]
            g.make("Relu", [z])


def transposed_conv(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) in (3, 4, 5))
    n, channels = len(shape) - 2, shape[1]
    group = g.pick([k for k in range(1, channels + 1) if channels % k == 0])
    out = g.number(1, 3)
    kernel = [g.number(1, 3) for _ in range(n)]
    strides = [g.number(1, 3) for _ in range(n)]
    attrs: dict[str, Any] = {"strides": strides, "group": group}
    form = g.number(0, 3)
    if form == 0:
        attrs["auto_pad"] = g.choose("SAME_UPPER", "SAME_LOWER")
        kernel = [max(k, s) for k, s in zip(kernel, strides, strict=True)]
    elif form == 1:
        attrs["output_padding"] = [g.number(0, s - 1) for s in strides]
        attrs["pads"] = [min(p, k - 1) for p, k in zip(_pads(g, n, 1), kernel * 2, strict=True)]
    elif form == 2:
        attrs["output_shape"] = [s * d for s, d in zip(strides, shape[2:], strict=True)]
        kernel = [max(k, s) for k, s in zip(kernel, strides, strict=True)]
    inputs = [x, g.normal(channels, out, *kernel)] + ([g.normal(out * group)] if g.chance(0.5) else [])
    (y,) = g.make("ConvTranspose", inputs, **attrs)
    if g.chance(0.4):
        g.make("Relu", [y])


def pool(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) in (3, 4, 5) and min(shape[2:]) > 1)
    n = len(shape) - 2
    kernel = [g.number(1, min(3, d)) for d in shape[2:]]
    kind = g.choose("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool")
    if kind.startswith("Global"):
        g.make(kind, [x])
        return
    dilated = kind == "MaxPool" and g.chance(0.2)
    dilations = [g.number(1, 2) for _ in range(n)] if dilated else [1] * n
    attrs = _window(g, n, kernel, dilations, True)
    if kind == "AveragePool":
        attrs["count_include_pad"] = g.number(0, 1)
    if g.chance(0.4) and "auto_pad" not in attrs and kind != "LpPool":
        attrs["ceil_mode"] = 1
    g.make(kind, [x], kernel_shape=kernel, **attrs)


def resize(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) in (3, 4))
    mode = g.choose("nearest", "linear", "cubic") if len(shape) == 4 else g.choose("nearest", "linear")
    attrs: dict[str, Any] = {"mode": mode}
    attrs["coordinate_transformation_mode"] = g.choose(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
    )
    if mode == "nearest":
        attrs["nearest_mode"] = g.choose("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if mode == "cubic":
        attrs["cubic_coeff_a"] = -0.5
    if g.chance(0.5):
        sizes = [*shape[:2], *(max(1, int(d * g.pick((0.5, 1, 1.5, 2)))) for d in shape[2:])]
        g.make("Resize", [x, "", "", g.ints(*sizes)], **attrs)
    else:
        scales = [1.0, 1.0, *(g.pick((0.5, 1.0, 2.0, 3.0)) for _ in shape[2:])]
        g.make("Resize", [x, "", g.const(scales)], **attrs)


def gemm(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) == 2)
    a, b = g.number(0, 1), g.number(0, 1)
    k, m = (shape[0], shape[1]) if a else (shape[1], shape[0])
    n = g.number(1, 5)
    c = [g.normal(*g.pick(((n,), (m, 1), (1, n), (m, n), (1,), ())))] if g.chance(0.7) else []
    weight = g.normal(n, k) if b else g.normal(k, n)
    (y,) = g.make("Gemm", [x, weight, *c], transA=a, transB=b, alpha=g.pick((1.0, 0.5)), beta=g.pick((1.0, 2.0)))
    if g.chance(0.4):
        g.make(g.choose("Relu", "Sigmoid", "Tanh"), [y])


def product(g: ModelMaker, x: str, shape: Shape) -> None:
    """Two values that MatMul takes, of any ranks."""
    need(len(shape) >= 1)
    n = g.number(1, 4)
    other = g.pick(((shape[-1],), (shape[-1], n), (1, shape[-1], n), (2, 1, shape[-1], n)))
    (y,) = g.make("MatMul", [x, g.normal(*other)])
    after = g.values[-1][1]
    if after and g.chance(0.5):
        (y,) = g.make("Add", [y, g.normal(after[-1])])
        g.make(g.choose("Relu", "Gelu", "Tanh") if g.opset >= 20 else "Relu", [y])


def self_attention(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) >= 2)
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    (t,) = g.make("Transpose", [x], keep=0, perm=perm)
    (s,) = g.make("MatMul", [x, t], keep=0)
    (s,) = g.make("Mul", [s, g.const(0.2)], keep=0)
    if g.chance(0.3):
        mask = np.where(np.tri(shape[-2]) > 0, 0, -3.4e38 if g.chance(0.5) else -1e4)
        (s,) = g.make("Add", [s, g.const(mask)], keep=0)
    (p,) = g.make("Softmax", [s], keep=0, axis=-1)
    g.make("MatMul", [p, x])


def einsum(g: ModelMaker, x: str, shape: Shape) -> None:
    letters = "abcde"[: len(shape)]
    need(1 <= len(shape) <= 4)
    form = g.number(0, 2)
    if form == 0:
        g.make("Einsum", [x], equation=f"{letters}->{letters[::-1]}")
    elif form == 1:
        g.make("Einsum", [x, g.normal(shape[-1], 3)], equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    else:
        g.make("Einsum", [x, x], equation=f"{letters},{letters}->{letters[:-1]}")


def recurrent(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) == 3)
    kind, gates = g.pick((("LSTM", 4), ("GRU", 3)))
    direction = g.choose("forward", "reverse", "bidirectional")
    count, hidden = 1 + (direction == "bidirectional"), g.number(1, 4)
    inputs = [x, g.normal(count, gates * hidden, shape[2]), g.normal(count, gates * hidden, hidden)]
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if g.chance(0.6):
        inputs.append(g.normal(count, 2 * gates * hidden))
        if g.chance(0.4):
            inputs += ["", g.normal(count, shape[1], hidden)]
    if kind == "GRU":
        attrs["linear_before_reset"] = g.number(0, 1)
    outputs = g.make(kind, inputs, g.number(1, 2), **attrs)
    if g.chance(0.5):
        y, _ = next(v for v in g.values if v[0] == outputs[0])
        g.make("Transpose", [y], perm=[0, 2, 1, 3])
        g.make("Reshape", [g.values[-1][0], g.ints(0, 0, -1)])


def norm(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) >= 2)
    kinds = ["LayerNormalization", "LpNormalization", "Softmax", "LogSoftmax"]
    if len(shape) >= 3 and shape[2] > 1:
        kinds += ["InstanceNormalization", "LRN"] + ["GroupNormalization"] * (g.opset >= 21)
    kind = g.pick(kinds)
    if kind == "LayerNormalization":
        axis = g.number(1, len(shape) - 1)
        affine = [g.normal(*shape[axis:])] + ([g.normal(*shape[axis:])] if g.chance(0.6) else [])
        g.make(kind, [x, *affine], axis=axis - (len(shape) if g.chance(0.5) else 0), epsilon=0.01)
    elif kind == "LpNormalization":
        g.make(kind, [x], axis=g.axis(shape), p=g.number(1, 2))
    elif kind == "InstanceNormalization":
        g.make(kind, [x, g.normal(shape[1]), g.normal(shape[1])], epsilon=0.01)
    elif kind == "GroupNormalization":
        groups = g.pick([k for k in range(1, shape[1] + 1) if shape[1] % k == 0])
        g.make(kind, [x, g.normal(shape[1]), g.normal(shape[1])], num_groups=groups, epsilon=0.01)
    elif kind == "LRN":
        g.make(kind, [x], size=3, alpha=0.1, beta=0.6, bias=1.5)
    else:
        g.make(kind, [x], axis=g.axis(shape) - (len(shape) if g.chance(0.5) else 0))


STEPS = (any_conv, transposed_conv, pool, resize, gemm, product, self_attention, einsum, recurrent, norm)
