"""The one-pass metrics engine: pairs of flat blocks in, ``Metrics`` out, in constant memory.

Elements of up to four bytes are computed in float32 block by block (differences of close numbers are exact there),
wider ones in float64; sums over blocks are float64. Blocks are small enough to stay in a core's cache, which is where
the speed comes from. ``compare`` takes whole arrays; streaming sources call ``Accumulator.add_flat`` themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.energy import Energy
from asc_devkit.precision.metrics import Metrics, Worst
from asc_devkit.precision.scales import PRECISION, LogHistogram, UlpScale
from asc_devkit.precision.special import Special

Array = np.ndarray[Any, Any]
BLOCK: Final = 16384
TOP: Final = 16
LARGE: Final = 1 << 17  # elements; beyond, the histograms count every SAMPLE-th element
SAMPLE: Final = 5
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
HALF_MAX: Final = 65504.0
# per work type: smallest normal number, and a power of two that lifts subnormal ones far above it
_TINY: Final = {
    np.dtype(np.float32): np.finfo(np.float32).smallest_normal,
    np.dtype(np.float64): np.finfo(np.float64).smallest_normal,
}
_LIFT: Final = {np.dtype(np.float32): np.float32(2.0**64), np.dtype(np.float64): np.float64(2.0**128)}
_FAINT: Final = 1e-28  # sums of squares in float32 below this lose digits to underflow
_ABSURD: Final = 1e20  # a relative error beyond this comes from a zero in the expected tensor


class Criterion(Protocol):
    """Counts elements that break a rule, block by block (``asc_devkit.precision.policy``)."""

    def add(self, block: Block) -> None: ...

    def special(self, expected: Array, actual: Array) -> None: ...


class Block:
    """Finite elements of one block: expected, actual, |expected|, |difference| and their relative error."""

    __slots__ = ("actual", "error", "expected", "gap", "magnitude", "relative")

    def __init__(self, size: int, work: np.dtype[Any]) -> None:
        self.expected = self.actual = np.empty(0, work)
        self.error, self.gap, self.magnitude, self.relative = (np.empty(size, work) for _ in range(4))


def work_type(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Type the elements are compared in: float32 when it holds all of them exactly, else float64."""
    small = all(d.itemsize <= 2 or d == np.float32 for d in dtypes)
    return np.dtype(np.float32 if small else np.float64)


def widen(block: Array, work: np.dtype[Any]) -> Array:
    """Elements as ``work`` numbers; complex ones as real and imaginary parts."""
    if block.dtype == work:
        return block
    if block.dtype.kind == "c":
        return np.ascontiguousarray(block).view(block.real.dtype).astype(work)
    if block.dtype.name == "bfloat16" and work == np.float32:
        return (block.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return block.astype(work)


def _count_below(values: Array, limit: float, highest: float, flags: Array) -> int:
    if highest < limit:
        return values.size
    return int(np.count_nonzero(np.less(values, values.dtype.type(limit), out=flags)))


def _squares(x: Array) -> float:
    wide = x.astype(np.float64)
    return float(np.dot(wide, wide))


class Accumulator:
    """Metrics of data that arrive in parts: ``add`` each pair, then ``result``.

    ``shape`` (optional) is the shape of the whole tensor, for the concentration by axis; ``target`` the element type whose
    ULP counts (default: that of the actual data); ``kl`` asks for the divergence in ``add`` (needs whole tensors). With
    ``equal_nan`` two NaN are the same value.
    """

    def __init__(
        self,
        *,
        atol: float = 1e-3,
        rtol: float = 1e-3,
        shape: tuple[int, ...] | None = None,
        target: str = "",
        kl: bool = False,
        criteria: Sequence[Criterion] = (),
        equal_nan: bool = True,
    ) -> None:
        self.atol, self.rtol, self.target, self.kl, self.criteria = atol, rtol, target, kl, criteria
        self.energy = Energy(shape) if shape is not None else None
        self.stride = SAMPLE if shape is not None and math.prod(shape) > LARGE else 1
        self.special = Special(equal_nan=equal_nan)
        self.work: np.dtype[Any] | None = None
        self.count = self.seen = self.finite = self.close = self.differing = 0
        self.aa = self.bb = self.dd = self.abs = self.sum_a = self.sum_b = self.sum_r = 0.0
        self.max_abs = self.max_rel = self.at_zero = 0.0
        self.below_1e3 = self.below_5e3 = self.nonzero = self.zero_errors = self.saturated = 0
        self.min_a = self.min_b = math.inf
        self.max_a = self.max_b = -math.inf
        self.bits = 0
        self.bits_width: int | None = None
        self.ulp: UlpScale | None = None
        self.ulp_sum = self.ulp_max = 0.0
        self.ulp_above = [0, 0]
        self.divergence: float | None = None
        self.top = np.empty((4, 0))

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
        for start in range(0, left.size, BLOCK):
            self.add_flat(left[start : start + BLOCK], right[start : start + BLOCK])
        if self.kl:
            for start in range(0, left.size, BLOCK):
                self.add_divergence(left[start : start + BLOCK], right[start : start + BLOCK])

    def add_flat(self, expected: Array, actual: Array) -> None:
        """Take the next elements (flat, at most ``BLOCK`` of them, C order) of both tensors in."""
        if self.work is None:
            self._begin(expected.dtype, actual.dtype)
        assert self.work is not None
        start = self.count
        self.count += expected.size
        if expected.dtype.itemsize == 8 and expected.dtype.kind in "iu" and expected.dtype == actual.dtype:
            self.differing += int(np.count_nonzero(expected != actual))
        a, b = widen(expected, self.work), widen(actual, self.work)
        if self.bits_width is not None and self.bits & self.all_bits != self.all_bits:
            self.bits |= int(np.bitwise_or.reduce(actual.view(self.bits_view), initial=0))
        self._block(a, b, start if expected.dtype.kind != "c" else 2 * start)

    def _begin(self, expected: np.dtype[Any], actual: np.dtype[Any]) -> None:
        work = self.work = work_type(expected, actual)
        self.exact_differing = expected.itemsize == 8 and expected.kind in "iu" and expected == actual
        self.block = Block(BLOCK * (2 if expected.kind == "c" else 1), work)
        size = self.block.gap.size
        self.scratch = np.empty(size, np.int32 if work == np.float32 else np.int64)
        self.spare = np.empty(size, work)
        self.ones = np.ones(size, work)
        self.flags = np.empty(size, np.bool_)
        self.errors = LogHistogram(work, stride=self.stride)
        self.ulps = LogHistogram(work, steps=0, stride=self.stride)
        name = self.target or actual.name
        if name in PRECISION:
            self.ulp = UlpScale(work, name)
        if actual.name in PRECISION and actual.kind != "c":
            self.bits_width = PRECISION[actual.name][0]
            self.bits_view, self.all_bits = np.dtype(f"u{actual.itemsize}"), (1 << self.bits_width) - 1

    def _block(self, a: Array, b: Array, start: int) -> None:
        n = a.size
        block, spare = self.block, self.spare[:n]
        self.seen += n
        with np.errstate(all="ignore"):
            d = np.subtract(a, b, out=block.error[:n])
            aa, bb, dd = float(np.dot(a, a)), float(np.dot(b, b)), float(np.dot(d, d))
            if not math.isfinite(aa + bb + dd):
                self._rare(a, b, start)
                return
            if min(aa, bb, dd) < _FAINT and self.work == np.float32:
                aa, bb, dd = (_squares(x) if s < _FAINT and x.any() else s for x, s in ((a, aa), (b, bb), (d, dd)))
            self._sums(a, b, d, aa, bb, dd, start, None)
            if self.energy is not None and self.energy.active and dd:
                self.energy.add(np.multiply(d, d, out=spare), start)

    def _rare(self, a: Array, b: Array, start: int) -> None:
        """A block with NaN, infinities, or numbers whose squares overflow."""
        good, mismatches = self.special.split(a, b)
        if mismatches.size:
            first = mismatches[:TOP]
            self._keep_worst(np.full(first.size, np.inf), start + first, a[first], b[first])
            for criterion in self.criteria:
                criterion.special(a[mismatches], b[mismatches])
        whole = bool(good.all())
        places = None if whole else np.flatnonzero(good)
        a, b = (a, b) if whole else (a[good], b[good])
        if not a.size:
            return
        d = np.subtract(a, b, out=self.block.error[: a.size])
        aa, bb, dd = (float(np.dot(x, x)) for x in (a.astype(np.float64), b.astype(np.float64), d.astype(np.float64)))
        self._sums(a, b, d, aa, bb, dd, start, places)
        if self.energy is not None and self.energy.active:
            squares = np.zeros(good.size, np.float64)
            squares[good] = d.astype(np.float64) ** 2
            squares[mismatches] = max(1.0, float(squares.max(initial=0.0)))  # the worst there is
            self.energy.add(squares, start)

    def _sums(
        self, a: Array, b: Array, d: Array, aa: float, bb: float, dd: float, start: int, places: Array | None
    ) -> None:
        n = a.size
        block, spare, flags, scratch = self.block, self.spare[:n], self.flags[:n], self.scratch[:n]
        self.finite += n
        self.aa += aa
        self.bb += bb
        self.dd += dd
        ones = self.ones[:n]
        part = float(np.dot(ones, a))
        self.sum_a += part
        self.sum_b += part - float(np.dot(ones, d))
        low_b, high_b = float(b.min()), float(b.max())
        self.min_a, self.max_a = min(self.min_a, float(a.min())), max(self.max_a, float(a.max()))
        self.min_b, self.max_b = min(self.min_b, low_b), max(self.max_b, high_b)
        if high_b >= HALF_MAX or low_b <= -HALF_MAX:
            self.saturated += int(np.count_nonzero(np.abs(b) >= HALF_MAX))
        block.expected, block.actual = a, b
        magnitude = np.abs(a, out=block.magnitude[:n])
        if dd == 0 and not d.any():
            self._equal(n, magnitude)
            gap = relative = d
        else:
            gap = np.abs(d, out=block.gap[:n])
            self.differing += 0 if self.exact_differing else int(np.count_nonzero(gap))
            peak = float(gap.max())
            self.max_abs = max(self.max_abs, peak)
            self.abs += float(np.dot(ones, gap))
            self._worst(a, b, gap, peak, start, places)
            tiny = _TINY[gap.dtype]
            relative = np.divide(gap, np.maximum(magnitude, tiny, out=spare), out=block.relative[:n])
            highest = float(relative.max())
            if highest > _ABSURD:
                highest = self._zeros(magnitude, gap, relative)
            normal = int(np.count_nonzero(np.greater_equal(magnitude, tiny, out=flags)))
            nonzero = n if normal == n else int(np.count_nonzero(magnitude))
            if normal != nonzero:
                highest = self._subnormal(magnitude, gap, relative)
            self.max_rel = max(self.max_rel, highest)
            self.nonzero += nonzero
            self.sum_r += float(np.dot(ones, relative))
            self.below_1e3 += _count_below(relative, 1e-3, highest, flags)
            self.below_5e3 += _count_below(relative, 5e-3, highest, flags)
            if peak <= self.atol:
                self.close += n
            else:
                np.multiply(magnitude, gap.dtype.type(self.rtol), out=spare)
                np.add(spare, gap.dtype.type(self.atol), out=spare)
                self.close += int(np.count_nonzero(np.less_equal(gap, spare, out=flags)))
            self.errors.add(gap, scratch)
            if self.ulp is not None:
                self._ulps(gap, magnitude, scratch, spare, flags)
        if self.criteria:
            parts = Block.__new__(Block)
            parts.expected, parts.actual, parts.error = a, b, d
            parts.gap, parts.magnitude, parts.relative = gap, magnitude, relative
            for criterion in self.criteria:
                criterion.add(parts)

    def _equal(self, n: int, magnitude: Array) -> None:
        """A block without any difference."""
        self.nonzero += int(np.count_nonzero(magnitude))
        self.below_1e3 += n
        self.below_5e3 += n
        self.close += n
        self.errors.bins[0] += -(-n // self.stride)
        self.errors.used = max(self.errors.used, 1)
        if self.ulp is not None:
            self.ulps.bins[0] += -(-n // self.stride)
            self.ulps.used = max(self.ulps.used, 1)

    def _zeros(self, magnitude: Array, gap: Array, relative: Array) -> float:
        """Errors where the expected element is zero: counted apart, without a relative error."""
        wrong = (magnitude == 0) & (gap > 0)
        self.zero_errors += int(np.count_nonzero(wrong))
        self.at_zero = max(self.at_zero, float(gap[wrong].max(initial=0.0)))
        relative[wrong] = np.inf
        highest = float(np.max(relative, initial=0.0, where=~wrong))
        relative[wrong] = 0
        self.below_1e3 -= int(np.count_nonzero(wrong))  # they do not count as close
        self.below_5e3 -= int(np.count_nonzero(wrong))
        return highest

    def _subnormal(self, magnitude: Array, gap: Array, relative: Array) -> float:
        """Relative errors where the expected element is subnormal; returns the largest of the block."""
        small = (magnitude < _TINY[gap.dtype]) & (magnitude > 0)
        lift = _LIFT[gap.dtype]
        relative[small] = (gap[small] * lift) / (magnitude[small] * lift)
        return float(relative.max())

    def _ulps(self, gap: Array, magnitude: Array, scratch: Array, spare: Array, flags: Array) -> None:
        assert self.ulp is not None
        found = self.ulp.errors(gap, magnitude, scratch, spare)
        self.ulps.add(found, scratch)
        self.ulp_sum += float(np.dot(self.ones[: found.size], found))
        peak = float(found.max())
        self.ulp_max = max(self.ulp_max, peak)
        for place, limit in enumerate((1, 32)):
            if peak > limit:
                self.ulp_above[place] += int(np.count_nonzero(np.greater(found, found.dtype.type(limit), out=flags)))

    def _worst(self, a: Array, b: Array, gap: Array, peak: float, start: int, places: Array | None) -> None:
        limit = float(self.top[0, -1]) if self.top.shape[1] == TOP else 0.0
        if peak <= limit:
            return
        found = np.flatnonzero(np.greater(gap, gap.dtype.type(limit), out=self.flags[: gap.size]))
        if found.size > TOP:
            found = found[np.argpartition(gap[found], found.size - TOP)[-TOP:]]
        index = found if places is None else places[found]
        self._keep_worst(gap[found], start + index, a[found], b[found])

    def _keep_worst(self, gap: Array, index: Array, a: Array, b: Array) -> None:
        """Rows of ``top``: error, flat index, expected, actual; the largest errors first, then the first places."""
        rows = np.concatenate((self.top, np.array((gap, index, a, b), np.float64)), axis=1)
        self.top = rows[:, np.lexsort((rows[1], -rows[0]))[:TOP]]

    def add_divergence(self, expected: Array, actual: Array) -> None:
        """Second look at all elements, once ``add_flat`` has seen them all: the Kullback-Leibler divergence."""
        assert self.work is not None
        spread_a, spread_b = self._spread()
        if self.divergence is None:
            self.divergence = 0.0
        if spread_a <= 0 or spread_b <= 0:
            return
        n = expected.size
        p, q, t = self.block.error[:n], self.block.gap[:n], self.spare[:n]
        tiny = self.work.type(max(spread_a / max(self.finite, 1) * 1e-7, float(_TINY[self.work])))
        with np.errstate(all="ignore"):
            np.subtract(widen(expected, self.work), self.work.type(self.min_a), out=p)
            np.subtract(widen(actual, self.work), self.work.type(self.min_b), out=q)
            np.add(p, tiny, out=t)
            np.add(q, tiny, out=q)
            np.divide(t, q, out=q)
            np.log(q, out=q)
            found = float(np.dot(p, q))
            if not math.isfinite(found):
                found = float(np.nansum(np.where(np.isfinite(p) & np.isfinite(q), p * q, 0)))
        self.divergence += found / spread_a

    def _spread(self) -> tuple[float, float]:
        return self.sum_a - self.finite * self.min_a, self.sum_b - self.finite * self.min_b

    def _cosine(self) -> float:
        norm_a, norm_b = self.aa**0.5, self.bb**0.5
        if norm_a == 0 or norm_b == 0:
            return 1.0 if norm_a == norm_b else 0.0
        # |a-b|^2 = (|a|-|b|)^2 + 2 |a||b| (1 - cos): exact near 1, where the product of sums is not
        apart = (self.aa - self.bb) / (norm_a + norm_b)
        cosine = float(1.0 - (self.dd - apart * apart) / (2 * norm_a * norm_b))
        return max(-1.0, min(1.0, cosine))

    def result(self) -> Metrics:
        """The metrics of all pairs so far."""
        special, seen, finite = self.special, max(self.seen, 1), max(self.finite, 1)
        cosine = self._cosine()
        if special.mismatches:
            cosine = min(cosine, 1.0 - special.mismatches / seen)
        if self.aa:
            euclid = (self.dd / self.aa) ** 0.5
        else:
            euclid = 0.0 if self.dd == 0 else math.inf
        same = special.matches
        kl = self.divergence
        if kl is not None and self.finite:
            spread_a, spread_b = self._spread()
            kl = max(kl + math.log(spread_b / spread_a), 0.0) if spread_a > 0 and spread_b > 0 else None
        some = self.finite > 0
        empty = self.work is None
        return Metrics(
            count=self.count,
            cosine=cosine,
            max_abs=self.max_abs,
            mean_abs=self.abs / finite,
            max_rel=self.max_rel,
            mean_rel=self.sum_r / self.nonzero if self.nonzero else 0.0,
            rmse=(self.dd / finite) ** 0.5,
            relative_euclidean=euclid,
            close_share=(self.close + same) / seen if self.seen else 1.0,
            nan_expected=special.nan_expected,
            nan_actual=special.nan_actual,
            inf_expected=special.inf_expected,
            inf_actual=special.inf_actual,
            kind_mismatches=special.mismatches,
            differing=self.differing + special.mismatches,
            below_1e3=(self.below_1e3 + same) / seen if self.seen else 1.0,
            below_5e3=(self.below_5e3 + same) / seen if self.seen else 1.0,
            zero_expected_errors=self.zero_errors,
            max_abs_at_zero=self.at_zero,
            mean_error=(self.sum_b - self.sum_a) / finite,
            kl=kl,
            ulp_mean=self.ulp_sum / finite if self.ulp else None,
            ulp_max=self.ulp_max if self.ulp else None,
            ulp_above_1=self.ulp_above[0] / finite if self.ulp else None,
            ulp_above_32=self.ulp_above[1] / finite if self.ulp else None,
            saturated=self.saturated,
            mantissa_bits=self._used_bits(),
            expected_min=self.min_a if some else 0.0,
            expected_max=self.max_a if some else 0.0,
            expected_mean=self.sum_a / finite,
            expected_norm=self.aa**0.5,
            actual_min=self.min_b if some else 0.0,
            actual_max=self.max_b if some else 0.0,
            actual_mean=self.sum_b / finite,
            actual_norm=self.bb**0.5,
            quantiles=() if empty else self.errors.quantiles(QUANTILES),
            error_histogram=() if empty else self.errors.octaves(),
            ulp_histogram=() if empty or self.ulp is None else self.ulps.rows(),
            worst=tuple(Worst(int(i), float(x), float(y)) for _, i, x, y in self.top.T),
            concentration=self.energy.concentration() if self.energy is not None else {},
        )

    def _used_bits(self) -> int | None:
        """Mantissa bits that are set in any element of the actual tensor."""
        if self.bits_width is None:
            return None
        mantissa = self.bits & self.all_bits
        return self.bits_width - ((mantissa & -mantissa).bit_length() - 1) if mantissa else 0


def compare(expected: Array, actual: Array, *, atol: float = 1e-3, rtol: float = 1e-3, kl: bool = False) -> Metrics:
    """Metrics of ``actual`` against ``expected`` (same shape, any numeric or bool types).

    Raises ``AscError`` (ASC5001) when the shapes differ.
    """
    shape = expected.shape if expected.dtype.kind != "c" else (*expected.shape, 2)
    sums = Accumulator(atol=atol, rtol=rtol, shape=tuple(shape), kl=kl)
    sums.add(expected, actual)
    return sums.result()
