"""The vision unit's jobs on described buffers: crop, resize, paste, convert, border, histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from asc_devkit.npu.media import colour, formats
from asc_devkit.npu.media.formats import Family, Format, MediaError
from asc_devkit.npu.media.planes import Array, Planes, read, write
from asc_devkit.npu.media.resize import resize

BORDERS: Final = {0: "constant", 1: "edge", 2: "symmetric", 3: "reflect"}
LETTERS: Final = "RGBYUVA"


@dataclass(frozen=True)
class Area:
    """Pixels from ``left`` to ``right`` and ``top`` to ``bottom``, ends included."""

    left: int
    right: int
    top: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        return self.bottom - self.top + 1

    def check(self, width: int, height: int, rules: Family, paste: bool = False) -> None:
        """Raise ``MediaError`` unless the area lies in a picture of this size and obeys the chip's parity rules."""
        what = "paste" if paste else "crop"
        text = f"the {what} area {self.left}..{self.right} x {self.top}..{self.bottom}"
        if not (0 <= self.left < self.right < width and 0 <= self.top < self.bottom < height):
            raise MediaError(f"{text} does not lie in {width} x {height}")
        low_w, low_h, high_w, high_h = formats.limit("vpc_out")
        if not (low_w <= self.width <= high_w and low_h <= self.height <= high_h):
            raise MediaError(
                f"{text} is {self.width} x {self.height}: outside {low_w} x {low_h} to {high_w} x {high_h}"
            )
        if rules.roi_parity and (self.left % 2 or self.top % 2 or not self.right % 2 or not self.bottom % 2):
            raise MediaError(f"{text} must begin at even and end at odd offsets on this chip")
        if paste and self.left % rules.paste_left:
            raise MediaError(f"{text} must begin at a left offset that is a multiple of {rules.paste_left}")


@dataclass(frozen=True)
class Picture:
    """A described buffer: uint8 ``data``, format, size in pixels, strides in bytes and rows."""

    data: Array
    format: Format
    width: int
    height: int
    width_stride: int
    height_stride: int

    @property
    def area(self) -> Area:
        return Area(0, self.width - 1, 0, self.height - 1)

    def check(self, rules: Family, role: str) -> None:
        """Raise ``MediaError`` when the chip's vision unit refuses it as input (``in``) or output (``out``)."""
        formats.check(
            self.format, self.width, self.height, self.width_stride, self.height_stride, self.data.size, rules, role
        )

    def planes(self) -> Planes:
        return read(self.data, self.format, self.width, self.height, self.width_stride, self.height_stride)

    def put(self, planes: Planes, left: int = 0, top: int = 0) -> None:
        write(planes, self.data, self.format, self.width_stride, self.height_stride, left, top)


def move(source: Picture, crop: Area, target: Picture, paste: Area, algorithm: int = 0, matrix: int = 0) -> None:
    """Cut ``crop`` out of ``source``, resize it to ``paste`` and put it there in ``target``'s format.

    Everything around ``paste`` keeps its bytes. Resizing comes before colour conversion.
    """
    piece = source.planes().crop(crop.left, crop.top, crop.width, crop.height)
    piece = resize(piece, paste.width, paste.height, algorithm)
    target.put(colour.convert(piece, target.format, matrix), paste.left, paste.top)


def make_border(
    source: Picture,
    target: Picture,
    edges: tuple[int, int, int, int],
    kind: int,
    values: tuple[float, ...],
    matrix: int = 0,
) -> None:
    """``source`` with ``edges`` (top, bottom, left, right) pixels around it. ``kind``: 0 constant (``values`` in the
    order of the format's components), 1 replicate, 2 reflect, 3 reflect without the edge."""
    top, bottom, left, right = edges
    if kind not in BORDERS:
        raise MediaError(f"the border kind {kind} does not exist")
    if min(edges) < 0 or (source.width + left + right, source.height + top + bottom) != (target.width, target.height):
        raise MediaError(
            f"{source.width} x {source.height} with border {edges} is not {target.width} x {target.height}"
        )
    if kind in (2, 3) and max(edges) > 2:
        raise MediaError("reflected borders are at most 2 pixels wide")
    piece = colour.convert(source.planes(), target.format, matrix)
    made = {}
    names = [n for n in target.format.order if n in LETTERS] if target.format.is_rgb else ["Y", "U", "V"]
    for name, plane in piece.values.items():
        sx, sy = piece.sub if name in "UV" else (1, 1)
        if any(v % s for v, s in ((top, sy), (bottom, sy), (left, sx), (right, sx))):
            raise MediaError(f"a border of {edges} does not fit the subsampling of {target.format.name}")
        around = ((top // sy, bottom // sy), (left // sx, right // sx))
        if kind == 0:
            at = names.index(name) if name in names else 0
            fill = values[at] if at < len(values) else 0
            made[name] = np.pad(plane, around, constant_values=np.uint8(min(max(int(fill), 0), 255)))
        else:
            made[name] = np.pad(plane, around, mode=BORDERS[kind])  # type: ignore[call-overload]
    target.put(Planes(made, piece.sub))


def histogram(source: Picture) -> list[Array]:
    """Counts of the 256 values for each component, in the order R, G, B or Y, U, V."""
    planes = source.planes()
    names = "RGB" if planes.is_rgb else [n for n in "YUV" if n in planes.values]
    return [np.bincount(planes.values[n].reshape(-1), minlength=256).astype(np.uint32) for n in names]
