"""Layers of detectors: PriorBox, ROIPooling."""

from __future__ import annotations

import math

import numpy as np

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value

_MAX_BOXES = 1 << 22


def prior_box(s: Site) -> list[Value]:
    """Boxes of several sizes and aspect ratios at every cell of the first input, as fractions of the second (the image).

    [1, 2, boxes * 4]: corners xmin, ymin, xmax, ymax, then variances. Per cell: each min_size as a square, the geometric
    mean of min and max size as a square, then the other aspect ratios at min_size (SSD, Liu et al. 2016).
    """
    p = s.param("prior_box_param")
    if len(s.x.shape) != 4 or len(s.input(1).shape) != 4:
        raise LayerError("its bottoms must be images of 4 axes")
    least, most = p.numbers("min_size"), p.numbers("max_size")
    if not least or (most and len(most) != len(least)) or min([*least, *most]) <= 0:
        raise LayerError(f"min_size {least} and max_size {most} do not fit together")
    ratios = [1.0]
    flip = p.flag("flip", True)
    for ratio in p.numbers("aspect_ratio"):
        if ratio <= 0:
            raise LayerError(f"aspect_ratio {ratio} is not positive")
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    variances = p.numbers("variance") or [0.1]
    if len(variances) not in (1, 4):
        raise LayerError(f"{len(variances)} variances are given, 1 or 4 are possible")
    rows, columns = s.x.shape[2:]
    size = p.integer("img_size")
    high, wide = p.integer("img_h", size) or s.input(1).shape[2], p.integer("img_w", size) or s.input(1).shape[3]
    step = p.number("step")
    step_h, step_w = p.number("step_h", step) or high / rows, p.number("step_w", step) or wide / columns
    extents: list[tuple[float, float]] = []
    for index, small in enumerate(least):
        extents.append((small, small))
        if most:
            extents.append((math.sqrt(small * most[index]),) * 2)
        extents += [(small * math.sqrt(r), small / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
    if rows * columns * len(extents) > _MAX_BOXES:
        raise LayerError(f"it would make {rows * columns * len(extents)} boxes")
    offset = p.number("offset", 0.5)
    y, x = np.meshgrid((np.arange(rows) + offset) * step_h, (np.arange(columns) + offset) * step_w, indexing="ij")
    centre = np.stack([x, y, x, y], -1)[:, :, None]
    half = np.array([[-w / 2, -h / 2, w / 2, h / 2] for w, h in extents])
    boxes = ((centre + half) / np.array([wide, high, wide, high])).reshape(-1)
    if p.flag("clip"):
        boxes = boxes.clip(0, 1)
    spread = np.resize(np.array(variances), boxes.size)
    data = np.stack([boxes, spread])[None].astype(np.float32)
    return [s.op("Identity", [s.constant(data, "boxes")], data.shape)]


def roi_pooling(s: Site) -> list[Value]:
    """Maximum over a grid of each region [image, x1, y1, x2, y2] (Fast R-CNN)."""
    p = s.param("roi_pooling_param")
    regions = s.input(1)
    high, wide = p.integer("pooled_h"), p.integer("pooled_w")
    if math.prod(regions.shape) != regions.shape[0] * 5 or len(s.x.shape) != 4 or min(high, wide) < 1:
        raise LayerError(f"regions {list(regions.shape)} on {list(s.x.shape)} into {high} x {wide} are not possible")
    rois = s.reshape(regions, (regions.shape[0], 5), "regions")
    shape = (regions.shape[0], s.x.shape[1], high, wide)
    return [
        s.op("MaxRoiPool", [s.x, rois], shape, pooled_shape=[high, wide], spatial_scale=p.number("spatial_scale", 1.0))
    ]


HANDLERS = {"PriorBox": prior_box, "ROIPooling": roi_pooling}
