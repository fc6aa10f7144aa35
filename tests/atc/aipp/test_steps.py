"""Each step of AIPP against values worked out by hand from the manual's formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.atc.aipp.compiled import GREY, JPEG, nv12, preprocessed


def _coded(height: int, width: int, channels: int = 3) -> np.ndarray:
    """A picture whose byte at (row, column, channel) is 60 * channel + 8 * row + column."""
    rows, columns, layers = np.indices((height, width, channels))
    return (60 * layers + 8 * rows + columns).astype(np.uint8)[None]


def test_bytes_become_fp16_planes_in_the_models_order(tmp_path: Path) -> None:
    picture = _coded(4, 6)
    got = preprocessed(tmp_path, "input_format: RGB888_U8", picture, (1, 3, 4, 6), output_type="FP16")
    assert got.dtype == np.float16 and got.shape == (1, 3, 4, 6)
    assert got[0, :, 1, 2].tolist() == [10, 70, 130]


def test_crop_starts_at_the_given_column_and_row(tmp_path: Path) -> None:
    fields = """input_format: RGB888_U8  src_image_size_w: 8  src_image_size_h: 6
      crop: true  load_start_pos_w: 3  load_start_pos_h: 2  crop_size_w: 4  crop_size_h: 3"""
    got = preprocessed(tmp_path, fields, _coded(6, 8), (1, 3, 3, 4))
    assert got[0, 0].tolist() == [[19, 20, 21, 22], [27, 28, 29, 30], [35, 36, 37, 38]]


def test_crop_without_a_size_takes_the_models(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 6 crop: true load_start_pos_h: 1"
    got = preprocessed(tmp_path, fields, _coded(6, 8), (1, 3, 2, 4))
    assert got[0, 0].tolist() == [[8, 9, 10, 11], [16, 17, 18, 19]]


def test_sizes_do_not_count_while_their_switch_is_off(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 load_start_pos_w: 1 crop_size_w: 2 left_padding_size: 3 padding_value: 9"
    got = preprocessed(tmp_path, fields, _coded(2, 2), (1, 3, 2, 2))
    assert got[0, 0].tolist() == [[0, 1], [8, 9]]


def test_padding_surrounds_the_picture_with_the_value_as_it_is(tmp_path: Path) -> None:
    fields = """input_format: RGB888_U8  src_image_size_w: 2  src_image_size_h: 2  mean_chn_0: 1  var_reci_chn_0: 2
      padding: true  left_padding_size: 1  right_padding_size: 2  top_padding_size: 3  bottom_padding_size: 0
      padding_value: -0.5"""
    got = preprocessed(tmp_path, fields, _coded(2, 2), (1, 3, 5, 5))
    p = -0.5
    assert got[0, 0].tolist() == [[p] * 5, [p] * 5, [p] * 5, [p, -2, 0, p, p], [p, 14, 16, p, p]]


@pytest.mark.parametrize(
    ("switches", "bytes_", "expected"),
    [
        ("ax_swap_switch: true", [7, 10, 20, 30], [10, 20, 30]),  # X R G B
        ("ax_swap_switch: true rbuv_swap_switch: true", [7, 30, 20, 10], [10, 20, 30]),  # X B G R
        ("", [10, 20, 30, 7], [10, 20, 30]),  # R G B X
        ("rbuv_swap_switch: true", [30, 20, 10, 7], [10, 20, 30]),  # B G R X
    ],
)
def test_four_byte_pixels_come_out_as_rgb_with_the_manuals_switches(
    tmp_path: Path, switches: str, bytes_: list[int], expected: list[int]
) -> None:
    picture = np.full((1, 2, 2, 4), bytes_, np.uint8)
    got = preprocessed(tmp_path, f"input_format: XRGB8888_U8 {switches}", picture, (1, 3, 2, 2))
    assert got[0, :, 0, 0].tolist() == expected


def test_four_channels_reach_a_model_that_takes_four(tmp_path: Path) -> None:
    picture = np.full((1, 2, 2, 4), [7, 10, 20, 30], np.uint8)
    got = preprocessed(tmp_path, "input_format: XRGB8888_U8 ax_swap_switch: true", picture, (1, 4, 2, 2))
    assert got[0, :, 1, 1].tolist() == [10, 20, 30, 7]


def test_rbuv_swap_turns_bgr_into_rgb(tmp_path: Path) -> None:
    got = preprocessed(tmp_path, "input_format: RGB888_U8 rbuv_swap_switch: true", _coded(2, 2), (1, 3, 2, 2))
    assert got[0, :, 0, 1].tolist() == [121, 61, 1]


# Y 100, U 90, V 200: R = (25600 + 359*72) / 256 = 200.97, G = (25600 + 88*38 - 183*72) / 256 = 61.59,
# B = (25600 - 454*38) / 256 = 32.61; each to the nearest integer.
@pytest.mark.parametrize(
    ("yuv", "rgb"),
    [
        ((100, 90, 200), (201, 62, 33)),
        ((255, 128, 255), (255, 164, 255)),  # R 433 is clamped; G = (65280 - 183*127) / 256 = 164.2
        ((0, 0, 128), (0, 44, 0)),  # B -227 is clamped; G = 88*128 / 256
    ],
)
def test_jpeg_colours_are_rounded_and_clamped_to_bytes(
    tmp_path: Path, yuv: tuple[int, int, int], rgb: tuple[int, int, int]
) -> None:
    picture = nv12(np.full((2, 4, 3), yuv, np.uint8))
    got = preprocessed(tmp_path, f"input_format: YUV420SP_U8 {JPEG}", picture, (1, 3, 2, 4))
    assert got[0, :, 1, 3].tolist() == list(rgb)


def test_nv21_needs_the_swap_only(tmp_path: Path) -> None:
    picture = nv12(np.full((2, 4, 3), (100, 200, 90), np.uint8))  # V before U
    got = preprocessed(tmp_path, f"input_format: YUV420SP_U8 rbuv_swap_switch: true {JPEG}", picture, (1, 3, 2, 4))
    assert got[0, :, 0, 0].tolist() == [201, 62, 33]


def test_the_default_matrix_is_bt601_narrow_to_bgr(tmp_path: Path) -> None:
    """Y 100, U 90, V 200: B = (298*84 - 516*38) / 256 = 21.19, G = (298*84 + 3800 - 14976) / 256 = 54.13,
    R = (298*84 + 409*72) / 256 = 212.81."""
    picture = nv12(np.full((2, 2, 3), (100, 90, 200), np.uint8))
    got = preprocessed(tmp_path, "input_format: YUV420SP_U8 csc_switch: true", picture, (1, 3, 2, 2))
    assert got[0, :, 0, 0].tolist() == [21, 54, 213]


def test_without_conversion_yuv_pictures_give_yuv444_or_luma(tmp_path: Path) -> None:
    yuv = np.zeros((2, 4, 3), np.uint8)
    yuv[..., 0] = np.arange(8).reshape(2, 4)
    yuv[:, :2, 1:], yuv[:, 2:, 1:] = (50, 60), (70, 80)
    (tmp_path / "a").mkdir()
    got = preprocessed(tmp_path / "a", "input_format: YUV420SP_U8", nv12(yuv), (1, 3, 2, 4))
    assert got[0].transpose(1, 2, 0).tolist() == yuv.tolist()
    luma = preprocessed(tmp_path, "input_format: YUV420SP_U8", nv12(yuv), (1, 1, 2, 4))
    assert luma[0, 0].tolist() == yuv[..., 0].tolist()


@pytest.mark.parametrize(
    ("rgb", "yuv"), [((255, 0, 0), (82, 90, 240)), ((0, 0, 255), (41, 240, 110)), ((0, 0, 0), (16, 128, 128))]
)
def test_rgb_becomes_bt601_narrow_yuv_by_default(
    tmp_path: Path, rgb: tuple[int, int, int], yuv: tuple[int, int, int]
) -> None:
    """The standard's own colour bars: red is (82, 90, 240), blue (41, 240, 110), black (16, 128, 128)."""
    picture = np.full((1, 2, 2, 3), rgb, np.uint8)
    got = preprocessed(tmp_path, "input_format: RGB888_U8 csc_switch: true", picture, (1, 3, 2, 2))
    assert got[0, :, 0, 0].tolist() == list(yuv)


def test_rgb_becomes_grey_for_a_model_of_one_channel(tmp_path: Path) -> None:
    picture = np.full((1, 2, 2, 3), (200, 100, 50), np.uint8)  # (15200 + 15000 + 1500) / 256 = 123.8
    got = preprocessed(tmp_path, f"input_format: RGB888_U8 {GREY}", picture, (1, 1, 2, 2))
    assert got.tolist() == [[[[124, 124], [124, 124]]]]


def test_grey_pictures_pass_with_their_own_normalisation(tmp_path: Path) -> None:
    fields = "input_format: YUV400_U8 mean_chn_0: 128 var_reci_chn_0: 0.00390625"
    got = preprocessed(tmp_path, fields, np.full((1, 2, 4, 1), 192, np.uint8), (1, 1, 2, 4))
    assert got.tolist() == np.full((1, 1, 2, 4), 0.25).tolist()


def test_normalisation_is_fp16_arithmetic_with_fp16_parameters(tmp_path: Path) -> None:
    """0.0171247538 is 1122 * 2**-16 in fp16; (200 - 104 - 0.5) times that is 1.63499, in steps of 2**-10: 1674 / 1024.

    123.675 is 123.6875 in fp16 (steps of 1/16), and 255 - 123.6875 = 131.3125 is a tie between 131.25 and 131.375:
    the even one is 131.25.
    """
    fields = """input_format: RGB888_U8  mean_chn_0: 104  min_chn_0: 0.5  var_reci_chn_0: 0.0171247538
      min_chn_1: 123.675"""
    picture = np.full((1, 2, 2, 3), (200, 255, 3), np.uint8)
    got = preprocessed(tmp_path, fields, picture, (1, 3, 2, 2))
    assert got[0, :, 0, 0].tolist() == [1674 / 1024, 131.25, 3]


def test_overflow_follows_the_chip(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 var_reci_chn_0: 60000"
    picture = np.full((1, 2, 2, 3), (2, 0, 0), np.uint8)
    (tmp_path / "a").mkdir()
    old = preprocessed(tmp_path / "a", fields, picture, (1, 3, 2, 2))
    new = preprocessed(tmp_path, fields, picture, (1, 3, 2, 2), soc_version="Ascend910B1")
    assert old[0, 0, 0, 0] == 65504 and np.isinf(new[0, 0, 0, 0])


def test_a_model_that_takes_bytes_gets_bytes(tmp_path: Path) -> None:
    """The manual: mean, minimum and factor have no effect from uint8 to uint8."""
    fields = """input_format: RGB888_U8  rbuv_swap_switch: true  mean_chn_0: 100  var_reci_chn_0: 3
      src_image_size_w: 2 src_image_size_h: 2 padding: true left_padding_size: 1 padding_value: 114"""
    got = preprocessed(tmp_path, fields, _coded(2, 2), (1, 3, 2, 3), TensorProto.UINT8)
    assert got[0, 0].tolist() == [[114, 120, 121], [114, 128, 129]]


def test_every_picture_of_a_batch_is_treated_alike(tmp_path: Path) -> None:
    pictures = np.stack([np.full((2, 4, 3), 10 * n, np.uint8) for n in range(3)])
    got = preprocessed(tmp_path, "input_format: RGB888_U8 mean_chn_2: 5", pictures, (3, 3, 2, 4))
    assert got[:, :, 1, 3].tolist() == [[0, 0, -5], [10, 10, 5], [20, 20, 15]]


@pytest.mark.parametrize("mode", ["allow_fp32_to_fp16", "must_keep_origin_dtype", "mixed_bfloat16"])
def test_fp16_comes_out_whatever_the_precision_mode(tmp_path: Path, mode: str) -> None:
    """2.1 is 2.099609375 in fp16: the factor is a half also where the model computes in fp32."""
    fields = "input_format: RGB888_U8 var_reci_chn_0: 2.1"
    picture = np.full((1, 2, 2, 3), 1, np.uint8)
    got = preprocessed(
        tmp_path, fields, picture, (1, 3, 2, 2), precision_mode=mode, soc_version="Ascend910B1", output_type="FP32"
    )
    assert got[0, 0, 0, 0] == pytest.approx(2.099609375, abs=0.02 if "bf" in mode else 0)
