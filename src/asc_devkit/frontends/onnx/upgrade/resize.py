"""Adapters for Upsample and Resize."""

from __future__ import annotations

import numpy as np

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal


def upsample_1(e: Edit) -> None:
    """Upsample-1 gave one factor each for height and width of an NCHW input."""
    height, width = e.pop("height_scale"), e.pop("width_scale")
    e.set("scales", [1.0, 1.0, height, width])


def upsample_7(e: Edit) -> None:
    e.inputs(e.input(0), np.array(e.pop("scales"), np.float32))


def upsample_to_resize(e: Edit) -> None:
    """Upsample kept the corner of the first pixel and rounded down."""
    mode = e.attr("mode", "nearest")
    attributes = {
        "mode": "linear" if mode == "bilinear" else mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    e.rename("Resize", [e.input(0), None, e.input(1)], attributes)


def resize_10(e: Edit) -> None:
    """Resize-10 left the rounding of "nearest" open; runtimes round down when enlarging and up when shrinking."""
    mode = e.attr("mode", "nearest")
    e.set("coordinate_transformation_mode", "asymmetric")
    if mode == "nearest":
        scales = e.const(1)
        if scales is None:
            raise Refusal("its scales are computed, so how it rounds is not known; export with opset 11 or later")
        if (scales >= 1).all():
            e.set("nearest_mode", "floor")
        elif (scales <= 1).all():
            e.set("nearest_mode", "ceil")
        else:
            raise Refusal("it enlarges one axis and shrinks another; export with opset 11 or later")
    e.inputs(e.input(0), None, e.input(1))


def resize_11(e: Edit) -> None:
    """13 dropped ``tf_half_pixel_for_nn``, which is half_pixel rounded differently, and allows absent inputs."""
    if e.attr("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        rounding = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
        new = rounding.get(e.attr("nearest_mode", "round_prefer_floor"))
        if e.attr("mode", "nearest") != "nearest" or new is None:
            raise Refusal("coordinate_transformation_mode=tf_half_pixel_for_nn has no equal in this combination")
        e.set("coordinate_transformation_mode", "half_pixel")
        e.set("nearest_mode", new)
    scales, sizes = e.const(2), e.input(3)
    if sizes is not None and scales is not None and scales.size == 0:
        e.inputs(e.input(0), e.input(1), None, sizes)
