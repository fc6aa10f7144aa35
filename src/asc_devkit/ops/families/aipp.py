"""AIPP, the picture preprocessing in front of a model: bytes of a camera or decoder in, a normalised tensor out.

Everything up to the colour conversion is integer arithmetic. What follows depends on the byte of a pixel alone, so it is
a table of 256 numbers per channel.

With ``aipp_mode`` ``dynamic`` the parameters are a second input; whoever executes the graph preprocesses the pictures and hands
over the result (``npu.preprocessing``).

Sources: public ATC manual (AIPP: order, formulas, defaults); where the manual is silent, what the vendor's published
kernel of the operator does: the colour sum is rounded to the nearest integer and clamped to a byte, the mean is
subtracted before the minimum, both and the factor are fp16, and the padding value is not normalised.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.pictures import PICTURES, Picture
from asc_devkit.ops.catalogue import Cost, Emit
from asc_devkit.ops.declare import Attr, ge
from asc_devkit.ops.families.steps import int64

_I32: Final = ir.DataType.INT32
_LIFT: Final = 3 << 15  # makes every colour sum positive: 3 * 2**15 * 255 / 256 is less


def _lower_aipp(e: Emit) -> ir.Value:
    out = e.out_shape()
    if e.attr("aipp_mode") == "dynamic":
        if e.shape(0) != out or e.dtype(0) != e.out_dtype():
            raise e.reject("its parameters come at run time, and the pictures were not preprocessed before")
        return e.op("Identity", [e.need(0)])
    picture = PICTURES.get(e.attr("input_format"))
    if picture is None or out is None or len(out) != 4:
        raise e.reject("its picture format or output shape is not known")
    batch, height, width = out[0], e.attr("src_image_size_h"), e.attr("src_image_size_w")
    if e.shape(0) != picture.buffer_shape(batch, height, width):
        raise e.reject(f"its input is no {width} x {height} {picture.name} picture")
    _check_sizes(e, out)
    count = out[1]
    x = _pixels(e, picture, out)
    if e.attr("crop"):
        first = [e.attr("load_start_pos_h"), e.attr("load_start_pos_w")]
        last = [first[0] + e.attr("crop_size_h"), first[1] + e.attr("crop_size_w")]
        x = e.op("Slice", [x, int64(*first), int64(*last), int64(1, 2)])
    x = e.op("Cast", [x], {"to": int(_I32)}, dtype=_I32)
    if e.attr("csc_switch"):
        x = _convert_colours(e, picture, x, count)
    x = _normalise(e, x, count)
    x = e.op("Transpose", [x], {"perm": [0, 3, 1, 2]})
    if not e.attr("padding"):
        return x
    assert x.dtype is not None
    before = [0, 0, e.attr("top_padding_size"), e.attr("left_padding_size")]
    after = [0, 0, e.attr("bottom_padding_size"), e.attr("right_padding_size")]
    value = np.array(np.float16(e.attr("padding_value"))).astype(x.dtype.numpy())
    return e.op("Pad", [x, int64(*before, *after), value])


def _check_sizes(e: Emit, out: tuple[int, ...]) -> None:
    """Crop and padding lead to the output's height and width, so nothing larger than it is ever made."""
    for axis, (letter, sides) in enumerate((("h", ("top", "bottom")), ("w", ("left", "right"))), start=2):
        whole = e.attr(f"src_image_size_{letter}")
        size, start = whole, 0
        if e.attr("crop"):
            size, start = e.attr(f"crop_size_{letter}"), e.attr(f"load_start_pos_{letter}")
        pads = [e.attr(f"{side}_padding_size") if e.attr("padding") else 0 for side in sides]
        if start < 0 or size < 1 or start + size > whole or min(pads) < 0 or size + sum(pads) != out[axis]:
            raise e.reject("crop and padding do not lead to the size of its output")


def _pixels(e: Emit, picture: Picture, out: tuple[int, ...]) -> ir.Value:
    """uint8 [N, H, W, C]: the channels of each pixel in the order both swaps leave them, those that are not used cut off."""
    used = 3 if e.attr("csc_switch") else out[1]
    order = list(range(picture.channels))
    if e.attr("ax_swap_switch"):
        order = order[1:] + order[:1]
    if e.attr("rbuv_swap_switch") and picture.channels > 1:
        a, b = (1, 2) if picture.yuv else (0, 2)
        order[a], order[b] = order[b], order[a]
    if used > len(order):
        raise e.reject(f"{picture.name} has not {used} channels")
    order = order[:used]
    x = e.need(0)
    if picture.name == "YUV420SP_U8":
        x = _take_planes_apart(e, x, used)
    if order != list(range(picture.channels)) and not (picture.yuv and used == 1):
        x = e.op("Gather", [x, int64(*order)], {"axis": 3})
    return x


def _take_planes_apart(e: Emit, x: ir.Value, used: int) -> ir.Value:
    """Luma plane and half-size interleaved chroma -> [N, H, W, 3]; four pixels share one chroma pair."""
    batch, rows, width, _ = e.shape(0) or (0, 0, 0, 0)
    height = rows * 2 // 3
    luma = e.op("Slice", [x, int64(0), int64(height), int64(1)])
    if used == 1:
        return luma
    half = (height // 2, width // 2)
    chroma = e.op("Slice", [x, int64(height), int64(rows), int64(1)])
    chroma = e.op("Reshape", [chroma, int64(batch, half[0], 1, half[1], 1, 2)])
    chroma = e.op("Expand", [chroma, int64(batch, half[0], 2, half[1], 2, 2)])
    chroma = e.op("Reshape", [chroma, int64(batch, height, width, 2)])
    return e.op("Concat", [luma, chroma], {"axis": 3})


def _convert_colours(e: Emit, picture: Picture, x: ir.Value, count: int) -> ir.Value:
    """int32 [N, H, W, 3] -> [N, H, W, count]: (M x + 128) >> 8 within 0..255, biases before (YUV) or after (RGB).

    ONNX shifts unsigned numbers only and its division rounds towards zero: the sum is lifted above zero first.
    """
    matrix = np.array(e.attr("matrix"), np.int64)
    bias = np.array(e.attr("input_bias") if picture.yuv else e.attr("output_bias"), np.int64)
    if (
        matrix.shape != (9,)
        or bias.shape != (3,)
        or not _within(matrix, 1 << 15)
        or not _within(bias, 255)
        or not 1 <= count <= 3
    ):
        raise e.reject("its colour matrix is no 3 x 3 matrix of 16-bit numbers")
    if picture.yuv:
        x = e.op("Sub", [x, bias.astype(np.int32)])
    x = e.op("MatMul", [x, np.ascontiguousarray(matrix.reshape(3, 3).T[:, :count]).astype(np.int32)])
    x = e.op("Add", [x, np.array((_LIFT << 8) + 128, np.int32)])
    x = e.op("Div", [x, np.array(256, np.int32)])
    back = (np.zeros(count, np.int64) if picture.yuv else bias[:count]) - _LIFT
    x = e.op("Add", [x, back.astype(np.int32)])
    return e.op("Clip", [x, np.array(0, np.int32), np.array(255, np.int32)])


def _within(numbers: np.ndarray[Any, Any], limit: int) -> bool:
    return bool(-limit <= numbers.min() and numbers.max() <= limit)


def _normalise(e: Emit, x: ir.Value, count: int) -> ir.Value:
    """Bytes -> (x - mean - min) * var_reci; bytes stay bytes when the model takes them."""
    target = e.out_dtype()
    if target == ir.DataType.UINT8:
        return e.op("Cast", [x], {"to": int(target)}, dtype=target)
    table = _table(e, count)
    if count > 1:
        x = e.op("Add", [x, (256 * np.arange(count)).astype(np.int32)])
    return e.op("Gather", [table.reshape(-1), x], {"axis": 0})


def _table(e: Emit, count: int) -> np.ndarray[Any, Any]:
    """float32 [count, 256]: the normalised value of every byte, before the product's rounding to the output type."""
    mean, low, factor = (np.array(e.attr(name), np.float32) for name in ("mean_chn", "min_chn", "var_reci_chn"))
    if min(len(mean), len(low), len(factor)) < count:
        raise e.reject(f"it normalises fewer than {count} channels")
    with np.errstate(over="ignore", invalid="ignore"):
        half = np.float16
        shifted = (np.arange(256, dtype=np.float32) - mean[:count, None]).astype(half)
        difference: np.ndarray[Any, Any] = (shifted - low[:count, None].astype(half)).astype(half)
        product: np.ndarray[Any, Any] = difference.astype(np.float32) * factor[:count, None].astype(half)
    return product.astype(np.float32)


ge(
    "Aipp",
    "images params",
    _lower_aipp,
    [
        Attr("aipp_mode", "str", "static"),
        Attr("max_src_image_size", "int", 0),
        Attr("input_format", "str", ""),
        Attr("src_image_size_w", "int", 0),
        Attr("src_image_size_h", "int", 0),
        Attr("rbuv_swap_switch", "bool", 0),
        Attr("ax_swap_switch", "bool", 0),
        Attr("crop", "bool", 0),
        Attr("load_start_pos_w", "int", 0),
        Attr("load_start_pos_h", "int", 0),
        Attr("crop_size_w", "int", 0),
        Attr("crop_size_h", "int", 0),
        Attr("csc_switch", "bool", 0),
        Attr("matrix", "ints", (298, 516, 0, 298, -100, -208, 298, 0, 409)),
        Attr("input_bias", "ints", (16, 128, 128)),
        Attr("output_bias", "ints", (16, 128, 128)),
        Attr("mean_chn", "ints", (0, 0, 0, 0)),
        Attr("min_chn", "floats", (0.0, 0.0, 0.0, 0.0)),
        Attr("var_reci_chn", "floats", (1.0, 1.0, 1.0, 1.0)),
        Attr("padding", "bool", 0),
        Attr("left_padding_size", "int", 0),
        Attr("right_padding_size", "int", 0),
        Attr("top_padding_size", "int", 0),
        Attr("bottom_padding_size", "int", 0),
        Attr("padding_value", "float", 0.0),
    ],
    "features",
    cost=Cost.MOVEMENT,
    floats={"*": frozenset({"fp16"})},
    source="public ATC manual, AIPP",
)
