"""NaN and infinities of one block: counted by kind and sign, taken out of the sums. Used by the accumulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Special:
    """Counts of non-finite elements of both sides and of those that do not match."""

    nan_expected: int = 0
    nan_actual: int = 0
    inf_expected: int = 0
    inf_actual: int = 0
    mismatches: int = 0
    matches: int = 0
    equal_nan: bool = True

    def split(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Count what is not finite in ``a`` or ``b``; returns the mask of elements finite in both and flat indices of
        the mismatches (NaN against a number, infinities of different sign)."""
        good = np.isfinite(a) & np.isfinite(b)
        places = np.flatnonzero(~good)
        x, y = a[places], b[places]
        self.nan_expected += int(np.isnan(x).sum())
        self.nan_actual += int(np.isnan(y).sum())
        self.inf_expected += int(np.isinf(x).sum())
        self.inf_actual += int(np.isinf(y).sum())
        same = x == y
        if self.equal_nan:
            same |= np.isnan(x) & np.isnan(y)
        self.matches += int(np.count_nonzero(same))
        self.mismatches += int(np.count_nonzero(~same))
        return good, places[~same]
