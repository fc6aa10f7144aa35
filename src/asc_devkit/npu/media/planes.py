"""Pictures as planes of numbers: read from and written to buffers with strides, cropped, pasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asc_devkit.npu.media.formats import Format, MediaError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Planes:
    """A picture: uint8 planes by letter (``Y``, ``U``, ``V`` or ``R``, ``G``, ``B``, also ``A``).

    ``sub`` is the chroma subsampling; chroma planes have ceil(size / sub) samples.
    """

    values: dict[str, Array]
    sub: tuple[int, int] = (1, 1)

    @property
    def width(self) -> int:
        return int(self._first.shape[1])

    @property
    def height(self) -> int:
        return int(self._first.shape[0])

    @property
    def is_rgb(self) -> bool:
        return "R" in self.values

    @property
    def _first(self) -> Array:
        return self.values["R" if self.is_rgb else "Y"]

    def crop(self, left: int, top: int, width: int, height: int) -> Planes:
        """An area of the picture; chroma samples are those whose pixels begin in it."""
        made = {}
        for name, plane in self.values.items():
            sx, sy = self.sub if name in "UV" else (1, 1)
            x, y = left // sx, top // sy
            made[name] = plane[y : y + -(-height // sy), x : x + -(-width // sx)]
        return Planes(made, self.sub)


def read(buffer: Array, fmt: Format, width: int, height: int, width_stride: int, height_stride: int) -> Planes:
    """The picture in ``buffer`` (uint8): views, nothing is copied."""
    if fmt.kind == "packed":
        return Planes(_packed(buffer, fmt, width, height, width_stride), fmt.sub)
    luma = buffer[: width_stride * height_stride].reshape(height_stride, width_stride)
    values = {"Y": luma[:height, :width]}
    if fmt.kind == "semi":
        chroma = _chroma(buffer, fmt, width_stride, height_stride)
        columns, rows = -(-width // fmt.sub[0]), -(-height // fmt.sub[1])
        for index, name in enumerate(fmt.order):
            values[name] = chroma[:rows, :columns, index]
    return Planes(values, fmt.sub)


def write(
    planes: Planes, buffer: Array, fmt: Format, width_stride: int, height_stride: int, left: int = 0, top: int = 0
) -> None:
    """Put ``planes`` (already in the colours and subsampling of ``fmt``) into ``buffer`` at ``left``, ``top``."""
    if planes.is_rgb != fmt.is_rgb or (fmt.kind != "gray" and not fmt.is_rgb and planes.sub != fmt.sub):
        raise MediaError(f"the picture was not converted to {fmt.name}")  # a mistake of the caller, not of a program
    target = read(buffer, fmt, left + planes.width, top + planes.height, width_stride, height_stride)
    area = target.crop(left, top, planes.width, planes.height)
    for name, plane in area.values.items():
        plane[:] = planes.values.get(name, 255)  # alpha: opaque


def _chroma(buffer: Array, fmt: Format, width_stride: int, height_stride: int) -> Array:
    """Interleaved chroma as (rows, samples, 2)."""
    plane = width_stride * height_stride
    row = 2 * width_stride // fmt.sub[0]
    rows = height_stride // fmt.sub[1]
    return buffer[plane : plane + row * rows].reshape(rows, row // 2, 2)


def _packed(buffer: Array, fmt: Format, width: int, height: int, width_stride: int) -> dict[str, Array]:
    rows = buffer[: width_stride * height].reshape(height, width_stride)
    step = len(fmt.order)
    groups = -(-width // fmt.sub[0])
    pixels = rows[:, : groups * step].reshape(height, groups, step)
    if fmt.sub == (1, 1):
        return {name: pixels[:, :, index] for index, name in enumerate(fmt.order)}
    first = fmt.order.index("Y")
    luma = rows[:, first : groups * step : 2][:, :width]
    return {"Y": luma, **{name: pixels[:, :, fmt.order.index(name)] for name in "UV"}}
