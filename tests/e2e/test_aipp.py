"""A real model converted with AIPP against the same preprocessing done before the plain model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags
from tests.atc.aipp.compiled import JPEG, nv12
from tests.e2e.converted import convert, cosine
from tests.models import REAL_MODELS

Array = np.ndarray[Any, Any]
KEY = "ppocr_cls"  # [1, 3, 48, 192], BGR, (x / 255 - 0.5) / 0.5
NORMALISE = "min_chn_0: 127.5 min_chn_1: 127.5 min_chn_2: 127.5 " + " ".join(
    f"var_reci_chn_{i}: 0.00784313725490196" for i in range(3)
)
LEFT, TOP = 10, 6


@pytest.fixture(scope="module")
def page() -> Array:
    """Text on a coloured ground, larger than the model's input: uint8 RGB [64, 216, 3]."""
    image = Image.new("RGB", (216, 64), (235, 240, 220))
    font = ImageFont.load_default(26)
    ImageDraw.Draw(image).text((LEFT + 6, TOP + 8), "Hello Ascend", fill=(40, 20, 90), font=font)
    return np.asarray(image)


def _with_aipp(folder: Path, fields: str) -> npu.Session:
    (folder / "aipp.cfg").write_text(f"aipp_op {{ aipp_mode: static {fields} {NORMALISE} }}")
    model = REAL_MODELS[KEY]
    flags = {
        "model": str(model.path),
        "framework": "5",
        "output": str(folder / "cls"),
        "soc_version": "Ascend310P3",
        "input_shape": model.input_shape,
        "insert_op_conf": str(folder / "aipp.cfg"),
    }
    return npu.load(atc.compile(from_flags(flags)).om_path, threads=1, cache=False)


def _plain(x: Array) -> Array:
    session = npu.load(convert(KEY, "Ascend310P3").om_path, threads=1, cache=False)
    (value,) = session.run({"x": np.ascontiguousarray(x)}).values()
    return value


def _planes(pixels: Array) -> Array:
    return pixels.transpose(2, 0, 1)[None]


def test_rgb_pictures_give_bit_for_bit_what_fp16_preprocessing_gives(tmp_path: Path, page: Array) -> None:
    fields = f"""input_format: RGB888_U8 rbuv_swap_switch: true src_image_size_w: 216 src_image_size_h: 64
      crop: true load_start_pos_w: {LEFT} load_start_pos_h: {TOP}"""
    (got,) = _with_aipp(tmp_path, fields).run([page[None]]).values()
    cut = page[TOP : TOP + 48, LEFT : LEFT + 192, ::-1]
    in_half = (cut.astype(np.float16) - np.float16(127.5)) * np.float16(1 / 127.5)
    assert in_half.dtype == np.float16
    assert got.tolist() == _plain(_planes(in_half).astype(np.float32)).tolist()
    in_float = (cut.astype(np.float32) / 255 - 0.5) / 0.5
    assert np.abs(got - _plain(_planes(in_float))).max() < 2e-3
    assert cosine(got, _plain(_planes(in_float))) > 0.99999


def test_camera_pictures_give_what_their_rgb_picture_gives(tmp_path: Path, page: Array) -> None:
    yuv = np.asarray(Image.fromarray(page).convert("YCbCr")).copy()
    yuv[..., 1:] = yuv[::2, ::2, 1:].repeat(2, axis=0).repeat(2, axis=1)
    rows = (
        JPEG.replace("r0c", "r9c").replace("r2c", "r0c").replace("r9c", "r2c")
    )  # BGR: first and last row change places
    fields = f"""input_format: YUV420SP_U8 src_image_size_w: 216 src_image_size_h: 64 {rows}
      crop: true load_start_pos_w: {LEFT} load_start_pos_h: {TOP}"""
    (got,) = _with_aipp(tmp_path, fields).run([nv12(yuv)]).values()
    y, cb, cr = (yuv[..., i].astype(np.float64) - (128 if i else 0) for i in range(3))
    bgr = np.dstack([y + 1.772 * cb, y - 0.344136 * cb - 0.714136 * cr, y + 1.402 * cr]).clip(0, 255)
    cut = (bgr[TOP : TOP + 48, LEFT : LEFT + 192] - 127.5) / 127.5
    expected = _plain(_planes(cut).astype(np.float32))
    assert np.abs(got - expected).max() < 5e-3
    assert cosine(got, expected) > 0.9999
