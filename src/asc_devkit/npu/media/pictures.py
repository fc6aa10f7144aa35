"""JPEG and PNG: header facts read here, pixels by Pillow (extra ``media``), with the limits of the hardware decoders."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.npu.media import colour, formats
from asc_devkit.npu.media.formats import Format, MediaError
from asc_devkit.npu.media.planes import Planes

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_SEMI: Final = {(2, 2): 2, (2, 1): 4, (1, 1): 6, (1, 2): 1001}  # source formats keep V before U


@dataclass(frozen=True)
class Header:
    """Size and make of a compressed picture. ``format``: the pixel format that keeps the source's own layout."""

    width: int
    height: int
    components: int
    format: int
    progressive: bool = False


def jpeg_header(data: bytes | memoryview) -> Header:
    """Facts from the frame header. Raises ``MediaError`` for what is no JPEG of Huffman-coded 8-bit YUV or gray."""
    raw = memoryview(data)
    if len(raw) < 4 or raw[0] != 0xFF or raw[1] != 0xD8:
        raise MediaError("the data are no JPEG")
    at = 2
    while at + 4 <= len(raw):
        if raw[at] != 0xFF:
            raise MediaError(f"the JPEG is damaged at byte {at}")
        marker = raw[at + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD7:  # filling and markers without a length
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", raw, at + 2)
        if length < 2 or marker == 0xD9:
            break
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _frame(raw[at + 4 : at + 2 + length], marker)
        at += 2 + length
    raise MediaError("the JPEG has no frame header")


def _frame(body: memoryview, marker: int) -> Header:
    if marker not in (0xC0, 0xC1, 0xC2):
        raise MediaError("the JPEG is lossless or arithmetic-coded, which the hardware does not decode")
    if len(body) < 6 or len(body) < 6 + 3 * body[5]:
        raise MediaError("the JPEG's frame header is cut short")
    depth, height, width, count = struct.unpack_from(">BHHB", body)
    if depth != 8 or count not in (1, 3) or not width or not height:
        raise MediaError(f"a JPEG of {width} x {height} with {count} components of {depth} bits is not supported")
    factors = [(body[7 + 3 * i] >> 4, body[7 + 3 * i] & 15) for i in range(count)]
    if count == 1:
        return Header(width, height, 1, 0, marker == 0xC2)
    chroma = factors[1]
    if 0 in (*chroma, *factors[2]) or factors[1] != factors[2]:
        raise MediaError("the JPEG's sampling factors are not supported")
    sub = factors[0][0] // chroma[0], factors[0][1] // chroma[1]
    if sub not in _SEMI:
        raise MediaError(f"a JPEG with chroma every {sub[0]} x {sub[1]} pixels is not supported")
    return Header(width, height, 3, _SEMI[sub], marker == 0xC2)


def png_header(data: bytes | memoryview) -> Header:
    """Facts from IHDR. Raises ``MediaError``."""
    raw = bytes(data[:33])
    if len(raw) < 33 or raw[:8] != PNG_SIGNATURE or raw[12:16] != b"IHDR":
        raise MediaError("the data are no PNG")
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    channels = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}.get(kind)
    if channels is None or depth not in (1, 2, 4, 8, 16) or not width or not height:
        raise MediaError(f"a PNG of {width} x {height}, colour type {kind} and depth {depth} is not valid")
    return Header(width, height, channels, 16 if kind in (4, 6) else 12)


def check_size(header: Header, kind: str) -> None:
    """Raise ``MediaError`` when the hardware does not decode pictures of this size. ``kind``: ``jpeg`` or ``png``."""
    low_w, low_h, high_w, high_h = formats.limit(kind)
    if not (low_w <= header.width <= high_w and low_h <= header.height <= high_h):
        raise MediaError(
            f"{header.width} x {header.height} is outside {low_w} x {low_h} to {high_w} x {high_h} of {kind.upper()}"
        )


def decode_jpeg(data: bytes | memoryview, fmt: Format) -> Planes:
    """The picture in ``fmt`` (YUV or RGB); width and height cut down to the multiples ``fmt`` needs.

    Luma is the decoder's own; chroma of 4:2:0 sources is too (decoded at half size, where it needs no scaling), that
    of other subsampled sources has passed through the decoder's interpolation. Raises ``MediaError``.
    """
    header = jpeg_header(data)
    check_size(header, "jpeg")
    if header.progressive:
        raise MediaError("the JPEG is progressive, which the hardware does not decode")
    planes = _yuv(bytes(data), header)
    width, height = (n - n % a for n, a in zip((header.width, header.height), fmt.align, strict=True))
    return colour.convert(planes.crop(0, 0, width, height), fmt)


def encode_jpeg(planes: Planes, level: int) -> bytes:
    """JPEG of a YUV picture, 4:2:0, or 4:2:2 for such input. ``level``: quality 1 to 100; 0 means 100."""
    if not 0 <= level <= 100:
        raise MediaError(f"the level {level} is not in 0 to 100")
    wide = planes.sub == (2, 1)
    full = colour.convert(planes, formats.of(5))
    array = np.stack([full.values[n] for n in "YUV"], axis=-1)
    out = io.BytesIO()
    image = pillow().fromarray(array, mode="YCbCr")
    image.save(out, "JPEG", quality=level or 100, subsampling=1 if wide else 2)
    return out.getvalue()


def decode_png(data: bytes | memoryview, fmt: Format) -> Planes:
    """The picture as RGB888 or RGBA8888. Raises ``MediaError``."""
    header = png_header(data)
    check_size(header, "png")
    if fmt.order not in ("RGB", "RGBA"):
        raise MediaError(f"PNG pictures are decoded to RGB_888 or RGBA_8888, not {fmt.name}")
    array = _pixels(bytes(data), "PNG", fmt.order)
    return Planes({name: array[:, :, i] for i, name in enumerate(fmt.order)})


def _yuv(data: bytes, header: Header) -> Planes:
    if header.components == 1:
        return Planes({"Y": _pixels(data, "JPEG", "L")})
    whole = _pixels(data, "JPEG", "YCbCr")
    if header.format != 2:
        return Planes({name: whole[:, :, i] for i, name in enumerate("YUV")})
    half = _pixels(data, "JPEG", "YCbCr", (max(header.width // 2, 1), max(header.height // 2, 1)))
    rows, columns = -(-header.height // 2), -(-header.width // 2)
    chroma = {name: half[:rows, :columns, i] for i, name in ((1, "U"), (2, "V"))}
    if half.shape[:2] != (rows, columns):  # another libjpeg: interpolated chroma is better than none
        return Planes({name: whole[:, :, i] for i, name in enumerate("YUV")})
    return Planes({"Y": whole[:, :, 0], **chroma}, (2, 2))


def _pixels(data: bytes, kind: str, mode: str, size: tuple[int, int] | None = None) -> Any:
    """Pixels by Pillow, JPEGs without detour through RGB; ``size``: decode at the nearest scale not below it."""
    image_module = pillow()
    try:
        with image_module.open(io.BytesIO(data), formats=[kind]) as image:
            if kind == "JPEG":
                image.draft(mode, size or image.size)
            return np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise MediaError(f"the {kind} cannot be decoded: {str(error)[:200]}") from error


def pillow() -> Any:
    """Pillow's Image module. Raises ``MediaError`` naming the extra when it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MediaError("pictures need Pillow: pip install 'asc-devkit[media]'") from error
    return Image
