"""Resize: the two-dimensional nearest and linear forms get their own GE operators, the rest is GE's general Resize."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import Attr, ge, lower_as, onnx, raise_as

_GENERAL = [
    Attr("coordinate_transformation_mode", "str", "half_pixel"),
    Attr("cubic_coeff_a", "float", -0.75),
    Attr("exclude_outside", "int", 0),
    Attr("extrapolation_value", "float", 0.0),
    Attr("mode", "str", "nearest"),
    Attr("nearest_mode", "str", "round_prefer_floor"),
    Attr("_antialias", "int", 0, onnx="antialias"),
    Attr("_axes", "ints", None, onnx="axes"),
    Attr("_keep_aspect_ratio_policy", "str", "stretch", onnx="keep_aspect_ratio_policy"),
]
_PLAIN = {"exclude_outside": 0, "antialias": 0, "axes": None, "keep_aspect_ratio_policy": "stretch"}
_FORMS = {"nearest": "ResizeNearestNeighborV2", "linear": "ResizeBilinearV2"}
_raise_general = raise_as("Resize", _GENERAL)


def _resize(e: Emit) -> object:
    """The special forms need a constant target and must leave batch and channels alone."""
    shape, out = e.shape(0), e.out_shape()
    mode = e.attr("coordinate_transformation_mode", "half_pixel")
    ge_type = _FORMS.get(e.attr("mode", "nearest"))
    plain = all(e.attr(k, v) == v for k, v in _PLAIN.items()) and mode != "tf_crop_and_resize"
    if ge_type is None or not plain or shape is None or out is None or len(shape) != 4 or shape[:2] != out[:2]:
        return _raise_general(e)
    scales = e.const(2)
    if scales is not None and scales.size == 0:
        scales = None
    if scales is None and e.ints(3) is None:
        return _raise_general(e)
    attrs = {
        "align_corners": int(mode == "align_corners"),
        "half_pixel_centers": int(mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")),
        "_coordinate_mode": mode,
        "_nearest_mode": e.attr("nearest_mode", "round_prefer_floor")
        if e.attr("mode", "nearest") == "nearest"
        else None,
        "_scales": None if scales is None else scales.tolist(),
    }
    return e.op(ge_type, [e.need(0), np.array(out[2:], np.int32)], attrs)


def _lower(onnx_mode: str) -> Convert:
    def lower(e: Emit) -> ir.Value:
        mode = e.attr("_coordinate_mode")
        if mode is None:
            mode = "align_corners" if e.attr("align_corners") else "asymmetric"
            mode = "half_pixel" if e.attr("half_pixel_centers") else mode
        attrs = {
            "mode": onnx_mode,
            "coordinate_transformation_mode": mode,
            "nearest_mode": e.attr("_nearest_mode", "floor") if onnx_mode == "nearest" else None,
        }
        scales, size, shape = e.attr("_scales"), e.ints(1), e.shape(0)
        if scales is not None:
            return e.op("Resize", [e.need(0), None, np.array(scales, np.float32)], attrs)
        if size is None or shape is None:
            raise e.reject("the target size is not constant")
        return e.op("Resize", [e.need(0), None, None, np.array([*shape[:2], *size], np.int64)], attrs)

    return lower


_SPECIAL = [
    Attr("align_corners", "bool", 0),
    Attr("half_pixel_centers", "bool", 0),
    Attr("_coordinate_mode", "str"),
    Attr("_nearest_mode", "str"),
    Attr("_scales", "floats"),
]
ge("ResizeNearestNeighborV2", "x size", _lower("nearest"), _SPECIAL, cost=Cost.GATHER, exact=True)
ge("ResizeBilinearV2", "x size", _lower("linear"), _SPECIAL, cost=Cost.GATHER)
ge("Resize", "x roi scales sizes", lower_as("Resize", _GENERAL), _GENERAL, cost=Cost.GATHER)
onnx("Resize", _resize, "ResizeNearestNeighborV2", "ResizeBilinearV2", "Resize")  # type: ignore[arg-type]
