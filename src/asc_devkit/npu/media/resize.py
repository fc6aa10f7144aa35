"""Resizing in integers: the algorithms the resize configuration numbers, each as its public definition says.

0 and 1: bilinear with half-pixel centres as OpenCV computes it for bytes (weights in 1/2048, rounded once at the end);
2: nearest, source = floor(target * scale); 3: bilinear and 4: nearest without half-pixel centres (TensorFlow's legacy).
Source: pyACL reference, ``dvpp_set_resize_config_interpolation`` and ``vpc_resize``; on the device results of 0 are
"close to OpenCV".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from asc_devkit.npu.media.formats import MediaError, limit
from asc_devkit.npu.media.planes import Array, Planes

BITS: Final = 11
ONE: Final = 1 << BITS
ALGORITHMS: Final = (0, 1, 2, 3, 4)


def resize(planes: Planes, width: int, height: int, algorithm: int = 0) -> Planes:
    """``planes`` at another size, each plane on its own. Raises ``MediaError`` for ratios outside 1/32 to 16."""
    if algorithm not in ALGORITHMS:
        raise MediaError(f"the resize algorithm {algorithm} does not exist")
    if (planes.width, planes.height) == (width, height):
        return planes
    low, high = limit("resize")
    for have, want in ((planes.width, width), (planes.height, height)):
        if not low <= want / have <= high:
            raise MediaError(f"resizing {have} to {want} is outside 1/32 to 16 times")
    made = {}
    for name, plane in planes.values.items():
        sx, sy = planes.sub if name in "UV" else (1, 1)
        made[name] = _plane(plane, -(-width // sx), -(-height // sy), algorithm)
    return Planes(made, planes.sub)


def _plane(plane: Array, width: int, height: int, algorithm: int) -> Array:
    if algorithm in (2, 4):
        columns, rows = _nearest(plane.shape[1], width), _nearest(plane.shape[0], height)
        found: Array = plane[rows[:, None], columns]
        return found
    centres = algorithm != 3
    x0, x1, wx = _weights(plane.shape[1], width, centres)
    y0, y1, wy = _weights(plane.shape[0], height, centres)
    wide = plane.astype(np.int32)
    across = wide[:, x0] * (ONE - wx) + wide[:, x1] * wx  # 19 bits
    down = across[y0].astype(np.int64) * (ONE - wy)[:, None] + across[y1].astype(np.int64) * wy[:, None]
    rounded: Array = (down + (1 << (2 * BITS - 1))) >> (2 * BITS)
    return rounded.astype(np.uint8)


def _nearest(have: int, want: int) -> Array:
    return np.minimum(np.arange(want) * have // want, have - 1)


def _weights(have: int, want: int, centres: bool) -> tuple[Array, Array, Array]:
    """The two source positions of each target and the weight of the second in 1/2048."""
    scale = have / want
    at = (np.arange(want) + 0.5) * scale - 0.5 if centres else np.arange(want) * scale
    at = np.clip(at, 0, have - 1)
    first = np.floor(at).astype(np.int64)
    weight = np.rint((at - first) * ONE).astype(np.int32)
    return first, np.minimum(first + 1, have - 1), weight
