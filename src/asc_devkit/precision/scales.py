"""Histograms on logarithmic scales, read off the bits of floating-point numbers. Used by the accumulator."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
# per work type: unsigned view, mantissa bits, exponent bias
_LAYOUT: Final = {np.dtype(np.float32): (np.int32, 23, 127), np.dtype(np.float64): (np.int64, 52, 1023)}
STEPS_LOG2: Final = 2  # four steps an octave
# stored mantissa bits and smallest normal exponent of element types (IEEE 754; OCP 8-bit formats)
PRECISION: Final = {
    "float64": (52, -1022),
    "float32": (23, -126),
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float8_e4m3fn": (3, -6),
    "float8_e5m2": (2, -14),
}


class LogHistogram:
    """Counts of non-negative numbers in steps of 1/2**steps octave; zero has a bin of its own.

    With ``stride`` k every k-th number is counted (an odd k shares no period with usual axis lengths).
    """

    def __init__(self, work: np.dtype[Any], steps: int = STEPS_LOG2, stride: int = 1) -> None:
        self.stride = stride
        self.view, self.mantissa, self.bias = _LAYOUT[work]
        self.steps = steps
        self.shift = self.mantissa - steps
        self.bins = np.zeros((2 * self.bias + 2) << steps, np.int64)
        self.used = 0

    def add(self, values: Array, scratch: Array) -> None:
        """Count ``values`` (contiguous, finite, >= 0); ``scratch`` is an integer array of the same length."""
        if self.stride > 1:
            values = values[:: self.stride]
            scratch = scratch[: values.size]
        np.right_shift(values.view(self.view), self.shift, out=scratch)
        counts = np.bincount(scratch)
        self.bins[: counts.size] += counts
        self.used = max(self.used, counts.size)

    def edge(self, index: int) -> float:
        """Lower bound of a bin."""
        exponent, step = index >> self.steps, index & ((1 << self.steps) - 1)
        if index == 0:
            return 0.0
        base = max(exponent, 1) - self.bias
        return float(np.ldexp((0 if exponent == 0 else 1) + step / (1 << self.steps), base))

    def rows(self) -> tuple[tuple[float, int], ...]:
        """Lower bound and count of each bin that is not empty."""
        return tuple((self.edge(int(i)), int(self.bins[i])) for i in np.flatnonzero(self.bins[: self.used]))

    def octaves(self) -> tuple[tuple[float, int], ...]:
        """The same by whole octaves, for drawing."""
        found: dict[float, int] = {}
        for i in np.flatnonzero(self.bins[: self.used]):
            low = self.edge(int(i) >> self.steps << self.steps)
            found[low] = found.get(low, 0) + int(self.bins[i])
        return tuple(found.items())

    def quantiles(self, shares: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
        """Upper bounds of the bins that hold these shares of all values."""
        total = np.cumsum(self.bins[: self.used])
        if not total.size or not total[-1]:
            return ()
        places = np.searchsorted(total, [share * total[-1] for share in shares])
        return tuple((share, 0.0 if p == 0 else self.edge(int(p) + 1)) for share, p in zip(shares, places, strict=True))


class UlpScale:
    """Turns absolute errors into units in the last place of an element type."""

    def __init__(self, work: np.dtype[Any], target: str) -> None:
        signed, mantissa, bias = _LAYOUT[work]
        self.view = np.uint32 if signed is np.int32 else np.uint64
        bits, smallest = PRECISION[target]
        self.mask = self.view((2 * bias + 1) << mantissa)
        # exponents below `floor` share the spacing of the subnormals; the inverse spacing must stay a normal number
        self.floor = self.view(max(smallest + bias, bits + 1) << mantissa)
        self.top = self.view((2 * bias + bits) << mantissa)

    def errors(self, gap: Array, magnitude: Array, scratch: Array, out: Array) -> Array:
        """ULP error of each element: ``gap`` / spacing at ``magnitude``; ``scratch`` holds integers of the same size."""
        bits = scratch.view(self.view)
        np.bitwise_and(magnitude.view(self.view), self.mask, out=bits)
        np.maximum(bits, self.floor, out=bits)
        np.subtract(self.top, bits, out=bits)
        np.multiply(gap, bits.view(gap.dtype), out=out)
        return out
