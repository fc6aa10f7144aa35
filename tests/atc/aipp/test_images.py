"""AIPP on whole pictures against Pillow and against the standards' formulas in floating point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from asc_devkit.atc.aipp import in_floats, load
from tests.atc.aipp.compiled import GREY, JPEG, nv12, preprocessed


def _photo(height: int, width: int, seed: int = 0) -> Image.Image:
    """A picture with every colour in it: smooth gradients with noise."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (6, 8, 3), np.uint8)
    noise = rng.integers(-20, 21, (height, width, 3))
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return Image.fromarray((smooth + noise).clip(0, 255).astype(np.uint8))


def _halved(yuv: np.ndarray) -> np.ndarray:
    """Chroma of the upper left pixel in each 2 x 2 block, as an NV12 picture holds it."""
    made = yuv.copy()
    made[..., 1:] = made[::2, ::2, 1:].repeat(2, axis=0).repeat(2, axis=1)
    return made


def test_jpeg_colours_differ_from_pillows_by_one_level_at_most(tmp_path: Path) -> None:
    yuv = _halved(np.asarray(_photo(48, 64).convert("YCbCr")))
    expected = np.asarray(Image.fromarray(yuv, "YCbCr").convert("RGB")).astype(int)
    got = preprocessed(tmp_path, f"input_format: YUV420SP_U8 {JPEG}", nv12(yuv), (1, 3, 48, 64))
    assert np.abs(got[0].transpose(1, 2, 0) - expected).max() <= 1  # Pillow rounds down
    y, cb, cr = (yuv[..., i].astype(float) - (128 if i else 0) for i in range(3))
    exact = np.stack([y + 1.402 * cr, y - 0.344136 * cb - 0.714136 * cr, y + 1.772 * cb]).clip(0, 255)  # JFIF
    assert np.abs(got[0] - exact).max() <= 0.7  # half a level of rounding, the rest is the 8 bits of the matrix


@pytest.mark.parametrize(
    ("fields", "kr", "kb"),
    [
        ("csc_switch: true", 0.299, 0.114),  # BT.601, the default matrix, BGR
        (
            "csc_switch: true matrix_r0c0: 298 matrix_r0c1: 541 matrix_r0c2: 0 matrix_r1c0: 298 matrix_r1c1: -55"
            " matrix_r1c2: -136 matrix_r2c0: 298 matrix_r2c1: 0 matrix_r2c2: 459",
            0.2126,
            0.0722,
        ),  # BT.709
    ],
)
def test_narrow_range_video_follows_the_standard_within_one_level(
    tmp_path: Path, fields: str, kr: float, kb: float
) -> None:
    rng = np.random.default_rng(1)
    yuv = _halved(np.dstack([rng.integers(16, 236, (40, 40)), rng.integers(16, 241, (40, 40, 2))]).astype(np.uint8))
    y, cb, cr = (yuv[..., i].astype(float) for i in range(3))
    y, cb, cr = (y - 16) / 219, (cb - 128) / 112, (cr - 128) / 112  # the standard's own definition
    red, blue = y + (1 - kr) * cr, y + (1 - kb) * cb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    expected = np.stack([blue, green, red]).clip(0, 1) * 255
    got = preprocessed(tmp_path, f"input_format: YUV420SP_U8 {fields}", nv12(yuv), (1, 3, 40, 40))
    assert np.abs(got[0] - expected).max() <= 1.3  # half a level of rounding, the rest is the 8 bits of the matrix


def test_grey_differs_from_pillows_by_one_level_at_most(tmp_path: Path) -> None:
    photo = _photo(32, 48)
    got = preprocessed(tmp_path, f"input_format: RGB888_U8 {GREY}", np.asarray(photo)[None], (1, 1, 32, 48))
    assert np.abs(got[0, 0] - np.asarray(photo.convert("L"))).max() <= 1


def test_crop_and_padding_place_pixels_as_pillow_does(tmp_path: Path) -> None:
    photo = _photo(60, 80)
    fields = """input_format: RGB888_U8 src_image_size_w: 80 src_image_size_h: 60
      crop: true load_start_pos_w: 11 load_start_pos_h: 7 crop_size_w: 40 crop_size_h: 30
      padding: true left_padding_size: 3 right_padding_size: 5 top_padding_size: 2 bottom_padding_size: 32 padding_value: 114"""
    got = preprocessed(tmp_path, fields, np.asarray(photo)[None], (1, 3, 64, 48))
    expected = ImageOps.expand(photo.crop((11, 7, 51, 37)), (3, 2, 5, 32), fill=(114, 114, 114))
    assert got[0].transpose(1, 2, 0).tolist() == np.asarray(expected).tolist()


def test_cropping_nv12_keeps_each_pixel_with_its_own_chroma(tmp_path: Path) -> None:
    yuv = _halved(np.asarray(_photo(32, 48).convert("YCbCr")))
    fields = """input_format: YUV420SP_U8 src_image_size_w: 48 src_image_size_h: 32
      crop: true load_start_pos_w: 6 load_start_pos_h: 10 crop_size_w: 21 crop_size_h: 13"""
    got = preprocessed(tmp_path, fields, nv12(yuv), (1, 3, 13, 21))
    assert got[0].transpose(1, 2, 0).tolist() == yuv[10:23, 6:27].tolist()


@pytest.mark.parametrize("picture", ["RGB888_U8", "XRGB8888_U8", "YUV420SP_U8"])
def test_the_float_form_agrees_within_the_rounding_of_bytes_and_fp16(tmp_path: Path, picture: str) -> None:
    """Two implementations, ONNX in integers and numpy in floats, of every switch at once."""
    rng = np.random.default_rng(2)
    ax = "ax_swap_switch: true" if picture[0] == "X" else ""
    fields = f"""input_format: {picture} {ax} rbuv_swap_switch: true csc_switch: true
      src_image_size_w: 20 src_image_size_h: 16 crop: true load_start_pos_w: 2 load_start_pos_h: 4
      crop_size_w: 15 crop_size_h: 9 padding: true left_padding_size: 1 bottom_padding_size: 2 padding_value: 1.5
      mean_chn_0: 12 min_chn_0: 0.7 min_chn_1: 100.1 var_reci_chn_0: 0.017 var_reci_chn_2: -0.25"""
    shape = {"RGB888_U8": (2, 16, 20, 3), "XRGB8888_U8": (2, 16, 20, 4), "YUV420SP_U8": (2, 24, 20, 1)}[picture]
    pictures = rng.integers(0, 256, shape, np.uint8)
    got = preprocessed(tmp_path, fields, pictures, (2, 3, 11, 16))
    expected = in_floats(load(tmp_path / "aipp.cfg")[0], pictures, 3)
    assert expected.shape == got.shape and expected.dtype == np.float32
    slack = np.array([0.017, 1, 0.25])[None, :, None, None]  # one level, times the factor
    assert (np.abs(got - expected) <= 0.55 * slack + np.abs(expected) * 2e-3 + 1e-3).all()
