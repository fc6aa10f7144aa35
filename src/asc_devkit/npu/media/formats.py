"""Pixel formats: what bytes lie where, which strides and sizes the media unit of each chip generation accepts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final

UNKNOWN: Final = 10000


class MediaError(ValueError):
    """A picture or its description that the media unit refuses; the text says why."""


@dataclass(frozen=True)
class Format:
    """A pixel format. ``kind``: ``gray``, ``semi`` (Y plane, then interleaved chroma) or ``packed`` (one plane);
    ``sub``: pixels per chroma sample across and down; ``align``: width and height are multiples of these."""

    value: int
    name: str
    kind: str
    order: str
    sub: tuple[int, int]
    align: tuple[int, int]

    @property
    def is_rgb(self) -> bool:
        return "R" in self.order

    @property
    def row_bytes(self) -> int:
        """Bytes of a row for each pixel of width."""
        if self.kind != "packed":
            return 1
        return 2 if len(self.order) == 4 and self.sub == (2, 1) else len(self.order)

    def size(self, width_stride: int, height_stride: int) -> int:
        """Bytes of a buffer with these strides (width stride in bytes)."""
        plane = width_stride * height_stride
        if self.kind != "semi":
            return plane
        return plane + 2 * plane // (self.sub[0] * self.sub[1])


@dataclass(frozen=True)
class Family:
    """What differs between chip generations: ``stride`` the multiples of width stride (pixels) and height stride of the
    vision unit, ``jpegd`` those of decoded JPEGs; ``roi_parity``: areas begin even and end odd; ``paste_left``: multiple
    of a pasted area's left edge."""

    generations: tuple[str, ...]
    stride: tuple[int, int]
    min_stride: int
    jpegd: tuple[int, int]
    roi_parity: bool
    paste_left: int
    png: bool
    products: str


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    text = resources.files("asc_devkit.npu.media").joinpath("data/formats.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@lru_cache(maxsize=1)
def table() -> dict[int, Format]:
    """All formats by their number."""
    rows = _data()["formats"]
    return {row["value"]: Format(**{**row, "sub": tuple(row["sub"]), "align": tuple(row["align"])}) for row in rows}


def of(value: int) -> Format:
    """The format with this number. Raises ``MediaError``."""
    if value not in table():
        raise MediaError(f"the pixel format {value} is not supported")
    return table()[value]


@lru_cache(maxsize=16)
def family(generation: str) -> Family:
    """The rules of a chip generation (``310P``, ``910B``, ...); of one that is not listed, the newest."""
    rows = [Family(**_frozen(row)) for row in _data()["families"]]
    return next((row for row in rows if generation in row.generations), rows[-1])


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def limit(name: str) -> Any:
    """A limit of the table: sizes as (min width, min height, max width, max height)."""
    return _data()["limits"][name]


def up(value: int, multiple: int) -> int:
    """``value`` rounded up to a multiple."""
    return -(-value // multiple) * multiple


def strides(fmt: Format, width: int, height: int, rules: Family) -> tuple[int, int]:
    """The smallest width stride (bytes) and height stride the vision unit takes for a picture."""
    least = max(up(width, rules.stride[0]) * fmt.row_bytes, rules.min_stride)
    return up(least, rules.stride[0]) if fmt.row_bytes == 1 else least, up(height, rules.stride[1])


def check(
    fmt: Format, width: int, height: int, width_stride: int, height_stride: int, size: int, rules: Family, role: str
) -> None:
    """Raise ``MediaError`` when the vision unit of ``rules`` refuses such a picture. ``role``: ``in`` or ``out``."""
    low_w, low_h, high_w, high_h = limit(f"vpc_{role}")
    if not (low_w <= width <= high_w and low_h <= height <= high_h):
        raise MediaError(f"{width} x {height} is outside {low_w} x {low_h} to {high_w} x {high_h}")
    if width % fmt.align[0] or height % fmt.align[1]:
        raise MediaError(f"{fmt.name} needs a width multiple of {fmt.align[0]} and a height multiple of {fmt.align[1]}")
    check_strides(fmt, width, height, width_stride, height_stride, size, rules)


def check_strides(
    fmt: Format, width: int, height: int, width_stride: int, height_stride: int, size: int, rules: Family
) -> None:
    """The part of ``check`` about strides and the bytes of the buffer."""
    multiple = rules.stride[0] * (fmt.row_bytes if rules.stride[0] > 1 else 1)
    least_w, least_h = width * fmt.row_bytes, height
    if width_stride < max(least_w, rules.min_stride) or width_stride > limit("max_stride") or width_stride % multiple:
        raise MediaError(
            f"the width stride {width_stride} does not fit {fmt.name} of width {width}: it must be a multiple of "
            f"{multiple} from {max(up(least_w, multiple), rules.min_stride)} to {limit('max_stride')}"
        )
    if height_stride < max(least_h, limit("min_height_stride")) or height_stride > limit("max_stride"):
        raise MediaError(f"the height stride {height_stride} is below the height {height} (or not in 6 to 16384)")
    if height_stride % (rules.stride[1] if rules.stride[1] > 1 else fmt.sub[1]):
        raise MediaError(f"the height stride {height_stride} is no multiple of {max(rules.stride[1], fmt.sub[1])}")
    needed = fmt.size(width_stride, height_stride)
    if size < needed:
        raise MediaError(f"the buffer has {size} bytes; strides {width_stride} x {height_stride} take {needed}")
