"""One ``aipp_op`` of the configuration: its fields, their defaults and ranges, and the rules between them.

Source: public ATC manual (AIPP, configuration file template and its constraints).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, Final

import onnx_ir as ir

from asc_devkit.errors import Problem
from asc_devkit.ge.pictures import PICTURES, Picture

HALF_MAX: Final = 65504.0
MAX_PICTURE_BYTES: Final = 2**31 - 1
BIAS: Final = (16, 128, 128)
# Defaults of the colour matrix: BT.601 with the narrow range, YUV to BGR, or RGB to YUV for RGB pictures.
YUV_TO_BGR: Final = (298, 516, 0, 298, -100, -208, 298, 0, 409)
RGB_TO_YUV: Final = (66, 129, 25, -38, -74, 112, 112, -94, -18)

# Field (or the stem of numbered fields) -> least and greatest value. Sizes of 0 mean "as the model's input".
RANGES: Final[dict[str, tuple[float, float]]] = {
    "src_image_size_w": (0, 4096),
    "src_image_size_h": (0, 4096),
    "load_start_pos_w": (0, 4095),
    "load_start_pos_h": (0, 4095),
    "crop_size_w": (0, 4096),
    "crop_size_h": (0, 4096),
    "left_padding_size": (0, 32),
    "right_padding_size": (0, 32),
    "top_padding_size": (0, 32),
    "bottom_padding_size": (0, 32),
    "padding_value": (-HALF_MAX, HALF_MAX),
    "matrix_r": (-32768, 32767),
    "input_bias_": (0, 255),
    "output_bias_": (0, 255),
    "mean_chn_": (0, 255),
    "min_chn_": (0, 255),
    "var_reci_chn_": (-HALF_MAX, HALF_MAX),
}
# Reserved fields: what a value other than 0 would ask for.
RESERVED: Final[dict[str, str]] = {
    "resize": "scaling",
    "support_rotation": "rotation",
    "rotation_angle": "rotation",
    "single_line_mode": "single-line mode",
    "cpadding_value": "padding along the channels",
    "input_edge_idx": "a configuration for one reader of the input only",
}
_PLURAL: Final = {
    "matrix": tuple(f"matrix_r{row}c{column}" for row in range(3) for column in range(3)),
    "input_bias": tuple(f"input_bias_{i}" for i in range(3)),
    "output_bias": tuple(f"output_bias_{i}" for i in range(3)),
    "mean_chn": tuple(f"mean_chn_{i}" for i in range(4)),
    "min_chn": tuple(f"min_chn_{i}" for i in range(4)),
    "var_reci_chn": tuple(f"var_reci_chn_{i}" for i in range(4)),
}


@dataclass(frozen=True, slots=True)
class Aipp:
    """Static preprocessing of one input. Field names are the file's, numbered ones gathered in order (matrix by rows).

    Order of the work: ax swap, rbuv swap, crop, colour matrix, ``(x - mean - min) * var_reci``, padding.
    """

    input_format: str
    related_input_rank: int = 0
    related_input_name: str = ""
    src_image_size_w: int = 0
    src_image_size_h: int = 0
    rbuv_swap_switch: bool = False
    ax_swap_switch: bool = False
    crop: bool = False
    load_start_pos_w: int = 0
    load_start_pos_h: int = 0
    crop_size_w: int = 0
    crop_size_h: int = 0
    csc_switch: bool = False
    matrix: tuple[int, ...] = YUV_TO_BGR
    input_bias: tuple[int, ...] = BIAS
    output_bias: tuple[int, ...] = BIAS
    mean_chn: tuple[int, ...] = (0, 0, 0, 0)
    min_chn: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    var_reci_chn: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    padding: bool = False
    left_padding_size: int = 0
    right_padding_size: int = 0
    top_padding_size: int = 0
    bottom_padding_size: int = 0
    padding_value: float = 0.0

    @property
    def picture(self) -> Picture:
        return PICTURES[self.input_format]

    @property
    def order(self) -> tuple[int, ...]:
        """Which stored channel each channel of a pixel is after both swaps (NV12 pictures: of Y, U, V)."""
        order = list(range(self.picture.channels))
        if self.ax_swap_switch:  # the first channel goes to the end: XRGB -> RGBX
            order = order[1:] + order[:1]
        if self.rbuv_swap_switch and len(order) > 1:
            first, second = (1, 2) if self.picture.yuv else (0, 2)
            order[first], order[second] = order[second], order[first]
        return tuple(order)

    def attributes(self) -> dict[str, Any]:
        """Attributes of the ``Aipp`` operator: the whole configuration but for the input it belongs to."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("related_")}

    @classmethod
    def of_node(cls, node: ir.Node) -> Aipp:
        """The configuration an ``Aipp`` operator carries."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            if field.name in node.attributes:
                value = node.attributes[field.name].value
                given[field.name] = tuple(value) if isinstance(value, list | tuple) else value
        return cls(**given)


@dataclass(frozen=True, slots=True)
class DynamicAipp:
    """Dynamic preprocessing of one input: everything but the bytes that its pictures may take comes at run time."""

    max_src_image_size: int
    related_input_rank: int = 0
    related_input_name: str = ""


def from_message(
    message: Any, place: str, problems: list[Problem], mistaken: Collection[str] = ()
) -> Aipp | DynamicAipp | None:
    """The configuration of the parsed message; None, and the problems added, when it does not obey the manual.

    ``place`` says where it stands. ``mistaken`` fields could not be read and are not reported as missing, too.
    """
    found: list[Problem] = []

    def say(what: str, fix: str = "", *names: str) -> None:
        found.append(invalid(f"{place}: {what}", fix, names))

    if not message.HasField("aipp_mode"):
        if "aipp_mode" not in mistaken:
            say("aipp_mode is missing", "Add aipp_mode: static.", "aipp_mode")
    elif message.aipp_mode == message.dynamic:
        size = message.max_src_image_size
        if not 0 < size <= MAX_PICTURE_BYTES:
            what = "is missing" if not message.HasField("max_src_image_size") else f"is {size}"
            say(
                f"max_src_image_size {what}",
                f"Give the bytes of the largest pictures of a batch, at most {MAX_PICTURE_BYTES}.",
                "max_src_image_size",
            )
        problems += found
        return None if found else DynamicAipp(size, message.related_input_rank, message.related_input_name)
    if not message.HasField("input_format") and "input_format" not in mistaken:
        say("input_format is missing", f"Add input_format: with one of {', '.join(PICTURES)}.", "input_format")
    for field, value in message.ListFields():
        _check_range(field.name, value, say)
        if value and field.name in RESERVED:
            say(f"{field.name} asks for {RESERVED[field.name]}, which AIPP does not offer", "Remove it.", field.name)
    made = _build(message) if message.HasField("input_format") else None
    if made is not None:
        _check_rules(made, say)
    problems += found
    return None if found else made


def invalid(reason: str, fix: str = "", nodes: tuple[str, ...] = ()) -> Problem:
    """A mistake in the configuration."""
    return Problem(
        "E10052",
        f"AIPP configuration is invalid. Reason: {reason}.",
        cause="The file given with --insert_op_conf says something that AIPP cannot do, or that does not fit the model.",
        fix=fix or "See docs/aipp.md for the fields and their ranges.",
        nodes=nodes or ("--insert_op_conf",),
        seed_class="EE1052",
    )


def _check_range(name: str, value: Any, say: Any) -> None:
    stem = name if name in RANGES else next((s for s in RANGES if s[-1] in "_r" and name.startswith(s)), "")
    if not stem:
        return
    low, high = RANGES[stem]
    if not low <= value <= high:  # NaN is outside, too
        say(f"{name} is {value:g}, outside {low:g} to {high:g}", "", name)


def _build(message: Any) -> Aipp:
    picture = message.DESCRIPTOR.fields_by_name["input_format"].enum_type.values_by_number[message.input_format].name
    defaults = Aipp(picture, matrix=YUV_TO_BGR if PICTURES[picture].yuv else RGB_TO_YUV)
    given: dict[str, Any] = {"input_format": picture}
    for field in fields(Aipp):
        names = _PLURAL.get(field.name)
        default = getattr(defaults, field.name)
        if names is not None:
            pairs = zip(names, default, strict=True)
            given[field.name] = tuple(getattr(message, n) if message.HasField(n) else d for n, d in pairs)
        elif field.name != "input_format":
            given[field.name] = getattr(message, field.name) if message.HasField(field.name) else default
    for switch, prefixes in (
        ("crop", ("load_start_pos_", "crop_size_")),
        ("padding", ("left_", "right_", "top_", "bot")),
    ):
        if not given[switch]:  # the manual: sizes count only when the switch is on
            given.update({f.name: 0 for f in fields(Aipp) if f.name.startswith(prefixes)})
    return Aipp(**given)


def _check_rules(aipp: Aipp, say: Any) -> None:
    picture = aipp.picture
    width, height = aipp.src_image_size_w, aipp.src_image_size_h
    if width == 1:
        say("src_image_size_w is 1; pictures are at least 2 pixels wide", "", "src_image_size_w")
    if bool(width) != bool(height):
        say("only one of src_image_size_w and src_image_size_h is given", "Give both, or neither.", "src_image_size_w")
    if (aipp.crop or aipp.padding) and not (width and height):
        switch = "crop" if aipp.crop else "padding"
        say(f"{switch} needs src_image_size_w and src_image_size_h", "Give the size of the picture.", switch)
    if picture.name == "YUV420SP_U8":
        for name in ("src_image_size_w", "src_image_size_h", "load_start_pos_w", "load_start_pos_h"):
            if getattr(aipp, name) % 2:
                say(f"{name} is {getattr(aipp, name)}; YUV420SP_U8 needs an even number", "", name)
    if aipp.ax_swap_switch and picture.name != "XRGB8888_U8":
        say(f"ax_swap_switch moves a fourth channel, which {picture.name} has not", "Remove it.", "ax_swap_switch")
    if aipp.csc_switch and picture.channels == 1:
        say(f"csc_switch needs three channels, {picture.name} has one", "Set csc_switch: false.", "csc_switch")
    if aipp.crop and aipp.padding and not (aipp.crop_size_w and aipp.crop_size_h):
        say(
            "crop_size_w and crop_size_h must be given when padding follows", "Give both.", "crop_size_w", "crop_size_h"
        )
    if aipp.crop and width and height:
        for axis in "wh":
            start, size = getattr(aipp, f"load_start_pos_{axis}"), getattr(aipp, f"crop_size_{axis}")
            whole = getattr(aipp, f"src_image_size_{axis}")
            if start + max(size, 1) > whole:
                what = f"load_start_pos_{axis} {start} + crop_size_{axis} {size} passes src_image_size_{axis} {whole}"
                say(what, "Crop inside the picture.", f"crop_size_{axis}")
