"""Metrics between an expected and an actual array, in one pass over blocks with float64 sums and bounded memory.

Definitions: cosine = a.b / (|a||b|); relative Euclidean = |a-b| / |a|; relative error per element = |a-b| / |a| where
a != 0; ``close_share`` counts |a-b| <= atol + rtol |a|. NaN and infinities are compared by kind and sign and left out
of the sums; a mismatch in kind counts as not close.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem

BLOCK: Final = 1 << 20
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Distances of ``count`` elements. Ratios without meaning (no elements, all zero) have the value of equality."""

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

    @property
    def identical(self) -> bool:
        return self.max_abs == 0 and self.kind_mismatches == 0

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def compare(expected: Array, actual: Array, *, atol: float = 1e-3, rtol: float = 1e-3) -> Metrics:
    """Metrics of ``actual`` against ``expected`` (same shape, any numeric or bool types).

    Raises ``AscError`` (ASC5001) when the shapes differ.
    """
    sums = Accumulator(atol=atol, rtol=rtol)
    sums.add(expected, actual)
    return sums.result()


def _wide(block: Array) -> Array:
    if block.dtype.kind == "c":
        return np.stack([block.real, block.imag]).astype(np.float64).ravel()
    return block.astype(np.float64)


class Accumulator:
    """Metrics of data that arrive in parts: ``add`` each pair, then ``result``."""

    def __init__(self, *, atol: float = 1e-3, rtol: float = 1e-3) -> None:
        self.atol, self.rtol, self.count = atol, rtol, 0
        self.ab = self.aa = self.bb = self.dd = self.abs = self.rel = 0.0
        self.max_abs = self.max_rel = 0.0
        self.rel_count = self.close = self.finite = self.seen = 0
        self.nan_a = self.nan_b = self.inf_a = self.inf_b = self.mismatch = 0

    def add(self, expected: Array, actual: Array) -> None:
        """Take one pair of arrays of the same shape in. Raises ``AscError`` (ASC5001) when the shapes differ."""
        if expected.shape != actual.shape:
            raise AscError(
                Problem(
                    "ASC5001",
                    f"The arrays have the shapes {list(expected.shape)} and {list(actual.shape)}.",
                    cause="They are not the same tensor, or one was cut.",
                )
            )
        left, right = expected.reshape(-1), actual.reshape(-1)
        self.count += int(left.size)
        for start in range(0, left.size, BLOCK):
            self._block(_wide(left[start : start + BLOCK]), _wide(right[start : start + BLOCK]))

    def _block(self, a: Array, b: Array) -> None:
        self.seen += a.size
        good = np.isfinite(a) & np.isfinite(b)
        if not good.all():
            a, b = self._special(a, b, good)
        gap = np.abs(a - b)
        self.finite += a.size
        self.close += int(np.count_nonzero(gap <= self.atol + self.rtol * np.abs(a)))
        self.ab += float(a @ b)
        self.aa += float(a @ a)
        self.bb += float(b @ b)
        self.dd += float(gap @ gap)
        self.abs += float(gap.sum())
        self.max_abs = max(self.max_abs, float(gap.max(initial=0.0)))
        nonzero = a != 0
        ratio = gap[nonzero] / np.abs(a[nonzero])
        self.rel += float(ratio.sum())
        self.rel_count += ratio.size
        self.max_rel = max(self.max_rel, float(ratio.max(initial=0.0)))

    def _special(self, a: Array, b: Array, good: Array) -> tuple[Array, Array]:
        x, y = a[~good], b[~good]
        self.nan_a += int(np.isnan(x).sum())
        self.nan_b += int(np.isnan(y).sum())
        self.inf_a += int(np.isinf(x).sum())
        self.inf_b += int(np.isinf(y).sum())
        same = (np.isnan(x) & np.isnan(y)) | (x == y)
        self.mismatch += int(np.count_nonzero(~same))
        self.close += int(np.count_nonzero(same))
        return a[good], b[good]

    def result(self) -> Metrics:
        """The metrics of all pairs so far."""
        norms = (self.aa * self.bb) ** 0.5
        if norms:
            cosine = max(-1.0, min(1.0, self.ab / norms))
        else:
            cosine = 1.0 if self.aa == self.bb else 0.0
        if self.mismatch:
            cosine = min(cosine, 1.0 - self.mismatch / max(self.seen, 1))
        if self.aa:
            euclid = (self.dd / self.aa) ** 0.5
        else:
            euclid = 0.0 if self.dd == 0 else float("inf")
        return Metrics(
            count=self.count,
            cosine=cosine,
            max_abs=self.max_abs,
            mean_abs=self.abs / self.finite if self.finite else 0.0,
            max_rel=self.max_rel,
            mean_rel=self.rel / self.rel_count if self.rel_count else 0.0,
            rmse=(self.dd / self.finite) ** 0.5 if self.finite else 0.0,
            relative_euclidean=euclid,
            close_share=self.close / self.seen if self.seen else 1.0,
            nan_expected=self.nan_a,
            nan_actual=self.nan_b,
            inf_expected=self.inf_a,
            inf_actual=self.inf_b,
            kind_mismatches=self.mismatch,
        )
