"""Layers that change an image's size: Upsample, Interp, Reorg, PixelShuffle."""

from __future__ import annotations

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value

_LIMIT = 1 << 20


def _image(s: Site) -> tuple[int, int, int, int]:
    if len(s.x.shape) != 4:
        raise LayerError(f"its input has {len(s.x.shape)} axes, 4 are expected")
    n, c, h, w = s.x.shape
    return n, c, h, w


def _resized(s: Site, x: Value, height: int, width: int, mode: str, transform: str) -> Value:
    if not (0 < height <= _LIMIT and 0 < width <= _LIMIT):
        raise LayerError(f"its output would be {height} x {width}")
    shape = (*x.shape[:2], height, width)
    extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
    sizes = s.constant(list(shape), "sizes")
    return s.op("Resize", [x, None, None, sizes], shape, mode=mode, coordinate_transformation_mode=transform, **extra)


def upsample(s: Site) -> list[Value]:
    """Each pixel repeated ``scale`` times in both directions."""
    p = s.param("upsample_param")
    _, _, h, w = _image(s)
    if len(s.inputs) > 1:
        raise LayerError("unpooling with a mask of positions is not supported")
    scale = p.integer("scale", 2)
    high, wide = p.integer("scale_h", scale), p.integer("scale_w", scale)
    height, width = p.integer("upsample_h", h * high), p.integer("upsample_w", w * wide)
    return [_resized(s, s.x, height, width, "nearest", "asymmetric")]


def interp(s: Site) -> list[Value]:
    """Bilinear interpolation with the corner pixels kept in place (segmentation nets); padding cuts or adds borders."""
    p = s.param("interp_param")
    n, c, h, w = _image(s)
    begin, end = p.integer("pad_beg"), p.integer("pad_end")
    if max(abs(begin), abs(end)) > _LIMIT or min(h, w) + begin + end < 1:
        raise LayerError(f"pad_beg {begin} and pad_end {end} do not fit an image of {h} x {w}")
    x = s.x
    if begin or end:
        padded = (n, c, h + begin + end, w + begin + end)
        x = s.op("Pad", [x, s.constant([0, 0, begin, begin, 0, 0, end, end], "pads")], padded)
    height, width = x.shape[2], x.shape[3]
    shrink, zoom = p.integer("shrink_factor", 1), p.integer("zoom_factor", 1)
    if not (0 < shrink <= _LIMIT and 0 < zoom <= _LIMIT):
        raise LayerError(f"shrink_factor {shrink} and zoom_factor {zoom} must be positive")
    if len(s.inputs) > 1:
        height, width = s.input(1).shape[-2:]
    elif "height" in p and "width" in p:
        height, width = p.integer("height"), p.integer("width")
    else:
        height, width = ((v - 1) // shrink + 1 for v in (height, width))
        height, width = (v + (v - 1) * (zoom - 1) for v in (height, width))
    return [_resized(s, x, height, width, "linear", "align_corners")]


def reorg(s: Site) -> list[Value]:
    """Blocks of ``stride`` x ``stride`` pixels turned into channels in Darknet's order (YOLOv2's passthrough layer).

    Darknet reads the image as if it had 1 / stride^2 of the channels and ``stride`` times the height and width.
    """
    p = s.param("reorg_param")
    n, c, h, w = _image(s)
    t = p.integer("stride", 2)
    if p.flag("reverse"):
        raise LayerError("reverse: true is not supported")
    if t < 1 or c % (t * t) or h % t or w % t:
        raise LayerError(f"{list(s.x.shape)} cannot be reorganised with stride {t}")
    seen = s.reshape(s.x, (n, c // (t * t), h, t, w, t), "blocks")
    moved = s.transpose(seen, [0, 3, 5, 1, 2, 4])
    return [s.reshape(moved, (n, c * t * t, h // t, w // t))]


def pixel_shuffle(s: Site) -> list[Value]:
    """Channels spread over ``upscale_factor`` x ``upscale_factor`` pixels."""
    p = s.param("pixel_shuffle_param")
    n, c, h, w = _image(s)
    t = p.integer("upscale_factor", 1)
    if t < 1 or c % (t * t):
        raise LayerError(f"{c} channels cannot be spread over {t} x {t} pixels")
    return [s.op("DepthToSpace", [s.x], (n, c // (t * t), h * t, w * t), blocksize=t, mode="CRD")]


HANDLERS = {"Interp": interp, "PixelShuffle": pixel_shuffle, "Reorg": reorg, "Upsample": upsample}
