"""The configuration file: what is accepted, and that every mistake comes out at once with its place and a remedy."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from asc_devkit.atc.aipp import Aipp, DynamicAipp, load
from asc_devkit.errors import AscError, Problem
from tests.atc.aipp.compiled import JPEG

MINIMAL = "aipp_op { aipp_mode: static input_format: RGB888_U8 }"


def read(folder: Path, text: str | bytes) -> list[Aipp | DynamicAipp]:
    path = folder / "aipp.cfg"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path)


def refused(folder: Path, text: str | bytes) -> list[Problem]:
    with pytest.raises(AscError) as caught:
        read(folder, text)
    return list(caught.value.problems)


def test_defaults_are_those_of_the_manual(tmp_path: Path) -> None:
    (aipp,) = read(tmp_path, "aipp_op { aipp_mode: static input_format: YUV420SP_U8 }")
    assert aipp.matrix == (298, 516, 0, 298, -100, -208, 298, 0, 409)
    assert aipp.input_bias == aipp.output_bias == (16, 128, 128)
    assert aipp.mean_chn == (0, 0, 0, 0) and aipp.min_chn == (0, 0, 0, 0) and aipp.var_reci_chn == (1, 1, 1, 1)
    assert not (aipp.crop or aipp.padding or aipp.csc_switch or aipp.rbuv_swap_switch or aipp.ax_swap_switch)
    assert aipp.related_input_rank == 0 and aipp.related_input_name == ""


def test_blocks_are_read_in_order_with_comments_in_any_encoding(tmp_path: Path) -> None:
    text = "\ufeff# 输入\r\n".encode() + "# 图像\n".encode("gbk")
    text += b"aipp_op{\n aipp_mode:static # first\n input_format : XRGB8888_U8\n related_input_rank:1\n}\n"
    text += b"aipp_op { aipp_mode: static, input_format: YUV400_U8; related_input_name: 'im' crop: 0 padding: f }"
    first, second = read(tmp_path, text)
    assert (first.input_format, first.related_input_rank) == ("XRGB8888_U8", 1)
    assert (second.input_format, second.related_input_name) == ("YUV400_U8", "im")


def test_every_mistake_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    text = """aipp_op {
      aipp_mode: static
      input_format: RGB888
      crops: true
      crop: yes
      mean_chn_0: 123.675
      mean_chn_1: 300
      min_chn_0: abc
      var_reci_chn_0: 70000
      padding: true
      padding: true
      left_padding_size: 33
      matrix_r0c0: 40000
      input_bias_1: 99999999999
    }"""
    said = {p.nodes[0]: (p.what, p.fix) for p in refused(tmp_path, text)}
    assert set(said) == {
        "input_format", "crops", "crop", "mean_chn_0", "mean_chn_1", "min_chn_0", "var_reci_chn_0", "padding",
        "left_padding_size", "matrix_r0c0", "input_bias_1",
    }  # fmt: skip
    assert "line 3" in said["input_format"][0] and "Did you mean RGB888_U8?" in said["input_format"][1]
    assert "line 4" in said["crops"][0] and said["crops"][1] == "Did you mean crop?"
    assert "min_chn_i" in said["mean_chn_0"][1]
    assert "outside 0 to 255" in said["mean_chn_1"][0]
    assert "twice" in said["padding"][0]
    assert all(p.code == "E10052" for p in refused(tmp_path, text))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ("input_format: RGB888_U8", "aipp_mode is missing"),
        ("aipp_mode: static", "input_format is missing"),
        ("aipp_mode: static input_format: RGB888_U8 crop: true", "crop needs src_image_size_w"),
        ("aipp_mode: static input_format: RGB888_U8 padding: true", "padding needs src_image_size_w"),
        ("aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8", "only one of"),
        ("aipp_mode: static input_format: RGB888_U8 src_image_size_w: 1 src_image_size_h: 2", "at least 2 pixels"),
        ("aipp_mode: static input_format: YUV420SP_U8 src_image_size_w: 8 src_image_size_h: 7", "needs an even number"),
        (
            "aipp_mode: static input_format: YUV420SP_U8 src_image_size_w: 8 src_image_size_h: 8 crop: true"
            " load_start_pos_w: 1",
            "load_start_pos_w is 1; YUV420SP_U8 needs an even number",
        ),
        ("aipp_mode: static input_format: RGB888_U8 ax_swap_switch: true", "moves a fourth channel"),
        ("aipp_mode: static input_format: YUV400_U8 csc_switch: true", "needs three channels"),
        (
            "aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 8 crop: true"
            " load_start_pos_w: 4 crop_size_w: 5 crop_size_h: 8",
            "load_start_pos_w 4 + crop_size_w 5 passes src_image_size_w 8",
        ),
        (
            "aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 8 crop: true padding: true",
            "must be given when padding follows",
        ),
        ("aipp_mode: static input_format: RGB888_U8 resize: true", "asks for scaling"),
        ("aipp_mode: static input_format: RGB888_U8 rotation_angle: 1", "asks for rotation"),
        ("aipp_mode: static input_format: RGB888_U8 min_chn_1: nan", "min_chn_1 is nan, outside"),
    ],
)
def test_rules_between_fields(tmp_path: Path, fields: str, word: str) -> None:
    found = refused(tmp_path, f"aipp_op {{ {fields} }}")
    assert any(word in p.what for p in found), [p.what for p in found]
    assert {p.code for p in found} == {"E10052"}


def test_dynamic_aipp_needs_the_bytes_of_the_largest_pictures(tmp_path: Path) -> None:
    for fields in ("", "max_src_image_size: 0", "max_src_image_size: 4000000000"):
        (problem,) = refused(tmp_path, f"aipp_op {{ aipp_mode: dynamic {fields} }}")
        assert problem.code == "E10052" and "max_src_image_size" in problem.what
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op { aipp_mode: dynamic related_input_rank: 1 max_src_image_size: 752640 }"
    )
    assert load(tmp_path / "aipp.cfg") == [DynamicAipp(752640, related_input_rank=1)]


def test_a_full_width_colon_is_named(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "aipp_op {\n aipp_mode: static\n src_image_size_w：256\n}")
    assert "line 3" in problem.what and "：" in problem.fix


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "}", "aipp_op {", "aipp_op { aipp_op { } }", "\0", "[classes]\nCLASS_NUM=1000\n", b"\xff\xfe"],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str | bytes) -> None:
    assert all(p.code == "E10052" for p in refused(tmp_path, text))


def test_files_that_cannot_be_read_or_are_too_large(tmp_path: Path) -> None:
    with pytest.raises(AscError, match="E13001"):
        load(tmp_path / "missing.cfg")
    with pytest.raises(AscError, match="E13001"):
        load(tmp_path)
    assert "larger than" in refused(tmp_path, "#" * 200_000)[0].what
    assert "more than 64" in refused(tmp_path, MINIMAL * 65)[0].what


def test_damaged_files_raise_nothing_but_problems(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = (
        f"aipp_op {{ aipp_mode: static\n input_format: YUV420SP_U8\n {JPEG}\n min_chn_0: 0.5 padding_value: 1e3 }}\n"
    )
    for _ in range(300):
        letters = list(whole)
        for _ in range(rng.randint(1, 6)):
            letters[rng.randrange(len(letters))] = rng.choice("{}[]:;,'\"#0-.9\n \0aé：")
        try:
            read(tmp_path, "".join(letters))
        except AscError as error:
            assert 1 <= len(error.problems) <= 40
