"""Convolutions: Conv -> Conv2D, Conv3D; ConvTranspose -> Conv2DTransposeD, Conv3DTransposeD (1-D through height 1).

GE lists 4 (5) strides and dilations and orders pads per axis (top, bottom, left, right); ONNX lists spatial axes only
and all beginnings before all ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import CUBE, Attr, ge, onnx
from asc_devkit.ops.families.steps import squeeze, unsqueeze

_LAYOUT = {2: "NCHW", 3: "NCDHW"}


def by_axis(pads: Sequence[int]) -> list[int]:
    """ONNX pads (b0, b1, ..., e0, e1, ...) -> GE pads (b0, e0, b1, e1, ...)."""
    half = len(pads) // 2
    return [p for pair in zip(pads[:half], pads[half:], strict=True) for p in pair]


def by_end(pads: Sequence[int]) -> list[int]:
    """GE pads (b0, e0, b1, e1, ...) -> ONNX pads (b0, b1, ..., e0, e1, ...)."""
    return [*pads[::2], *pads[1::2]]


def kernel_of(e: Emit) -> list[int]:
    """Spatial kernel sizes, from the attribute or from the filter's shape."""
    kernel, shape = e.attr("kernel_shape"), e.shape(1)
    if kernel is not None:
        return list(kernel)
    if shape is None:
        raise e.reject("the filter's shape is unknown", "Give the model static shapes (--input_shape).")
    return list(shape[2:])


def explicit_pads(e: Emit, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """ONNX pads with ``auto_pad`` resolved: SAME_* give ceil(in / stride) outputs."""
    mode = e.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return list(e.attr("pads", [0] * (2 * len(kernel))))
    if mode == "VALID":
        return [0] * (2 * len(kernel))
    shape = e.shape(0)
    if shape is None:
        raise e.reject(f"auto_pad {mode} needs a static input shape", "Give the model static shapes (--input_shape).")
    begins, ends = [], []
    for size, k, stride, dilation in zip(shape[2:], kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return begins + ends


def _spatial(e: Emit) -> int:
    rank = e.rank(0)
    if rank is None or rank not in (3, 4, 5):
        raise e.reject(f"convolution over {rank} dimensions", "CANN convolves 1, 2 or 3 spatial axes.")
    return rank - 2


def _convert(e: Emit) -> ir.Value:
    count = _spatial(e)
    kernel = kernel_of(e)
    strides = list(e.attr("strides", [1] * count))
    dilations = list(e.attr("dilations", [1] * count))
    pads = explicit_pads(e, kernel, strides, dilations)
    x, weight = e.need(0), e.need(1)
    shape = e.out_shape()
    if count == 1:
        x, weight = unsqueeze(e, x, 2), unsqueeze(e, weight, 2)
        strides, dilations, pads = [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
        shape = None if shape is None else (*shape[:2], 1, shape[2])
    attrs = {
        "strides": [1, 1, *strides],
        "pads": by_axis(pads),
        "dilations": [1, 1, *dilations],
        "groups": e.attr("group", 1),
        "data_format": _LAYOUT[len(strides)],
        "offset_x": 0,
    }
    y = e.op("Conv3D" if count == 3 else "Conv2D", [x, weight, e.value(2)], attrs, shape=shape)
    return squeeze(e, y, 2) if count == 1 else y


def _lower(onnx_type: str, spatial: int) -> Convert:
    """Lowering of the forward and transposed convolution with ``spatial`` axes."""

    def lower(e: Emit) -> ir.Value:
        if e.attr("data_format") != _LAYOUT[spatial]:
            raise e.reject(f"data_format {e.attr('data_format')} is not {_LAYOUT[spatial]}")
        attrs = {
            "strides": e.attr("strides")[2:],
            "pads": by_end(e.attr("pads")),
            "dilations": e.attr("dilations")[2:],
            "group": e.attr("groups"),
        }
        if onnx_type == "ConvTranspose":
            attrs["output_padding"] = e.attr("output_padding")[2:]
        return e.op(onnx_type, e.inputs[:3], attrs)

    return lower


def _transposed(e: Emit) -> ir.Value:
    count = _spatial(e)
    kernel = kernel_of(e)
    strides = list(e.attr("strides", [1] * count))
    dilations = list(e.attr("dilations", [1] * count))
    extra = list(e.attr("output_padding", [0] * count))
    pads = _transposed_pads(e, kernel, strides, dilations, extra)
    x, weight = e.need(0), e.need(1)
    shape = e.out_shape()
    if count == 1:
        x, weight = unsqueeze(e, x, 2), unsqueeze(e, weight, 2)
        strides, dilations, extra, pads = [1, *strides], [1, *dilations], [0, *extra], [0, pads[0], 0, pads[1]]
        shape = None if shape is None else (*shape[:2], 1, shape[2])
    attrs = {
        "input_size": shape,
        "strides": [1, 1, *strides],
        "pads": by_axis(pads),
        "dilations": [1, 1, *dilations],
        "groups": e.attr("group", 1),
        "data_format": _LAYOUT[len(strides)],
        "output_padding": [0, 0, *extra],
        "offset_x": 0,
    }
    ge_type = "Conv3DTransposeD" if count == 3 else "Conv2DTransposeD"
    y = e.op(ge_type, [x, weight, e.value(2)], attrs, shape=shape)
    return squeeze(e, y, 2) if count == 1 else y


def _transposed_pads(
    e: Emit, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], extra: list[int]
) -> list[int]:
    """Pads of ConvTranspose; ``output_shape`` and SAME_* define them through the output size."""
    mode, wanted = e.attr("auto_pad", "NOTSET"), e.attr("output_shape")
    if wanted is None and mode == "NOTSET":
        return list(e.attr("pads", [0] * (2 * len(kernel))))
    if wanted is None and mode == "VALID":
        return [0] * (2 * len(kernel))
    shape = e.shape(0)
    if shape is None:
        raise e.reject("output_shape needs a static input shape", "Give the model static shapes (--input_shape).")
    sizes = (
        list(wanted)[-len(kernel) :] if wanted is not None else [s * t for s, t in zip(shape[2:], strides, strict=True)]
    )
    begins, ends = [], []
    for axis, (size, k, stride, dilation, target) in enumerate(
        zip(shape[2:], kernel, strides, dilations, sizes, strict=True)
    ):
        total = (size - 1) * stride + extra[axis] + (k - 1) * dilation + 1 - target
        if total < 0:  # larger than the kernel reaches: zeros at the end
            extra[axis] -= total
            total = 0
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return begins + ends


def _attrs(spatial: int, transposed: bool = False) -> list[Attr]:
    ones, zeros = [1] * (spatial + 2), [0] * (spatial + 2)
    shared = [
        Attr("strides", "ints", ones),
        Attr("pads", "ints", [0] * (2 * spatial)),
        Attr("dilations", "ints", ones),
        Attr("groups", "int", 1),
        Attr("data_format", "str", _LAYOUT[spatial]),
        Attr("offset_x", "int", 0),
    ]
    if transposed:
        shared += [Attr("input_size", "ints"), Attr("output_padding", "ints", zeros)]
    return shared


_CUBE = {**CUBE, "cost": Cost.CONV}
for _count, _name in ((2, "Conv2D"), (3, "Conv3D")):
    ge(_name, "x filter bias offset_w", _lower("Conv", _count), _attrs(_count), **_CUBE)
    ge(f"{_name}TransposeD", "x filter bias offset_w", _lower("ConvTranspose", _count), _attrs(_count, True), **_CUBE)
onnx("Conv", _convert, "Conv2D", "Conv3D", "Unsqueeze", "Squeeze")
onnx("ConvTranspose", _transposed, "Conv2DTransposeD", "Conv3DTransposeD", "Unsqueeze", "Squeeze")
