"""The parameters of dynamic AIPP as a program sets them before a run, and as the bytes of the model's extra input.

One structure for all pictures of a batch (format, channel swaps, colour matrix, size), then one per picture (crop,
padding, normalisation). Little endian; ``min_chn`` and ``var_reci_chn`` are stored as fp16.

Source: public ATC manual, "Dynamic AIPP: structure of the parameter input" (kAippDynamicPara, kAippDynamicBatchPara).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.pictures import (
    MAX_PARAMETER_PICTURES,
    PARAMETER_HEAD_BYTES,
    PARAMETER_PICTURE_BYTES,
    PICTURES,
    Picture,
    parameter_bytes,
)
from asc_devkit.npu.numerics import Array

_HEAD: Final = struct.Struct("<B4b3xii9h6x6B2x16x")
_PICTURE: Final = struct.Struct("<4b4x12i4h8H16x")
_BY_CODE: Final = {picture.code: picture for picture in PICTURES.values()}
_NEUTRAL: Final = (0, 0, 0, 0), (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)


@dataclass
class PictureParameters:
    """What is done to one picture of the batch; names as in the configuration of static AIPP. The padding is black: the
    structure has no place for another value."""

    crop: bool = False
    load_start_pos_w: int = 0
    load_start_pos_h: int = 0
    crop_size_w: int = 0
    crop_size_h: int = 0
    padding: bool = False
    left_padding_size: int = 0
    right_padding_size: int = 0
    top_padding_size: int = 0
    bottom_padding_size: int = 0
    mean_chn: tuple[int, ...] = _NEUTRAL[0]
    min_chn: tuple[float, ...] = _NEUTRAL[1]
    var_reci_chn: tuple[float, ...] = _NEUTRAL[2]


@dataclass
class AippParameters:
    """Dynamic AIPP of one input: set the fields, then ``Session.set_aipp``.

    ``pictures`` holds one entry per picture of the batch, or a single one for all of them. Sizes are in pixels, colours
    in 256ths (``matrix`` by rows).
    """

    input_format: str
    src_image_size_w: int
    src_image_size_h: int
    rbuv_swap_switch: bool = False
    ax_swap_switch: bool = False
    csc_switch: bool = False
    matrix: tuple[int, ...] = (0,) * 9
    output_bias: tuple[int, ...] = (0, 0, 0)
    input_bias: tuple[int, ...] = (0, 0, 0)
    pictures: list[PictureParameters] = field(default_factory=lambda: [PictureParameters()])

    @property
    def picture(self) -> Picture:
        """Raises ``AscError`` (ASC4015) for a format AIPP does not read."""
        if self.input_format not in PICTURES:
            raise invalid(f"input_format is {self.input_format}", f"Use one of {', '.join(PICTURES)}.")
        return PICTURES[self.input_format]

    def of_batch(self, batch: int) -> list[PictureParameters]:
        """The parameters of each of ``batch`` pictures."""
        if len(self.pictures) == 1:
            return self.pictures * batch
        if len(self.pictures) < batch:
            raise invalid(f"there are parameters for {len(self.pictures)} pictures, the model takes {batch}")
        return self.pictures[:batch]

    def attributes(self, picture: PictureParameters) -> dict[str, Any]:
        """Attributes of the ``Aipp`` operator that does the same statically."""
        shared = {name: value for name, value in vars(self).items() if name != "pictures"}
        return {**shared, **vars(picture)}

    def pack(self, batch: int | None = None) -> Array:
        """uint8 [64 + 96 * batch], as the model's parameter input takes it. Raises ``AscError`` for numbers that do not
        fit their fields."""
        pictures = self.pictures if batch is None else self.of_batch(batch)
        if not 1 <= len(pictures) <= MAX_PARAMETER_PICTURES:
            raise invalid(
                f"there are {len(pictures)} pictures in the batch", f"1 to {MAX_PARAMETER_PICTURES} are possible."
            )
        try:
            head = _HEAD.pack(
                self.picture.code,
                self.csc_switch,
                self.rbuv_swap_switch,
                self.ax_swap_switch,
                len(pictures),
                self.src_image_size_w,
                self.src_image_size_h,
                *self.matrix,
                *self.output_bias,
                *self.input_bias,
            )
            made = head + b"".join(map(_pack, pictures))
        except (struct.error, ValueError, OverflowError) as error:
            raise invalid(f"a number does not fit its field ({error})") from error
        return np.frombuffer(made, np.uint8)

    @classmethod
    def unpack(cls, data: Array | bytes) -> AippParameters:
        """The parameters that the bytes of the input hold. Raises ``AscError`` (ASC4015) when they hold none."""
        raw = np.ascontiguousarray(np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data).tobytes()
        if len(raw) < parameter_bytes(1):
            raise invalid(f"the parameter input has {len(raw)} bytes, at least {parameter_bytes(1)} are needed")
        code, csc, rbuv, ax, count, width, height, *rest = _HEAD.unpack_from(raw)
        if code not in _BY_CODE:
            raise invalid(f"the parameter input holds no picture format ({code})")
        if count < 1 or parameter_bytes(count) > len(raw):
            raise invalid(f"the parameter input speaks of {count} pictures and has {len(raw)} bytes")
        starts = range(PARAMETER_HEAD_BYTES, parameter_bytes(count), PARAMETER_PICTURE_BYTES)
        return cls(
            _BY_CODE[code].name,
            width,
            height,
            bool(rbuv),
            bool(ax),
            bool(csc),
            tuple(rest[:9]),
            tuple(rest[9:12]),
            tuple(rest[12:15]),
            [_unpack(_PICTURE.unpack_from(raw, start)) for start in starts],
        )


def _pack(p: PictureParameters) -> bytes:
    halves = np.array([*p.min_chn, *p.var_reci_chn], np.float16)
    return _PICTURE.pack(
        p.crop, 0, p.padding, 0,
        p.load_start_pos_w, p.load_start_pos_h, p.crop_size_w, p.crop_size_h,
        0, 0, 0, 0,
        p.top_padding_size, p.bottom_padding_size, p.left_padding_size, p.right_padding_size,
        *p.mean_chn, *halves.view(np.uint16).tolist(),
    )  # fmt: skip


def _unpack(fields: Sequence[int]) -> PictureParameters:
    crop, scale, padding, rotation, left, top, width, height, *rest = fields
    if scale or rotation or padding not in (0, 1):
        raise invalid("scaling, rotation and padding by copying are asked for", "AIPP does not offer them.")
    up, down, before, behind = rest[4:8]
    halves = np.array(rest[12:20], np.uint16).view(np.float16).astype(np.float64).tolist()
    return PictureParameters(
        bool(crop), left, top, width, height,
        bool(padding), before, behind, up, down,
        tuple(rest[8:12]), tuple(halves[:4]), tuple(halves[4:]),
    )  # fmt: skip


def invalid(what: str, fix: str = "") -> AscError:
    """The error for parameters that cannot be carried out."""
    return AscError(
        Problem(
            "ASC4015",
            f"The dynamic AIPP parameters are invalid: {what}.",
            cause="They contradict each other or the model.",
            fix=fix or "See docs/aipp.md for the fields and their ranges.",
        )
    )
