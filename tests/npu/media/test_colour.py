"""Colour conversion against the standards computed in floating point, and against Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from asc_devkit.npu.media import colour, formats
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.planes import Planes

# ITU-R: luma coefficients (Kr, Kb) and the range of the digital signal
STANDARDS = {0: (0.299, 0.114, True), 1: (0.299, 0.114, False), 2: (0.2126, 0.0722, True), 3: (0.2126, 0.0722, False),
             4: (0.2627, 0.0593, True), 5: (0.2627, 0.0593, False)}  # fmt: skip


def every_colour() -> Planes:
    levels = np.arange(0, 256, 15, dtype=np.uint8)
    grid = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(-1, 18 * 3, 3)
    return Planes({name: grid[:, :, i] for i, name in enumerate("RGB")})


def standard_yuv(rgb: Planes, number: int) -> np.ndarray:
    kr, kb, full = STANDARDS[number]
    r, g, b = (rgb.values[n].astype(np.float64) for n in "RGB")
    y = kr * r + (1 - kr - kb) * g + kb * b
    u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
    if not full:
        y, u, v = 16 + y * 219 / 255, u * 224 / 255, v * 224 / 255
    return np.stack([y, u + 128, v + 128], -1)


@pytest.mark.parametrize("number", sorted(STANDARDS))
def test_rgb_to_yuv_is_the_standard_rounded_down(number: int) -> None:
    rgb = every_colour()
    found = colour.convert(rgb, formats.of(5), number)
    wanted = standard_yuv(rgb, number)
    got = np.stack([found.values[n] for n in "YUV"], -1)
    assert np.abs(got - np.clip(np.floor(wanted), 0, 255)).max() <= 1


@pytest.mark.parametrize("number", sorted(STANDARDS))
def test_there_and_back_is_within_the_precision_of_bytes(number: int) -> None:
    rgb = every_colour()
    back = colour.convert(colour.convert(rgb, formats.of(5), number), formats.of(12), number)
    for name in "RGB":
        assert np.abs(back.values[name].astype(int) - rgb.values[name]).max() <= 5


def test_the_documented_formula_by_hand() -> None:
    """Y 100, U 90, V 200 with the default matrix: R = 100 + 1.402 * 72 = 200.944, G = 100 + 0.344 * 38 - 0.714 * 72 =
    61.664, B = 100 - 1.772 * 38 = 32.664."""
    yuv = Planes({n: np.array([[v]], np.uint8) for n, v in (("Y", 100), ("U", 90), ("V", 200))})
    rgb = colour.convert(yuv, formats.of(12))
    assert [int(rgb.values[n][0, 0]) for n in "RGB"] == [201, 62, 33]
    white = Planes({n: np.array([[255]], np.uint8) for n in "RGB"})
    assert [int(p[0, 0]) for p in colour.convert(white, formats.of(5)).values.values()] == [255, 128, 128]


def test_full_range_601_is_pillows_ycbcr() -> None:
    rgb = every_colour()
    array = np.stack([rgb.values[n] for n in "RGB"], -1)
    theirs = np.asarray(Image.fromarray(array).convert("YCbCr")).astype(int)
    ours = colour.convert(rgb, formats.of(5)).values
    assert max(np.abs(theirs[:, :, i] - ours[n]).max() for i, n in enumerate("YUV")) <= 1
    back = np.asarray(Image.fromarray(theirs.astype(np.uint8), mode="YCbCr").convert("RGB")).astype(int)
    yuv = Planes({n: theirs[:, :, i].astype(np.uint8) for i, n in enumerate("YUV")})
    mine = colour.convert(yuv, formats.of(12)).values
    assert max(np.abs(back[:, :, i] - mine[n]).max() for i, n in enumerate("RGB")) <= 1


def test_chroma_is_averaged_and_repeated() -> None:
    yuv = Planes({"Y": np.zeros((2, 3), np.uint8), "U": np.array([[1, 2, 9], [3, 5, 8]], np.uint8),
                  "V": np.zeros((2, 3), np.uint8)})  # fmt: skip
    small = colour.convert(yuv, formats.of(1))
    assert small.values["U"].tolist() == [[3, 9]]  # 11/4 rounds to 3; the odd edge is repeated: (9+9+8+8)/4 = 8.5
    assert colour.convert(small, formats.of(5)).values["U"].tolist() == [[3, 3, 9], [3, 3, 9]]
    assert colour.convert(small, formats.of(3)).values["U"].tolist() == [[3, 9], [3, 9]]


def test_gray_has_neutral_chroma() -> None:
    gray = Planes({"Y": np.array([[10, 20]], np.uint8)})
    assert colour.convert(gray, formats.of(1)).values["V"].tolist() == [[128]]
    assert colour.convert(gray, formats.of(12)).values["G"].tolist() == [[10, 20]]


def test_unknown_matrices_are_refused() -> None:
    with pytest.raises(MediaError, match="matrix 9"):
        colour.convert(every_colour(), formats.of(1), 9)
