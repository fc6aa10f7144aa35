"""Colour conversion in integers, with the matrices the vendor documents (thousandths, ``data/colour.json``)."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from asc_devkit.npu.media.formats import Format, MediaError
from asc_devkit.npu.media.planes import Array, Planes


@lru_cache(maxsize=1)
def matrices() -> dict[int, dict[str, Any]]:
    """The matrices by their number; 0 (BT.601, full range) is the default."""
    text = resources.files("asc_devkit.npu.media").joinpath("data/colour.json").read_text(encoding="utf-8")
    return {row["value"]: row for row in json.loads(text)["matrices"]}


def convert(planes: Planes, fmt: Format, matrix: int = 0) -> Planes:
    """``planes`` in the colours and subsampling of ``fmt``; what is right already is not copied.

    Chroma is repeated where more samples are needed and averaged (rounded half up) where fewer are; a gray picture has
    chroma 128. Raises ``MediaError`` for an unknown ``matrix``.
    """
    if fmt.is_rgb:
        return planes if planes.is_rgb else _to_rgb(planes, matrix)
    if planes.is_rgb:
        planes = _to_yuv(planes, matrix)
    if fmt.kind == "gray":
        return Planes({"Y": planes.values["Y"]})
    if "U" not in planes.values:
        shape = (-(-planes.height // fmt.sub[1]), -(-planes.width // fmt.sub[0]))
        neutral = np.full(shape, 128, np.uint8)
        return Planes({"Y": planes.values["Y"], "U": neutral, "V": neutral}, fmt.sub)
    if planes.sub == fmt.sub:
        return planes
    chroma = {
        name: _subsampled(_full(planes.values[name], planes.sub, planes.width, planes.height), fmt.sub) for name in "UV"
    }
    return Planes({"Y": planes.values["Y"], **chroma}, fmt.sub)


def _matrix(number: int) -> dict[str, Any]:
    if number not in matrices():
        raise MediaError(f"the colour matrix {number} does not exist")
    return matrices()[number]


def _to_rgb(planes: Planes, number: int) -> Planes:
    matrix = _matrix(number)
    luma = planes.values["Y"].astype(np.int32) - matrix["y_bias"]
    if "U" in planes.values:
        chroma = [_full(planes.values[n], planes.sub, planes.width, planes.height).astype(np.int32) - 128 for n in "UV"]
    else:
        chroma = [np.zeros_like(luma), np.zeros_like(luma)]
    made = {}
    for name, (y, u, v) in zip("RGB", matrix["to_rgb"], strict=True):
        made[name] = _byte((y * luma + u * chroma[0] + v * chroma[1] + 500) // 1000)
    return Planes(made)


def _to_yuv(planes: Planes, number: int) -> Planes:
    matrix = _matrix(number)
    red, green, blue = (planes.values[name].astype(np.int32) for name in "RGB")
    made = {}
    for name, (r, g, b), bias in zip("YUV", matrix["to_yuv"], (matrix["y_bias"], 128, 128), strict=True):
        made[name] = _byte((r * red + g * green + b * blue) // 1000 + bias)
    return Planes(made)


def _byte(values: Array) -> Array:
    return np.clip(values, 0, 255).astype(np.uint8)


def _full(plane: Array, sub: tuple[int, int], width: int, height: int) -> Array:
    """Chroma with one sample for each pixel."""
    if sub == (1, 1):
        return plane
    return plane.repeat(sub[1], axis=0).repeat(sub[0], axis=1)[:height, :width]


def _subsampled(plane: Array, sub: tuple[int, int]) -> Array:
    """The average of each block; blocks at an odd edge repeat it."""
    if sub == (1, 1):
        return plane
    rows, columns = -plane.shape[0] % sub[1], -plane.shape[1] % sub[0]
    padded = np.pad(plane, ((0, rows), (0, columns)), mode="edge") if rows or columns else plane
    blocks = padded.reshape(padded.shape[0] // sub[1], sub[1], padded.shape[1] // sub[0], sub[0])
    count = sub[0] * sub[1]
    means: Array = (blocks.sum(axis=(1, 3), dtype=np.int32) + count // 2) // count
    return means.astype(np.uint8)
