"""Layouts against hand-placed bytes, strides against the vendor's table."""

from __future__ import annotations

import numpy as np
import pytest

from asc_devkit.npu.media import formats
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.planes import Planes, read, write

# (format, width, height, generation) -> (width stride, height stride, bytes), from the tables of the VPC restrictions
STRIDES = [
    (0, 30, 7, "310P", 32, 8, 256),
    (1, 1922, 1080, "310P", 1936, 1080, 1936 * 1080 * 3 // 2),
    (2, 34, 10, "310", 48, 10, 720),
    (3, 34, 9, "910", 48, 10, 960),
    (5, 33, 9, "310P", 48, 10, 1440),
    (7, 34, 9, "310P", 96, 10, 960),
    (11, 33, 9, "310P", 144, 10, 1440),
    (12, 33, 9, "310P", 144, 10, 1440),
    (14, 33, 9, "310P", 192, 10, 1920),
    (1, 34, 10, "910B", 34, 10, 510),
    (12, 33, 9, "310B", 99, 9, 891),
]


@pytest.mark.parametrize(("value", "width", "height", "generation", "ws", "hs", "size"), STRIDES)
def test_strides_and_sizes_are_those_of_the_vendors_table(
    value: int, width: int, height: int, generation: str, ws: int, hs: int, size: int
) -> None:
    fmt, rules = formats.of(value), formats.family(generation)
    assert formats.strides(fmt, width, height, rules) == (ws, hs)
    assert fmt.size(ws, hs) == size
    formats.check_strides(fmt, width, height, ws, hs, size, rules)
    with pytest.raises(MediaError, match="bytes"):
        formats.check_strides(fmt, width, height, ws, hs, size - 1, rules)


@pytest.mark.parametrize(
    ("value", "width", "height", "ws", "hs", "said"),
    [
        (1, 100, 100, 100, 100, "width stride"),  # not a multiple of 16
        (1, 100, 100, 96, 100, "width stride"),  # narrower than the picture
        (1, 100, 100, 112, 98, "below the height"),
        (1, 100, 100, 112, 101, "no multiple of 2"),
        (1, 101, 100, 112, 100, "width multiple of 2"),
        (1, 100, 101, 112, 102, "height multiple of 2"),
        (12, 100, 100, 304, 100, "width stride"),  # 3 bytes times a multiple of 16
        (1, 8, 100, 32, 100, "outside"),
        (1, 100, 9000, 112, 9000, "outside"),
    ],
)
def test_what_the_hardware_refuses_is_refused(value: int, width: int, height: int, ws: int, hs: int, said: str) -> None:
    with pytest.raises(MediaError, match=said):
        formats.check(formats.of(value), width, height, ws, hs, 1 << 40, formats.family("310P"), "in")


def test_a2_chips_need_no_alignment() -> None:
    formats.check(formats.of(1), 100, 100, 100, 100, 15000, formats.family("910B"), "in")


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(MediaError, match="pixel format 77"):
        formats.of(77)


def test_nv12_and_nv21_bytes_lie_where_the_standard_says() -> None:
    """4 x 2 pixels in strides 6 x 3: Y rows, then one chroma row U V U V (NV12) or V U V U (NV21)."""
    picture = Planes(
        {
            "Y": np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8),
            "U": np.array([[10, 11]], np.uint8),
            "V": np.array([[20, 21]], np.uint8),
        },
        (2, 2),
    )
    for value, chroma in ((1, [10, 20, 11, 21]), (2, [20, 10, 21, 11])):
        buffer = np.zeros(6 * 4 * 3 // 2, np.uint8)
        write(picture, buffer, formats.of(value), 6, 4)
        assert buffer[:6].tolist() == [1, 2, 3, 4, 0, 0]
        assert buffer[6:12].tolist() == [5, 6, 7, 8, 0, 0]
        assert buffer[24:30].tolist() == [*chroma, 0, 0]
        back = read(buffer, formats.of(value), 4, 2, 6, 4)
        assert all((back.values[n] == picture.values[n]).all() for n in "YUV")


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (7, [1, 10, 2, 20, 3, 11, 4, 21]),  # Y U Y V
        (8, [10, 1, 20, 2, 11, 3, 21, 4]),  # U Y V Y
        (9, [1, 20, 2, 10, 3, 21, 4, 11]),  # Y V Y U
        (10, [20, 1, 10, 2, 21, 3, 11, 4]),  # V Y U Y
    ],
)
def test_packed_422(value: int, row: list[int]) -> None:
    values = {"Y": np.array([[1, 2, 3, 4]]), "U": np.array([[10, 11]]), "V": np.array([[20, 21]])}
    picture = Planes({k: v.astype(np.uint8) for k, v in values.items()}, (2, 1))
    buffer = np.zeros(16, np.uint8)
    write(picture, buffer, formats.of(value), 16, 1)
    assert buffer[:8].tolist() == row
    assert read(buffer, formats.of(value), 4, 1, 16, 1).values["U"].tolist() == [[10, 11]]


@pytest.mark.parametrize(("value", "pixel"), [(12, [1, 2, 3]), (13, [3, 2, 1]), (14, [255, 1, 2, 3]),
                                              (15, [255, 3, 2, 1]), (16, [1, 2, 3, 255]), (17, [3, 2, 1, 255])])  # fmt: skip
def test_rgb_orders(value: int, pixel: list[int]) -> None:
    picture = Planes({n: np.full((1, 2), v, np.uint8) for n, v in zip("RGB", (1, 2, 3), strict=True)})
    buffer = np.zeros(2 * len(pixel), np.uint8)
    write(picture, buffer, formats.of(value), 2 * len(pixel), 1)
    assert buffer.tolist() == pixel * 2


@pytest.mark.parametrize("value", sorted(formats.table()))
def test_every_format_reads_back_what_was_written(value: int) -> None:
    fmt = formats.of(value)
    rng = np.random.default_rng(value)
    width, height = 22, 14
    ws, hs = formats.strides(fmt, width, height, formats.family("310P"))
    buffer = rng.integers(0, 256, fmt.size(ws, hs), dtype=np.uint8)
    copy = np.full_like(buffer, 7)
    write(read(buffer, fmt, width, height, ws, hs), copy, fmt, ws, hs)
    again = read(copy, fmt, width, height, ws, hs)
    assert all((again.values[n] == p).all() for n, p in read(buffer, fmt, width, height, ws, hs).values.items())
    assert (copy[width * fmt.row_bytes : ws] == 7).all()  # bytes between width and stride stay untouched
