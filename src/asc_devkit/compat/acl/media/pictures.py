"""VPC (crop, resize, paste, colour) and JPEG: queued in the order of the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.media.descriptions import (
    BatchDesc,
    JpegeConfig,
    PicDesc,
    ResizeConfig,
    Roi,
    channel,
    format_of,
    get,
    refused,
    rules,
)
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Task
from asc_devkit.npu.media import formats, pictures
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.vision import Area, Picture, move

UNKNOWN = 10000  # the format a JPEG itself has

__all__ = [
    *("dvpp_jpeg_decode_async", "dvpp_jpeg_encode_async", "dvpp_jpeg_get_image_info", "dvpp_jpeg_predict_dec_size"),
    *("dvpp_jpeg_predict_enc_size", "dvpp_png_decode_async", "dvpp_png_get_image_info", "dvpp_png_predict_dec_size"),
    *("dvpp_vpc_batch_crop_and_paste_async", "dvpp_vpc_batch_crop_async", "dvpp_vpc_convert_color_async"),
    *("dvpp_vpc_crop_and_paste_async", "dvpp_vpc_crop_async", "dvpp_vpc_resize_async"),
]


def _queue(stream: int, name: str, work: Callable[[], None], target: PicDesc) -> None:
    def run() -> None:
        try:
            work()
        except MediaError as error:
            target.ret_code = 1
            raise refused(error) from error
        target.ret_code = 0

    device.current().stream(stream).submit(Task("dvpp", name, run))


def _checked(handle: int, role: str) -> tuple[PicDesc, Picture]:
    found: PicDesc = get(handle, PicDesc)
    picture = found.picture("input picture" if role == "in" else "output picture")
    try:
        picture.check(rules(), role)
    except MediaError as error:
        raise refused(error) from error
    return found, picture


def _area(area: Area, picture: Picture, paste: bool = False) -> Area:
    try:
        area.check(picture.width, picture.height, rules(), paste)
    except MediaError as error:
        raise refused(error) from error
    return area


@call("acldvppVpcResizeAsync")
def dvpp_vpc_resize_async(
    channel_desc: int, input_desc: int, output_desc: int, resize_config: int, stream: int, /
) -> None:
    """The whole input picture at the size (and in the format) of the output."""
    channel(channel_desc)
    algorithm = get(resize_config, ResizeConfig).interpolation if resize_config else 0
    (_, source), (out, target) = _checked(input_desc, "in"), _checked(output_desc, "out")
    _queue(stream, "VpcResize", lambda: move(source, source.area, target, target.area, algorithm), out)


@call("acldvppVpcCropAsync")
def dvpp_vpc_crop_async(channel_desc: int, input_desc: int, output_desc: int, crop_area: int, stream: int, /) -> None:
    """An area of the input at the size of the output."""
    channel(channel_desc)
    (_, source), (out, target) = _checked(input_desc, "in"), _checked(output_desc, "out")
    crop = _area(get(crop_area, Roi).area, source)
    _queue(stream, "VpcCrop", lambda: move(source, crop, target, target.area), out)


@call("acldvppVpcCropAndPasteAsync")
def dvpp_vpc_crop_and_paste_async(
    channel_desc: int, input_desc: int, output_desc: int, crop_area: int, paste_area: int, stream: int, /
) -> None:
    """An area of the input into an area of the output, which keeps the rest of its bytes."""
    channel(channel_desc)
    (_, source), (out, target) = _checked(input_desc, "in"), _checked(output_desc, "out")
    crop, paste = _area(get(crop_area, Roi).area, source), _area(get(paste_area, Roi).area, target, True)
    _queue(stream, "VpcCropAndPaste", lambda: move(source, crop, target, paste), out)


@call("acldvppVpcConvertColorAsync")
def dvpp_vpc_convert_color_async(channel_desc: int, input_desc: int, output_desc: int, stream: int, /) -> None:
    """The input in the format of the output; both have one size."""
    channel(channel_desc)
    (_, source), (out, target) = _checked(input_desc, "in"), _checked(output_desc, "out")
    if (source.width, source.height) != (target.width, target.height):
        raise refused(MediaError("colour conversion keeps the size"))
    _queue(stream, "VpcConvertColor", lambda: move(source, source.area, target, target.area), out)


@call("acldvppVpcBatchCropAsync")
def dvpp_vpc_batch_crop_async(
    channel_desc: int,
    src_batch_desc: int,
    roi_nums: Sequence[int],
    size: int,
    dst_batch_desc: int,
    crop_areas: Sequence[int],
    stream: int,
    /,
) -> None:
    """``roi_nums[i]`` areas of input picture i, one output picture for each."""
    _batch(channel_desc, src_batch_desc, roi_nums, dst_batch_desc, crop_areas, None, stream, "VpcBatchCrop")


@call("acldvppVpcBatchCropAndPasteAsync")
def dvpp_vpc_batch_crop_and_paste_async(
    channel_desc: int,
    src_batch_desc: int,
    roi_nums: Sequence[int],
    size: int,
    dst_batch_desc: int,
    crop_areas: Sequence[int],
    paste_areas: Sequence[int],
    stream: int,
    /,
) -> None:
    """As the batch crop, each into an area of its output picture."""
    name = "VpcBatchCropAndPaste"
    _batch(channel_desc, src_batch_desc, roi_nums, dst_batch_desc, crop_areas, paste_areas, stream, name)


def _batch(
    channel_desc: int,
    sources: int,
    roi_nums: Sequence[int],
    targets: int,
    crop_areas: Sequence[int],
    paste_areas: Sequence[int] | None,
    stream: int,
    name: str,
) -> None:
    channel(channel_desc)
    src: BatchDesc = get(sources, BatchDesc)
    dst: BatchDesc = get(targets, BatchDesc)
    counts = [int(n) for n in roi_nums]
    total = sum(counts)
    if len(counts) != len(src.handles) or min(counts, default=0) < 0:
        raise refused(MediaError(f"{len(counts)} numbers of areas do not fit {len(src.handles)} input pictures"))
    if total != len(crop_areas) or total != len(dst.handles) or (paste_areas is not None and len(paste_areas) != total):
        raise refused(MediaError(f"{total} areas do not fit {len(dst.handles)} output pictures"))
    owners = [place for place, count in enumerate(counts) for _ in range(count)]
    for number, owner in enumerate(owners):
        (_, source), (out, target) = _checked(src.handles[owner], "in"), _checked(dst.handles[number], "out")
        crop = _area(get(crop_areas[number], Roi).area, source)
        paste = target.area if paste_areas is None else _area(get(paste_areas[number], Roi).area, target, True)
        _queue(stream, name, lambda s=source, c=crop, t=target, p=paste: move(s, c, t, p), out)  # type: ignore[misc]


# --- JPEG and PNG ---------------------------------------------------------------------------------------------------


def _bytes(address: int, size: int) -> bytes:
    return device.current().memory.array(address, size, "compressed picture").tobytes()


def _header(address: int, size: int, kind: str) -> pictures.Header:
    read = pictures.jpeg_header if kind == "jpeg" else pictures.png_header
    try:
        return read(_bytes(address, size))
    except MediaError as error:
        raise refused(error) from error


@call("acldvppJpegGetImageInfo", 0, 0, 0)
def dvpp_jpeg_get_image_info(data: int, size: int, /) -> tuple[int, int, int]:
    """Width, height and number of colour components of a JPEG in host memory."""
    found = _header(data, size, "jpeg")
    return found.width, found.height, found.components


@call("acldvppPngGetImageInfo", 0, 0)
def dvpp_png_get_image_info(data: int, size: int, /) -> tuple[int, int]:
    found = _header(data, size, "png")
    return found.width, found.height


@call("acldvppJpegPredictDecSize", 0)
def dvpp_jpeg_predict_dec_size(data: int, data_size: int, output_pixel_format: int, /) -> int:
    """Bytes the decoded picture takes."""
    return _decoded_size(_header(data, data_size, "jpeg"), output_pixel_format)


@call("acldvppPngPredictDecSize", 0)
def dvpp_png_predict_dec_size(data: int, data_size: int, output_pixel_format: int, /) -> int:
    return _decoded_size(_header(data, data_size, "png"), output_pixel_format)


def _decoded_size(header: pictures.Header, number: int) -> int:
    wanted = format_of(header.format if number == UNKNOWN else number)
    stride, rows = rules().jpegd
    return wanted.size(formats.up(header.width, stride) * wanted.row_bytes, formats.up(header.height, rows))


@call("acldvppJpegPredictEncSize", 0)
def dvpp_jpeg_predict_enc_size(input_desc: int, config: int, /) -> int:
    """Bytes to reserve for the JPEG of a picture."""
    found: PicDesc = get(input_desc, PicDesc)
    get(config, JpegeConfig)
    if found.width <= 0 or found.height <= 0:
        raise refused(MediaError("the picture has no size"))
    return formats.up(found.width, 16) * formats.up(found.height, 16) * 3 // 2 + 64 * 1024


@call("acldvppJpegDecodeAsync")
def dvpp_jpeg_decode_async(channel_desc: int, data: int, size: int, output_desc: int, stream: int, /) -> None:
    """A JPEG in device memory to the picture of ``output_desc``, whose width, height and strides are filled in."""
    _decode(channel_desc, data, size, output_desc, stream, "jpeg")


@call("acldvppPngDecodeAsync")
def dvpp_png_decode_async(channel_desc: int, data: int, size: int, output_desc: int, stream: int, /) -> None:
    _decode(channel_desc, data, size, output_desc, stream, "png")


def _decode(channel_desc: int, data: int, size: int, output_desc: int, stream: int, kind: str) -> None:
    channel(channel_desc)
    if kind == "png" and not rules().png:
        raise DeviceFault(
            "ACL_ERROR_FEATURE_UNSUPPORTED", "This chip has no PNG decoder.", fix="Use a chip that has one."
        )
    target: PicDesc = get(output_desc, PicDesc)
    raw = device.current().memory.array(data, size, "compressed picture")
    room = device.current().memory.array(target.data, target.size, "output picture")

    def work() -> None:
        body = raw.tobytes()
        header = pictures.jpeg_header(body) if kind == "jpeg" else pictures.png_header(body)
        wanted = formats.of(header.format if target.format == UNKNOWN else target.format)
        made = pictures.decode_jpeg(body, wanted) if kind == "jpeg" else pictures.decode_png(body, wanted)
        stride, rows = rules().jpegd
        width_stride = target.width_stride or formats.up(header.width, stride) * wanted.row_bytes
        height_stride = target.height_stride or formats.up(header.height, rows)
        if wanted.size(width_stride, height_stride) > len(room):
            raise MediaError(f"the output has {len(room)} bytes; {wanted.size(width_stride, height_stride)} are needed")
        target.width, target.height, target.format = made.width, made.height, wanted.value
        target.width_stride, target.height_stride = width_stride, height_stride
        Picture(room, wanted, made.width, made.height, width_stride, height_stride).put(made)

    _queue(stream, "JpegDecode" if kind == "jpeg" else "PngDecode", work, target)


@call("acldvppJpegEncodeAsync")
def dvpp_jpeg_encode_async(
    channel_desc: int, input_desc: int, data: int, size: int, config: int, stream: int, /
) -> None:
    """The picture as JPEG at ``data``. ``size``: address of a 32-bit number, the room there and then the bytes written."""
    channel(channel_desc)
    level = get(config, JpegeConfig).level
    found: PicDesc = get(input_desc, PicDesc)
    source = found.picture("input picture")
    memory = device.current().memory
    length = memory.array(size, 4, "size of the output").view(np.uint32)
    room = memory.array(data, int(length[0]), "output")

    def work() -> None:
        made = pictures.encode_jpeg(source.planes(), level)
        if len(made) > len(room):
            raise MediaError(f"the JPEG takes {len(made)} bytes; its buffer has {len(room)}")
        room[: len(made)] = np.frombuffer(made, np.uint8)
        length[0] = len(made)

    _queue(stream, "JpegEncode", work, found)
