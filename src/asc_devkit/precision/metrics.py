"""What is measured between an expected and an actual tensor. Filled by ``Accumulator``; used by all comparisons.

Definitions (``a`` expected, ``b`` actual, sums over elements that are finite in both): cosine = a.b / (|a||b|); relative
Euclidean = |a-b| / |a|; relative error of an element = |a-b| / |a| where a != 0 (errors where a = 0 are counted apart);
ULP error = |a-b| over the spacing of the actual's type at ``a``; KL = sum p log(p/q) of both tensors shifted to
their minimum and scaled to sum 1 (the vendor's accuracy comparison). NaN and infinities are compared by kind and
sign and left out of the sums; a mismatch in kind counts as not close.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
_SUMMARY: Final = (
    "count", "cosine", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "relative_euclidean", "close_share",
    "nan_expected", "nan_actual", "inf_expected", "inf_actual", "kind_mismatches",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worst:
    """One of the elements that are furthest apart: flat index (C order), values, and whether the kinds differ."""

    index: int
    expected: float
    actual: float


@dataclass(frozen=True, slots=True)
class Metrics:
    """Distances of ``count`` elements. Ratios without meaning (no elements, all zero) have the value of equality.

    ``kl`` and ``ulp_*`` are None where they are not defined (integers) or were not asked for. ``below_1e3`` and
    ``below_5e3`` are the shares of elements with a relative error under 0.001 and 0.005. Quantiles are those of the
    absolute error, from a histogram of four steps an octave (relative resolution 19 %).
    """

    count: int
    cosine: float
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    rmse: float
    relative_euclidean: float
    close_share: float
    nan_expected: int
    nan_actual: int
    inf_expected: int
    inf_actual: int
    kind_mismatches: int
    differing: int = 0
    below_1e3: float = 1.0
    below_5e3: float = 1.0
    zero_expected_errors: int = 0
    max_abs_at_zero: float = 0.0
    mean_error: float = 0.0
    kl: float | None = None
    ulp_mean: float | None = None
    ulp_max: float | None = None
    ulp_above_1: float | None = None
    ulp_above_32: float | None = None
    saturated: int = 0
    mantissa_bits: int | None = None
    expected_min: float = 0.0
    expected_max: float = 0.0
    expected_mean: float = 0.0
    expected_norm: float = 0.0
    actual_min: float = 0.0
    actual_max: float = 0.0
    actual_mean: float = 0.0
    actual_norm: float = 0.0
    quantiles: tuple[tuple[float, float], ...] = ()
    error_histogram: tuple[tuple[float, int], ...] = ()
    ulp_histogram: tuple[tuple[float, int], ...] = ()
    worst: tuple[Worst, ...] = ()
    concentration: dict[str, float] = field(default_factory=dict)

    @property
    def identical(self) -> bool:
        return self.max_abs == 0 and self.kind_mismatches == 0

    def max_rel_literal(self, eps: float = 1e-12) -> float:
        """Largest |a-b| / (|a| + eps): elements with a = 0 dominate it as soon as one of them is wrong."""
        return max(self.max_rel, self.max_abs_at_zero / eps)

    def summary(self) -> dict[str, Any]:
        """The distances alone, without distributions: what a report with a row per layer keeps."""
        return {name: getattr(self, name) for name in _SUMMARY}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
