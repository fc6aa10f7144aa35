"""JPEG and PNG against Pillow and known pictures, video there and back."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from asc_devkit.npu.media import formats
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.pictures import decode_jpeg, decode_png, encode_jpeg, jpeg_header, png_header
from asc_devkit.npu.media.planes import Planes
from asc_devkit.npu.media.video import Decoder, Encoder

SUBSAMPLING = {"4:4:4": (0, 6), "4:2:2": (1, 4), "4:2:0": (2, 2)}


def scene(width: int = 96, height: int = 64) -> Image.Image:
    """Smooth gradients with some noise, so that chroma matters."""
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(1).integers(0, 8, (height, width))
    array = np.stack([x * 255 // width, y * 255 // height, (x + y + noise) % 256], -1).astype(np.uint8)
    return Image.fromarray(array)


def jpeg(image: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("name", SUBSAMPLING)
def test_headers_tell_size_and_source_format(name: str) -> None:
    sub, value = SUBSAMPLING[name]
    header = jpeg_header(jpeg(scene(101, 67), subsampling=sub))
    assert (header.width, header.height, header.components, header.format) == (101, 67, 3, value)
    gray = jpeg_header(jpeg(scene().convert("L")))
    assert (gray.components, gray.format) == (1, 0)


def test_luma_is_the_decoders_and_chroma_of_420_is_not_interpolated() -> None:
    """Blocks of constant chroma survive: the encoder averaged them, decoding at half size gives them back."""
    rng = np.random.default_rng(0)
    chroma = rng.integers(60, 200, (4, 6, 2)).repeat(8, 0).repeat(8, 1).astype(np.uint8)  # 8 x 8 samples each
    picture = Planes({"Y": rng.integers(0, 256, (64, 96), dtype=np.uint8), "U": chroma[:, :, 0], "V": chroma[:, :, 1]},
                     (2, 2))  # fmt: skip
    data = encode_jpeg(picture, 100)
    found = decode_jpeg(data, formats.of(1))
    theirs = np.asarray(Image.open(io.BytesIO(data)).convert("YCbCr"))
    with Image.open(io.BytesIO(data)) as image:
        image.draft("YCbCr", image.size)
        theirs = np.asarray(image)
    assert (found.values["Y"] == theirs[:, :, 0]).all()
    for name in "UV":
        assert np.abs(found.values[name].astype(int) - picture.values[name]).max() <= 1


@pytest.mark.parametrize("name", SUBSAMPLING)
def test_decoding_to_rgb_is_close_to_pillow(name: str) -> None:
    data = jpeg(scene(), subsampling=SUBSAMPLING[name][0], quality=95)
    theirs = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    found = decode_jpeg(data, formats.of(12))
    for index, letter in enumerate("RGB"):
        assert np.abs(found.values[letter].astype(int) - theirs[:, :, index]).mean() < 3


def test_odd_sizes_are_cut_down_for_420() -> None:
    found = decode_jpeg(jpeg(scene(101, 67)), formats.of(1))
    assert (found.width, found.height) == (100, 66)
    assert found.values["U"].shape == (33, 50)


def test_levels_trade_size_for_quality() -> None:
    picture = decode_jpeg(jpeg(scene(), quality=100), formats.of(1))
    sizes = [len(encode_jpeg(picture, level)) for level in (10, 50, 100)]
    assert sizes == sorted(sizes)
    assert len(encode_jpeg(picture, 0)) == sizes[-1]  # 0 means the best
    with pytest.raises(MediaError, match="level"):
        encode_jpeg(picture, 101)


def test_422_input_is_encoded_as_422() -> None:
    wide = decode_jpeg(jpeg(scene(), subsampling=1), formats.of(3))
    assert jpeg_header(encode_jpeg(wide, 90)).format == 4


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JPEG"),
        (b"\xff\xd8\xff\xd9", "no frame header"),
        (b"\xff\xd8\x00\x01\x02\x03", "damaged"),
        (b"\xff\xd8\xff\xc0\x00\x05\x08\x00\x10", "cut short"),
        (b"\xff\xd8\xff\xc9\x00\x11" + bytes(15), "arithmetic"),
        (jpeg(scene(20, 20)), "outside"),
        (jpeg(scene(), progressive=True), "progressive"),
        (jpeg(scene().convert("CMYK")), "components"),
        (jpeg(scene())[:700], "cannot be decoded"),
    ],
)
def test_jpegs_the_hardware_cannot_decode_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(MediaError, match=said):
        decode_jpeg(data, formats.of(1))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P"])
def test_pngs_come_out_as_they_went_in(mode: str) -> None:
    image = scene().convert(mode)
    data = png(image)
    header = png_header(data)
    letters = "RGBA" if mode in ("RGBA", "LA") else "RGB"
    assert (header.width, header.height) == (96, 64)
    assert header.format == (16 if letters == "RGBA" else 12)
    found = decode_png(data, formats.of(header.format))
    theirs = np.asarray(image.convert(letters))
    assert all((found.values[n] == theirs[:, :, i]).all() for i, n in enumerate(letters))


def test_bad_pngs_are_refused() -> None:
    with pytest.raises(MediaError, match="no PNG"):
        png_header(b"\x89PNG")
    body = b"IHDR" + struct.pack(">IIBBBBB", 1 << 30, 1 << 30, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(MediaError, match="outside"):
        decode_png(bomb, formats.of(12))
    with pytest.raises(MediaError, match="RGB_888"):
        decode_png(png(scene()), formats.of(1))


@pytest.mark.parametrize("coding", [0, 1, 2, 3])
def test_video_there_and_back(coding: int) -> None:
    """A bar that moves by 8 pixels each picture; every packet gives its own picture."""
    pictures = []
    for step in range(6):
        luma = np.full((64, 96), 60, np.uint8)
        luma[:, 8 * step : 8 * step + 16] = 200
        pictures.append(Planes({"Y": luma, "U": np.full((32, 48), 90, np.uint8), "V": np.full((32, 48), 170, np.uint8)},
                               (2, 2)))  # fmt: skip
    encoder, decoder = Encoder(coding, 96, 64, 16), Decoder(coding)
    packets = [p for picture in pictures for p in encoder.send(picture, False)] + encoder.flush()
    assert len(packets) == 6
    found = [f for packet in packets for f in decoder.send(packet)] + decoder.flush()
    assert len(found) == 6
    for got, wanted in zip(found, pictures, strict=True):
        assert np.abs(got.values["Y"].astype(int) - wanted.values["Y"]).mean() < 6
        assert abs(int(got.values["V"].mean()) - 170) < 4


def test_forced_key_pictures_are_larger() -> None:
    encoder = Encoder(2, 96, 64, 100)
    picture = decode_jpeg(jpeg(scene()), formats.of(1))
    sizes = [len(encoder.send(picture, index == 2)[0]) for index in range(4)]
    assert sizes[2] > 5 * sizes[1]


def test_bad_video_is_refused() -> None:
    with pytest.raises(MediaError, match="coding 9"):
        Decoder(9)
    with pytest.raises(MediaError, match="cannot be encoded"):
        Encoder(2, 97, 64, 16)
    assert Decoder(2).send(b"") == []
