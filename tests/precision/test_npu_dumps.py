"""Dump files of the NPU: every element type and every layout there and back, and what damaged files are answered."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asc_devkit.errors import AscError
from asc_devkit.precision.sources import open_file, scan
from asc_devkit.precision.sources.npu_dump import DumpTensor, write
from asc_devkit.precision.sources.npu_types import DEVICE, FORMATS, TYPES, table

Array = np.ndarray[Any, Any]
NAME = "Conv2D.conv1.7.3.1700000000000000"


def values(number: int, count: int = 77) -> Array:
    """Elements the type holds exactly, among them its extremes."""
    kind, rng = TYPES[number], np.random.default_rng(number)
    if kind.table == "complex32":
        parts = rng.standard_normal(2 * count).astype(np.float16).astype(np.float32)
        return parts.view(np.complex64)
    if kind.table:
        every = table(kind.table)
        return np.resize(every[rng.permutation(every.size)], max(count, every.size)).astype(kind.numpy)
    if kind.numpy.kind in "iu":
        info = np.iinfo(kind.numpy)
        found = rng.integers(info.min, info.max, count, dtype=kind.numpy, endpoint=True)
        found[:2] = info.min, info.max
        return found
    if kind.numpy.kind == "b":
        return rng.integers(0, 2, count).astype(np.bool_)
    if kind.numpy.kind == "c":
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(kind.numpy)
    found = rng.standard_normal(count).astype(kind.numpy)
    found[:3] = [np.nan, np.inf, -np.inf] if kind.numpy.name != "float8_e4m3fn" else [np.nan, 0, 448]
    return found


@pytest.mark.parametrize("number", TYPES, ids=lambda n: TYPES[n].name)
def test_every_element_type_there_and_back(number: int, tmp_path: Path) -> None:
    array, second = values(number), values(number)[:30].reshape(2, 3, 5)
    path = tmp_path / NAME
    write(path, "conv1", [DumpTensor(array, number)], [DumpTensor(second, number)])
    output, source = open_file(path)
    assert (output.name, source.name) == ("conv1.output.0", "conv1.input.0")
    assert output.facts["op_type"] == "Conv2D" and output.facts["data_type"] == TYPES[number].name
    for ref, wanted in ((output, array), (source, second)):
        found = ref.array()
        assert found.dtype == TYPES[number].numpy and found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes() or np.array_equal(found, wanted, equal_nan=True)


def test_published_codes_of_small_types() -> None:
    """From the formats' own definitions."""
    float8, float6, float4 = table("hifloat8"), table("float6_e3m2fn"), table("float4_e2m1fn")
    assert math.isnan(float8[0x80]) and float8[0x6F] == math.inf and float8[0xEF] == -math.inf
    assert float8[0x08] == 1.0 and float8[0x88] == -1.0  # D0: exponent 0, three mantissa bits
    assert float8[0x6E] == 2.0**15 and float8[0x01] == 2.0**-22
    assert max(float6) == 28.0 and max(float4) == 6.0
    assert sorted(table("float6_e2m3fn"))[-1] == 7.5
    assert table("float8_e8m0fnu")[127] == 1.0 and table("float8_e8m0fnu")[128] == 2.0
    assert list(table("int4"))[7:9] == [7, -8]


def test_four_bit_numbers_are_packed_low_half_first(tmp_path: Path) -> None:
    write(tmp_path / NAME, "conv1", [DumpTensor(np.array([1, -2, 7, -8], np.int8), 28)])
    assert (tmp_path / NAME).read_bytes()[-2:] == bytes([0xE1, 0x87])


def device(plain: Array, fmt: str, c0: int = 16) -> Array:
    """The device layout of a plain tensor, element by element from the definition of the format."""
    up = lambda n, k: -(-n // k)  # noqa: E731
    if fmt == "FRACTAL_NZ":
        *head, m, n = plain.shape
        made = np.zeros((*head, up(n, c0), up(m, 16), 16, c0), plain.dtype)
        for place in itertools.product(*map(range, plain.shape)):
            *lead, i, j = place
            made[(*lead, j // c0, i // 16, i % 16, j % c0)] = plain[place]
        return made
    if fmt == "NC1HWC0":
        n, c, h, w = plain.shape
        made = np.zeros((n, up(c, c0), h, w, c0), plain.dtype)
        for b, k, y, x in itertools.product(*map(range, plain.shape)):
            made[b, k // c0, y, x, k % c0] = plain[b, k, y, x]
        return made
    if fmt == "NDC1HWC0":
        n, c, d, h, w = plain.shape
        made = np.zeros((n, d, up(c, c0), h, w, c0), plain.dtype)
        for b, k, z, y, x in itertools.product(*map(range, plain.shape)):
            made[b, z, k // c0, y, x, k % c0] = plain[b, k, z, y, x]
        return made
    n, c, *rest = plain.shape
    d, h, w = (1, *rest) if len(rest) == 2 else rest
    whole = plain.reshape(n, c, d, h, w)
    c1 = up(c, c0)
    made = np.zeros((d * c1 * h * w, up(n, 16), 16, c0), plain.dtype)
    for o, k, z, y, x in itertools.product(*map(range, whole.shape)):
        made[((z * c1 + k // c0) * h + y) * w + x, o // 16, o % 16, k % c0] = whole[o, k, z, y, x]
    return made


@pytest.mark.parametrize(
    "fmt,shape",
    [
        ("NC1HWC0", (2, 19, 3, 5)),
        ("NC1HWC0", (1, 16, 1, 1)),
        ("NDC1HWC0", (1, 17, 2, 3, 4)),
        ("FRACTAL_Z", (20, 18, 3, 3)),
        ("FRACTAL_Z_3D", (5, 18, 2, 3, 3)),
        ("FRACTAL_NZ", (33, 18)),
        ("FRACTAL_NZ", (2, 3, 17, 40)),
    ],
)
@pytest.mark.parametrize("c0", [16, 8, 32])
def test_every_device_layout_comes_back_without_its_padding(
    fmt: str, shape: tuple[int, ...], c0: int, tmp_path: Path
) -> None:
    plain = np.random.default_rng(1).integers(1, 2000, shape).astype(np.float16)
    stored = device(plain, fmt, c0)
    assert stored.size > plain.size or stored.size == plain.size
    write(tmp_path / NAME, "conv1", [DumpTensor(stored, 2, fmt, shape)])
    (ref,) = open_file(tmp_path / NAME)
    assert ref.facts["format"] == fmt and ref.facts["storage_shape"] == stored.shape
    assert ref.shape == shape
    assert np.array_equal(ref.array(), plain)


@pytest.mark.parametrize("fmt", [f for f in FORMATS.values() if f not in DEVICE])
def test_plain_layouts_are_left_as_they_are(fmt: str, tmp_path: Path) -> None:
    plain = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    write(tmp_path / NAME, "conv1", [DumpTensor(plain, 1, fmt)])
    (ref,) = open_file(tmp_path / NAME)
    assert np.array_equal(ref.array(), plain) and ref.facts["format"] == fmt


@pytest.mark.provokes("ASC5102")
def test_a_torn_file_is_named_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    write(path, "conv1", [DumpTensor(np.ones((64, 64), np.float16), 2)])
    whole = path.read_bytes()
    for length in (9, 20, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(AscError, match="ASC5102") as raised:
            open_file(path)
        assert NAME in str(raised.value)
    path.write_bytes(whole + b"x")
    with pytest.raises(AscError, match=f"{len(whole) + 1} are there"):
        open_file(path)


def test_a_folder_of_dumps_is_read_and_torn_ones_are_listed(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"Add.add{number}.{number}.0.170000000000000{number}"
        write(path, f"add{number}", [DumpTensor(np.full((3, 4), number, np.float16), 2)])
    path.write_bytes(path.read_bytes()[:-5])
    found = scan(tmp_path)
    assert set(found.tensors) == {"add0.output.0", "add1.output.0"}
    assert [p.code for p in found.problems] == ["ASC5102"]


@pytest.mark.provokes("ASC5106")
def test_an_unknown_type_is_refused_by_its_number(tmp_path: Path) -> None:
    from asc_devkit.ge.proto import dump_data_pb2

    data = dump_data_pb2.DumpData(version="2.0", op_name="x")
    row = data.output.add(data_type=99, format=2, size=4)
    row.shape.dim.append(1)
    head = data.SerializeToString()
    (tmp_path / NAME).write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(AscError, match=r"ASC5106.*99"):
        open_file(tmp_path / NAME)
