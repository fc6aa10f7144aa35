"""Device formats have the published shapes, put every element where the definition says, and lose nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_devkit.errors import AscError
from asc_devkit.ge import dtypes
from asc_devkit.ge.formats import Format, c0, pack, storage_shape, unpack
from asc_devkit.ge.layout import from_storage, to_storage

FP16, INT8 = ir.DataType.FLOAT16, ir.DataType.INT8
NUMPY = [np.float16, np.float32, np.int8, np.int32, ml_dtypes.bfloat16]


@pytest.mark.parametrize(
    ("shape", "fmt", "dtype", "expected"),
    [
        ((96, 96, 1, 1), "FRACTAL_Z", FP16, (6, 6, 16, 16)),  # read from a compiled model
        ((2, 96, 1, 1), "FRACTAL_Z", FP16, (6, 1, 16, 16)),  # likewise
        ((1, 3, 224, 224), "NC1HWC0", FP16, (1, 1, 224, 224, 16)),
        ((1, 40, 7, 7), "NC1HWC0", INT8, (1, 2, 7, 7, 32)),
        ((64, 3, 11, 11), "FRACTAL_Z", FP16, (121, 4, 16, 16)),
        ((2, 5, 33, 17), "FRACTAL_NZ", FP16, (2, 5, 2, 3, 16, 16)),
        ((33, 17), "FRACTAL_ZZ", FP16, (3, 2, 16, 16)),
        ((1, 20, 4, 5, 6), "NDC1HWC0", FP16, (1, 4, 2, 5, 6, 16)),
        ((32, 20, 3, 3, 3), "FRACTAL_Z_3D", FP16, (54, 2, 16, 16)),
        ((64, 3, 7, 7), "FRACTAL_Z_C04", FP16, (13, 4, 16, 16)),
        ((100, 30), "FRACTAL_Z", FP16, (7, 2, 16, 16)),
    ],
)
def test_storage_shapes(shape: tuple[int, ...], fmt: str, dtype: ir.DataType, expected: tuple[int, ...]) -> None:
    assert storage_shape(shape, "ND", fmt, dtype) == expected


def test_grouped_weights_share_a_block_diagonal() -> None:
    # depthwise, 32 channels: E = min(lcm(16/1, 16/1), 32) = 16 -> 2 blocks of 16 x 16
    assert storage_shape((32, 1, 3, 3), "NCHW", "FRACTAL_Z", FP16, groups=32) == (18, 1, 16, 16)
    # 2 groups of 8 -> 8: E = min(lcm(2, 2), 2) = 2, one block
    assert storage_shape((16, 8, 1, 1), "NCHW", "FRACTAL_Z", FP16, groups=2) == (1, 1, 16, 16)


def test_elements_lie_where_the_definitions_say() -> None:
    image = np.arange(2 * 20 * 3 * 4, dtype=np.float32).reshape(2, 20, 3, 4).astype(np.float16)
    stored = to_storage(image, "NC1HWC0")
    for n, c, h, w in product(range(2), range(20), range(3), range(4)):
        assert stored[n, c // 16, h, w, c % 16] == image[n, c, h, w]
    weight = np.arange(20 * 18 * 2 * 3, dtype=np.int32).reshape(20, 18, 2, 3)
    stored = to_storage(weight, "FRACTAL_Z")
    for n, c, h, w in product(range(20), range(18), range(2), range(3)):
        assert stored[(c // 16 * 2 + h) * 3 + w, n // 16, n % 16, c % 16] == weight[n, c, h, w]
    matrix = np.arange(2 * 33 * 17, dtype=np.int32).reshape(2, 33, 17)
    stored = to_storage(matrix, "FRACTAL_NZ")
    for b, m, n in product(range(2), range(33), range(17)):
        assert stored[b, n // 16, m // 16, m % 16, n % 16] == matrix[b, m, n]
    stored = to_storage(matrix, "FRACTAL_ZZ")
    for b, m, n in product(range(2), range(33), range(17)):
        assert stored[b, m // 16, n // 16, m % 16, n % 16] == matrix[b, m, n]
    volume = np.arange(18 * 17 * 2 * 2 * 3, dtype=np.int32).reshape(18, 17, 2, 2, 3)
    stored = to_storage(volume, "FRACTAL_Z_3D", "NCDHW")
    for n, c, d, h, w in product(range(18), range(17), range(2), range(2), range(3)):
        assert stored[((d * 2 + c // 16) * 2 + h) * 3 + w, n // 16, n % 16, c % 16] == volume[n, c, d, h, w]
    grouped = np.arange(6 * 5 * 1 * 2, dtype=np.int32).reshape(6, 5, 1, 2) + 1  # 3 groups, 2 outputs of 5 inputs each
    stored = to_storage(grouped, "FRACTAL_Z", groups=3)
    merged = 3  # min(lcm(16, 8), 3)
    for g, o, c, w in product(range(3), range(2), range(5), range(2)):
        row, column = (g % merged) * 2 + o, (g % merged) * 5 + c
        assert stored[(column // 16) * 2 + w, row // 16, row % 16, column % 16] == grouped[g * 2 + o, c, 0, w]
    assert np.count_nonzero(stored) == grouped.size


def test_rarer_formats_put_elements_where_the_definitions_say() -> None:
    volume = np.arange(2 * 17 * 3 * 2 * 2, dtype=np.int32).reshape(2, 17, 3, 2, 2)
    stored = to_storage(volume, "NDC1HWC0", "NCDHW")
    for n, c, d, h, w in product(range(2), range(17), range(3), range(2), range(2)):
        assert stored[n, d, c // 16, h, w, c % 16] == volume[n, c, d, h, w]
    image = np.arange(2 * 7 * 3 * 4, dtype=np.int32).reshape(2, 7, 3, 4)
    stored = to_storage(image, "NC1HWC0_C04")
    for n, c, h, w in product(range(2), range(7), range(3), range(4)):
        assert stored[n, c // 4, h, w, c % 4] == image[n, c, h, w]
    weight = np.arange(18 * 3 * 3 * 2, dtype=np.int32).reshape(18, 3, 3, 2) + 1
    stored = to_storage(weight, "FRACTAL_Z_C04")
    for n, c, h, w in product(range(18), range(3), range(3), range(2)):
        row = (h * 2 + w) * 4 + c
        assert stored[row // 16, n // 16, n % 16, row % 16] == weight[n, c, h, w]
    assert np.count_nonzero(stored) == weight.size
    stored = to_storage(weight, "C1HWNCoC0")
    for n, c, h, w in product(range(18), range(3), range(3), range(2)):
        assert stored[c // 16, h, w, n, c % 16, c % 16] == weight[n, c, h, w]
    assert np.count_nonzero(stored) == weight.size
    matrix = np.arange(33 * 17, dtype=np.int8).reshape(33, 17)
    stored = to_storage(matrix, "FRACTAL_Z")
    for i, j in product(range(33), range(17)):
        assert stored[i // 32, j // 16, j % 16, i % 32] == matrix[i, j]
    hwcn = np.arange(2 * 3 * 18 * 20, dtype=np.int32).reshape(2, 3, 18, 20)
    assert np.array_equal(to_storage(hwcn, "FRACTAL_Z", "HWCN"), to_storage(hwcn.transpose(3, 2, 0, 1), "FRACTAL_Z"))


@pytest.mark.parametrize(
    ("shape", "fmt", "groups"),
    [((8, 5, 3, 3), "FRACTAL_Z_C04", 1), ((7, 2, 1, 1), "FRACTAL_Z", 3), ((2, 2, 1, 1), "FRACTAL_Z", 4)],
)
def test_what_a_format_cannot_hold_is_refused(shape: tuple[int, ...], fmt: str, groups: int) -> None:
    with pytest.raises(AscError):
        to_storage(np.zeros(shape, np.float16), fmt, groups=groups)


def _values(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.integers(1, n) for n in (3, 40, 5, 5)]),
    st.sampled_from(["NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "FRACTAL_ZZ", "C1HWNCoC0"]),
    st.sampled_from(["NCHW", "NHWC"]),
    st.sampled_from(NUMPY),
)
def test_four_dimensional_formats_are_exact_inverses(shape: tuple[int, ...], fmt: str, origin: str, dtype: Any) -> None:
    array = _values(shape, dtype, 1)
    assert np.array_equal(from_storage(to_storage(array, fmt, origin), fmt, shape, origin), array)


@settings(max_examples=30, deadline=None)
@given(st.tuples(*[st.integers(1, n) for n in (20, 20, 3, 3, 3)]), st.sampled_from(["NDC1HWC0", "FRACTAL_Z_3D"]))
def test_five_dimensional_formats_are_exact_inverses(shape: tuple[int, ...], fmt: str) -> None:
    array = _values(shape, np.float16, 2)
    assert np.array_equal(from_storage(to_storage(array, fmt, "NCDHW"), fmt, shape, "NCDHW"), array)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 20), st.integers(1, 3), st.sampled_from(NUMPY))
def test_grouped_weights_are_exact_inverses(groups: int, cout: int, cin: int, kernel: int, dtype: Any) -> None:
    array = _values((groups * cout, cin, kernel, kernel), dtype, 3)
    stored = to_storage(array, "FRACTAL_Z", groups=groups)
    assert np.array_equal(from_storage(stored, "FRACTAL_Z", array.shape, groups=groups), array)
    assert stored.shape == storage_shape(array.shape, "NCHW", "FRACTAL_Z", dtypes.of_numpy(array.dtype).ir, groups)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=0, max_size=4), st.sampled_from(NUMPY))
def test_fractal_nz_takes_any_rank(shape: list[int], dtype: Any) -> None:
    array = _values(tuple(shape), dtype, 4)
    assert np.array_equal(from_storage(to_storage(array, "FRACTAL_NZ", "ND"), "FRACTAL_NZ", shape, "ND"), array)


@pytest.mark.parametrize("shape", [(64, 3, 7, 7), (17, 4, 1, 3), (1, 1, 1, 1)])
def test_small_channel_formats_are_exact_inverses(shape: tuple[int, ...]) -> None:
    array = _values(shape, np.float16, 5)
    for fmt in ("FRACTAL_Z_C04", "NC1HWC0_C04"):
        assert np.array_equal(from_storage(to_storage(array, fmt), fmt, shape), array)


def test_a_buffer_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(AscError):
        from_storage(np.zeros(10, np.float16), "NC1HWC0", (1, 3, 4, 4))


def test_format_numbers_pack_as_in_real_files() -> None:
    assert pack(Format.NC1HWC0, 0, 16) == 83886083  # read from a compiled model
    assert unpack(83886083) == (Format.NC1HWC0, 0, 16)
    assert unpack(pack(Format.FRACTAL_Z, 96, 16)) == (Format.FRACTAL_Z, 96, 16)


def test_dtype_enumerations_are_distinct_and_c0_follows_the_block_of_32_bytes() -> None:
    assert len({d.proto for d in dtypes.TABLE}) == len({d.acl for d in dtypes.TABLE}) == len(dtypes.TABLE)
    assert dtypes.of_ir(FP16).acl == 1 and dtypes.of_ir(FP16).proto == 2
    assert dtypes.of_ir(ir.DataType.INT64).acl == 9 and dtypes.of_ir(ir.DataType.INT64).proto == 8
    assert (c0(FP16), c0(INT8), c0(ir.DataType.INT4), c0(ir.DataType.FLOAT)) == (16, 32, 64, 16)
