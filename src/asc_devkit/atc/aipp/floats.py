"""AIPP's preprocessing in floating point: what the program around the original model would do with the same pictures.

Nothing is rounded here: neither the colours to bytes nor the parameters to fp16. What the compiled model does
differently is therefore part of its measured error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asc_devkit.atc.aipp.config import Aipp

Array = np.ndarray[Any, Any]


def in_floats(aipp: Aipp, pictures: Array, channels: int) -> Array:
    """uint8 pictures as the compiled model takes them -> float32 [N, channels, H, W] as the original takes them."""
    x = _pixels(aipp, pictures)[..., list(aipp.order)].astype(np.float64)
    if aipp.crop:
        top, left = aipp.load_start_pos_h, aipp.load_start_pos_w
        x = x[:, top : top + aipp.crop_size_h, left : left + aipp.crop_size_w]
    if aipp.csc_switch:
        matrix = np.array(aipp.matrix, np.float64).reshape(3, 3) / 256
        x = x[..., :3]
        x = (x - aipp.input_bias) @ matrix.T if aipp.picture.yuv else x @ matrix.T + aipp.output_bias
        x = x.clip(0, 255)
    x = x[..., :channels]
    x = (x - aipp.mean_chn[:channels] - np.array(aipp.min_chn[:channels])) * aipp.var_reci_chn[:channels]
    if aipp.padding:
        rows = (aipp.top_padding_size, aipp.bottom_padding_size)
        columns = (aipp.left_padding_size, aipp.right_padding_size)
        x = np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=aipp.padding_value)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.float32)


def _pixels(aipp: Aipp, pictures: Array) -> Array:
    """[N, H, W, C] with the channels as stored (NV12: Y, U, V)."""
    if aipp.input_format != "YUV420SP_U8":
        return pictures
    height, width = aipp.src_image_size_h, aipp.src_image_size_w
    luma = pictures[:, :height]
    chroma = pictures[:, height:].reshape(len(pictures), height // 2, width // 2, 2)
    return np.concatenate([luma, chroma.repeat(2, axis=1).repeat(2, axis=2)], axis=3)
