"""The metrics agree with independent formulas, on ordinary and on special arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asc_devkit.errors import AscError
from asc_devkit.precision import compare


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int8, np.int64])
def test_agree_with_plain_numpy(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((3, 1000, 500)) * 20).astype(dtype)
    b = (a.astype(np.float64) + rng.standard_normal(a.shape) * 0.01).astype(dtype)
    found = compare(a, b)
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert found.count == x.size
    assert found.cosine == pytest.approx(np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y), rel=1e-6)
    assert found.max_abs == pytest.approx(np.abs(x - y).max(), rel=1e-6)
    assert found.mean_abs == pytest.approx(np.abs(x - y).mean(), rel=1e-6, abs=1e-9)
    assert found.rmse == pytest.approx(np.sqrt(((x - y) ** 2).mean()), rel=1e-6, abs=1e-9)
    assert found.relative_euclidean == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(x), rel=1e-6, abs=1e-9)
    assert found.max_rel == pytest.approx((np.abs(x - y)[x != 0] / np.abs(x[x != 0])).max(), rel=1e-6, abs=1e-9)
    assert found.close_share == pytest.approx(np.isclose(y, x, rtol=1e-3, atol=1e-3).mean())


def test_nan_and_inf_are_compared_by_kind_and_sign() -> None:
    a = np.array([1, np.nan, np.inf, -np.inf, np.inf, 2])
    b = np.array([1, np.nan, np.inf, np.inf, 5, np.nan])
    found = compare(a, b)
    assert (found.nan_expected, found.nan_actual) == (1, 2)
    assert (found.inf_expected, found.inf_actual) == (3, 2)
    assert found.kind_mismatches == 3
    assert not found.identical and found.cosine <= 0.5


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3)])
def test_scalars_and_empty_arrays_are_equal_to_themselves(shape: tuple[int, ...]) -> None:
    found = compare(np.zeros(shape), np.zeros(shape))
    assert found.identical and found.cosine == 1 and found.close_share == 1


def test_zero_against_something_is_not_similar() -> None:
    found = compare(np.zeros(4), np.ones(4))
    assert found.cosine == 0 and found.relative_euclidean == np.inf


def test_bool_and_complex_are_compared() -> None:
    assert compare(np.array([True, False]), np.array([True, True])).max_abs == 1
    assert compare(np.array([1 + 2j]), np.array([1 + 2.5j])).max_abs == 0.5


@pytest.mark.provokes("ASC5001")
def test_different_shapes_are_refused() -> None:
    with pytest.raises(AscError, match="ASC5001"):
        compare(np.zeros(3), np.zeros(4))
