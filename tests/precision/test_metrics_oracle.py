"""The metrics against formulas in exact rational numbers (``fractions``), for every element type and awkward value."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asc_devkit.precision import compare
from asc_devkit.precision.metrics import Metrics

Array = np.ndarray[Any, Any]


def pairs_of(a: Array, b: Array) -> list[tuple[Any, Any]]:
    """Elements as Python numbers; complex ones as two."""
    if a.dtype.kind == "c":
        return [
            p
            for x, y in zip(a.ravel(), b.ravel(), strict=True)
            for p in ((float(x.real), float(y.real)), (float(x.imag), float(y.imag)))
        ]
    return [(number(x), number(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)]


def number(x: Any) -> Any:
    return int(x) if np.asarray(x).dtype.kind in "biu" else float(x)


def root(value: Fraction) -> Decimal:
    """Square root to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return (Decimal(value.numerator) / Decimal(value.denominator)).sqrt()


def check(found: Metrics, a: Array, b: Array, rel: float = 2e-6) -> None:
    """MAE, MRE, largest errors, RMSE, cosine, relative Euclidean distance, counts of special values."""
    pairs = pairs_of(a, b)
    finite = [(Fraction(x), Fraction(y)) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    gaps = [abs(x - y) for x, y in finite]
    relative = [abs(x - y) / abs(x) for x, y in finite if x]
    # an absolute error below the smallest float32 cannot be told from zero
    close = lambda value: pytest.approx(float(value), rel=rel, abs=1e-45)  # noqa: E731
    assert found.count == a.size
    assert found.max_abs == close(max(gaps, default=0))
    assert found.mean_abs == close(sum(gaps) / len(gaps) if gaps else 0)
    assert found.max_rel == close(max(relative, default=0))
    assert found.mean_rel == close(sum(relative) / len(relative) if relative else 0)
    norm_a, norm_b = (
        root(sum(x * x for x, _ in finite) + Fraction(0)),
        root(sum(y * y for _, y in finite) + Fraction(0)),
    )
    if norm_a and norm_b:
        dot = sum(x * y for x, y in finite)
        with localcontext() as context:
            context.prec = 60
            cosine = Decimal(dot.numerator) / Decimal(dot.denominator) / (norm_a * norm_b)
            distance = root(sum(g * g for g in gaps) + Fraction(0)) / norm_a
        assert found.relative_euclidean == pytest.approx(float(distance), rel=rel, abs=1e-9)
        if not found.kind_mismatches:
            assert found.cosine == pytest.approx(float(cosine), abs=1e-6)
    assert found.nan_expected == sum(math.isnan(x) for x, _ in pairs)
    assert found.nan_actual == sum(math.isnan(y) for _, y in pairs)
    assert found.inf_expected == sum(math.isinf(x) for x, _ in pairs)
    assert found.inf_actual == sum(math.isinf(y) for _, y in pairs)
    kinds = sum((math.isnan(x), math.isinf(x) and x) != (math.isnan(y), math.isinf(y) and y) for x, y in pairs)
    assert found.kind_mismatches == kinds


FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def noisy(dtype: Any, scale: float, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal(777) * scale).astype(dtype)
    b = (a.astype(np.float64) * (1 + rng.standard_normal(a.size) * 0.02)).astype(dtype)
    return a, b


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_random_numbers(dtype: Any) -> None:
    a, b = noisy(dtype, 3.0)
    check(compare(a, b), a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_subnormal_numbers(dtype: Any) -> None:
    smallest = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    rng = np.random.default_rng(1)
    a = (rng.integers(-7, 8, 500).astype(np.float64) * smallest).astype(dtype)
    b = (rng.integers(-7, 8, 500).astype(np.float64) * smallest).astype(dtype)
    assert np.count_nonzero(a.astype(np.float64)) > 400
    found = compare(a, b)
    pairs = [(x, y) for x, y in pairs_of(a, b) if x]
    assert found.max_abs == pytest.approx(14 * smallest, rel=0.2)
    assert found.max_rel == pytest.approx(
        float(max(abs(Fraction(x) - Fraction(y)) / abs(Fraction(x)) for x, y in pairs)), rel=1e-5
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_nan_and_infinities_among_numbers(dtype: Any) -> None:
    a, b = noisy(dtype, 1.0, 2)
    infinite = dtype is not ml_dtypes.float8_e4m3fn  # which has none
    for k, (x, y) in enumerate([(np.nan, np.nan), (np.nan, 1.0), (1.0, np.nan)]):
        a[k], b[k] = x, y
    for k, (x, y) in enumerate(
        [(np.inf, np.inf), (np.inf, -np.inf), (2.0, -np.inf), (-np.inf, np.nan)] if infinite else []
    ):
        a[100 + k], b[100 + k] = x, y
    check(compare(a, b), a, b)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_integers_and_booleans(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    top = 2 if dtype is np.bool_ else min(np.iinfo(dtype).max, 2**52)
    a, b = rng.integers(0, top, 400).astype(dtype), rng.integers(0, top, 400).astype(dtype)
    check(compare(a, b), a, b)


def test_extreme_integers_keep_their_difference() -> None:
    a, b = np.array([-(2**31), 2**31 - 1, -128], np.int32), np.array([2**31 - 1, -(2**31), 127], np.int32)
    check(compare(a, b), a, b)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_pairs_of_parts(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    a = (rng.standard_normal((5, 60)) + 1j * rng.standard_normal((5, 60))).astype(dtype)
    b = (a * (1 + 0.01 * rng.standard_normal(a.shape))).astype(dtype)
    check(compare(a, b), a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.bool_], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2)])
def test_scalars_and_empty_tensors(dtype: Any, shape: tuple[int, ...]) -> None:
    a, b = np.ones(shape, dtype), np.zeros(shape, dtype)
    check(compare(a, b), a, b)


@pytest.mark.parametrize(
    "first,second", [(np.float32, np.float16), (np.float16, ml_dtypes.bfloat16), (np.int64, np.float32)]
)
def test_types_may_differ_between_the_sides(first: Any, second: Any) -> None:
    a = np.arange(-50, 50).astype(first)
    b = (np.arange(-50, 50) * 1.01).astype(second)
    check(compare(a, b), a, b)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_sums_neither_overflow_nor_vanish(scale: float) -> None:
    rng = np.random.default_rng(5)
    a = (rng.uniform(0.5, 1.0, 300) * scale).astype(np.float32)
    b = (a.astype(np.float64) * 0.999).astype(np.float32)
    check(compare(a, b), a, b, rel=1e-4)


def units_in_the_last_place(a: Array, b: Array) -> list[Fraction]:
    """|a-b| over the distance to the next number of the type away from zero, from the type's own neighbours."""
    info = ml_dtypes.finfo(a.dtype)
    found = []
    for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        exponent = max(math.frexp(x)[1] - 1 if x else -10000, int(info.minexp))
        found.append(abs(Fraction(x) - Fraction(y)) / Fraction(2) ** (exponent - int(info.nmant)))
    return found


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_units_in_the_last_place(dtype: Any) -> None:
    a, b = noisy(dtype, 2.0, 6)
    found, units = compare(a, b), units_in_the_last_place(a, b)
    assert found.ulp_max == pytest.approx(float(max(units)), rel=1e-5)
    assert found.ulp_mean == pytest.approx(float(sum(units) / len(units)), rel=1e-5)
    assert found.ulp_above_1 == pytest.approx(sum(u > 1 for u in units) / len(units))


def test_divergence_is_that_of_the_shifted_and_scaled_values() -> None:
    a, b = noisy(np.float32, 1.0, 7)
    p, q = ((x.astype(np.float64) - float(x.min()) + 1e-9) for x in (a, b))
    p, q = p / p.sum(), q / q.sum()
    found = compare(a, b, kl=True).kl
    assert found is not None
    assert found == pytest.approx(float((p * np.log(p / q)).sum()), rel=0.02)
