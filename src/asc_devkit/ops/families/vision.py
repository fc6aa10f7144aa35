"""Operators of detection and image models."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Cost, Emit
from asc_devkit.ops.declare import AICPU, Attr, ge, onnx, rename

rename(
    "NonMaxSuppression",
    "NonMaxSuppressionV6",
    inputs="boxes scores max_output_size iou_threshold score_threshold",
    outputs="selected_indices",
    attrs=[Attr("center_point_box", "int", 0)],
    exact=True,
    **AICPU,
)


def _roi_align(e: Emit) -> ir.Value:
    """GE's boxes have five columns: the image they belong to, then the corners."""
    boxes, image = e.need(1), e.need(2)
    count = e.shape(1)
    image = e.op("Cast", [image], {"dst_type": int(boxes.dtype or 1)}, shape=e.shape(2), dtype=boxes.dtype)
    image = e.op("Unsqueeze", [image], {"axes": [1]}, shape=None if count is None else (count[0], 1))
    rows = e.op("ConcatD", [image, boxes], {"concat_dim": 1, "N": 2}, shape=None if count is None else (count[0], 5))
    mode = e.attr("coordinate_transformation_mode", "half_pixel")
    attrs = {
        "spatial_scale": e.attr("spatial_scale", 1.0),
        "pooled_height": e.attr("output_height", 1),
        "pooled_width": e.attr("output_width", 1),
        "sample_num": e.attr("sampling_ratio", 0),
        "roi_end_mode": _HALF_PIXEL if mode == "half_pixel" else 0,
        "pool_mode": e.attr("mode", "avg"),
    }
    return e.op("ROIAlign", [e.need(0), rows], attrs)


def _lower_roi_align(e: Emit) -> ir.Value:
    rows, first = e.need(1), np.array([1], np.int64)
    boxes = e.op("Slice", [rows, np.array([1], np.int64), np.array([5], np.int64), first])
    image = e.op("Gather", [rows, np.array(0, np.int64)], {"axis": 1})
    image = e.op("Cast", [image], {"to": int(ir.DataType.INT64)}, dtype=ir.DataType.INT64)
    attrs = {
        "spatial_scale": e.attr("spatial_scale"),
        "output_height": e.attr("pooled_height"),
        "output_width": e.attr("pooled_width"),
        "sampling_ratio": e.attr("sample_num"),
        "mode": e.attr("pool_mode"),
        "coordinate_transformation_mode": "half_pixel"
        if e.attr("roi_end_mode") == _HALF_PIXEL
        else "output_half_pixel",
    }
    return e.op("RoiAlign", [e.need(0), boxes, image], attrs)


_HALF_PIXEL = 2  # roi_end_mode: box corners are moved by half a pixel
ge(
    "ROIAlign",
    "features rois rois_n",
    _lower_roi_align,
    [
        Attr("spatial_scale", "float", 1.0),
        Attr("pooled_height", "int", 1),
        Attr("pooled_width", "int", 1),
        Attr("sample_num", "int", 2),
        Attr("roi_end_mode", "int", 1),
        Attr("pool_mode", "str", "avg"),
    ],
    cost=Cost.GATHER,
)
onnx("RoiAlign", _roi_align, "ROIAlign", "Cast", "Unsqueeze", "ConcatD")


def _max_roi_pool(e: Emit) -> ir.Value:
    height, width = e.attr("pooled_shape")
    scale = e.attr("spatial_scale", 1.0)
    attrs = {"pooled_h": height, "pooled_w": width, "spatial_scale_h": scale, "spatial_scale_w": scale}
    return e.op("ROIPooling", e.inputs, attrs)


def _lower_roi_pooling(e: Emit) -> ir.Value:
    shape = [e.attr("pooled_h"), e.attr("pooled_w")]
    return e.op("MaxRoiPool", e.inputs, {"pooled_shape": shape, "spatial_scale": e.attr("spatial_scale_h")})


ge("ROIPooling", "x rois", _lower_roi_pooling,
   [Attr("pooled_h", "int"), Attr("pooled_w", "int"),
    Attr("spatial_scale_h", "float"), Attr("spatial_scale_w", "float")],
   cost=Cost.POOL, exact=True)  # fmt: skip
onnx("MaxRoiPool", _max_roi_pool, "ROIPooling")


def _grid_sample(e: Emit) -> ir.Value:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(e.attr("mode", "linear"), e.attr("mode", "linear"))
    attrs = {
        "interpolation_mode": mode,
        "padding_mode": e.attr("padding_mode", "zeros"),
        "align_corners": e.attr("align_corners", 0),
    }
    return e.op("GridSampler3D" if e.rank(0) == 5 else "GridSampler2D", e.inputs, attrs)


def _lower_grid_sample(e: Emit) -> ir.Value:
    mode = e.attr("interpolation_mode")
    attrs = {
        "mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        "padding_mode": e.attr("padding_mode"),
        "align_corners": e.attr("align_corners"),
    }
    return e.op("GridSample", e.inputs, attrs)


_GRID = [
    Attr("interpolation_mode", "str", "bilinear"),
    Attr("padding_mode", "str", "zeros"),
    Attr("align_corners", "bool", 0),
]
ge("GridSampler2D", "x grid", _lower_grid_sample, _GRID, cost=Cost.GATHER)
ge("GridSampler3D", "x grid", _lower_grid_sample, _GRID, cost=Cost.GATHER)
onnx("GridSample", _grid_sample, "GridSampler2D", "GridSampler3D")
rename("AffineGrid", inputs="theta output_size", attrs=[Attr("align_corners", "bool", 0)])


def _col2im(e: Emit) -> ir.Value:
    block = e.ints(2)
    if block is None:
        raise e.reject("the block shape is computed at run time", "Use a constant block shape.")
    count = len(block)
    attrs = {
        "kernel_size": block,
        "dilation": e.attr("dilations", [1] * count),
        "padding": e.attr("pads", [0] * (2 * count)),
        "stride": e.attr("strides", [1] * count),
    }
    return e.op("Col2ImV2", [e.need(0), e.need(1)], attrs)


def _lower_col2im(e: Emit) -> ir.Value:
    block = np.array(e.attr("kernel_size"), np.int64)
    attrs = {"dilations": e.attr("dilation"), "pads": e.attr("padding"), "strides": e.attr("stride")}
    return e.op("Col2Im", [e.need(0), e.need(1), block], attrs)


ge("Col2ImV2", "x output_size", _lower_col2im,
   [Attr("kernel_size", "ints"), Attr("dilation", "ints"), Attr("padding", "ints"), Attr("stride", "ints")],
   cost=Cost.MOVEMENT)  # fmt: skip
onnx("Col2Im", _col2im, "Col2ImV2")
