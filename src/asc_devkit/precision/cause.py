"""What kind of error two tensors show: one second look at a tensor that failed, all elements at hand.

The kinds are tried from the most to the least specific; each says in ``evidence`` what it saw. ``expected`` may be
the golden tensor or, better, what the operator makes of the target's own inputs (then nothing inherited is in the way).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from asc_devkit.precision.scales import PRECISION

Array = np.ndarray[Any, Any]
HALF_MAX: Final = 65504.0
NOISE_ULPS: Final = 6.0  # roundings that ordinary arithmetic in the type explains
TINY_SHARE: Final = 1e-3  # of the largest magnitude: what counts as a small value
ADVICE: Final = {
    "nan": "Find the operator's input that leads to 0/0, inf-inf, log or sqrt of a negative number; keep it in float32.",
    "inf": "The result leaves the type's range: keep the operator in float32, scale its input, or use bfloat16.",
    "inf_sign": "The sign of infinities is wrong: look at negations, masks filled with infinity, and division by -0.",
    "saturation": "Values stop at 65504: keep the first operator that exceeds it in float32 (--keep_dtype), or scale.",
    "scale": "The result is right up to a factor: look at scale attributes, quantisation scales, averages over padding.",
    "bias": "The result is right up to a constant: look at a missing or doubled bias, zero points, offsets.",
    "transpose": "The same values in transposed order: look at the layout (perm, NCHW/NHWC, trans_a/trans_b).",
    "permutation": "The same values in another order: look at indices, sorting, gather/scatter and the order of rows.",
    "channel": "The error sits in single channels: look at per-channel weights, scales and bias of those channels.",
    "c0_block": "The error sits in blocks of 16 channels: look at the channel tail of the device layout (C0).",
    "tail": "The error sits at the end: look at the last tile, its length, and masks for what is not a multiple.",
    "stride": "The error repeats with a period: look at repeat strides and the length of a burst.",
    "dropped_tile": "A contiguous part is zero: a tile was not computed or not copied out.",
    "stuck_value": "Many wrong elements hold the same value: a constant, an index, or a copy that was not repeated.",
    "stale_buffer": "A contiguous part holds plausible but unrelated values: it was read before it was written (missing wait).",
    "short_mantissa": "Fewer mantissa bits than the type has: a step was computed in a shorter type.",
    "small_values": "Only small values are wrong: subnormals are flushed, or an epsilon is too large.",
    "relative": "Errors grow with the values beyond rounding: a shorter type or an approximation in the operator.",
    "absolute": "Errors of one size whatever the value: a fixed-point step, a table, or rounding of an intermediate.",
    "rounding": "What rounding in this type explains.",
}


@dataclass(frozen=True)
class Cause:
    """``kind`` (a key of ``ADVICE``), what was seen, and what to do about it."""

    kind: str
    evidence: str
    advice: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "evidence": self.evidence, "advice": self.advice, "facts": self.facts}


def _cause(kind: str, evidence: str, **facts: Any) -> Cause:
    return Cause(kind, evidence, ADVICE[kind], facts)


def classify(expected: Array, actual: Array, dtype: str = "") -> Cause:
    """The cause class of ``actual`` against ``expected`` (same size). ``dtype``: element type whose rounding is ordinary."""
    name = dtype or actual.dtype.name
    shape = expected.shape
    a = _real(expected)
    b = _real(actual).reshape(a.shape)
    special = _special(a, b)
    if special is not None:
        return special
    good = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(good, a, 0.0), np.where(good, b, 0.0)
    gap = np.abs(a - b)
    wrong = gap > _noise(a, name)
    if not wrong.any():
        short = _short_mantissa(a, b, actual, name)
        return short or _cause("rounding", f"no element is off by more than {NOISE_ULPS:g} units in the last place")
    look = _Look(a, b, gap, wrong, shape, name)
    for found in (
        look.saturation(),
        look.order(),
        look.factor(),
        _short_mantissa(a, b, actual, name),
        look.region(),
        look.small(),
        look.periodic(),
    ):
        if found is not None:
            return found
    return look.growth()


def _real(array: Array) -> Array:
    flat = np.ascontiguousarray(array)
    if flat.dtype.kind == "c":
        return (
            flat.view(flat.real.dtype).reshape(*flat.shape[:-1], -1).astype(np.float64)
            if flat.ndim
            else np.array([float(flat.real), float(flat.imag)])
        )
    return flat.astype(np.float64)


def _noise(a: Array, dtype: str) -> Array:
    bits = PRECISION.get(dtype, PRECISION["float32"])[0]
    rms = math.sqrt(float(np.mean(a * a))) if a.size else 0.0
    eps = NOISE_ULPS * 2.0 ** -(bits + 1)
    limit: Array = eps * (np.abs(a) + 0.25 * rms)
    return limit


def _special(a: Array, b: Array) -> Cause | None:
    nan = np.isnan(b) & ~np.isnan(a)
    lost = np.isnan(a) & ~np.isnan(b)
    if nan.any() or lost.any():
        count = int(np.count_nonzero(nan)) + int(np.count_nonzero(lost))
        side = "found" if nan.any() else "expected"
        return _cause(
            "nan", f"{count} elements are NaN on one side, most of them {side}; the first at {_first(nan | lost)}"
        )
    inf_a, inf_b = np.isinf(a), np.isinf(b)
    flipped = inf_a & inf_b & (a != b)
    if flipped.any():
        return _cause(
            "inf_sign", f"{int(flipped.sum())} infinities have the other sign; the first at {_first(flipped)}"
        )
    if (inf_a != inf_b).any():
        only = inf_b & ~inf_a
        count = int((inf_a != inf_b).sum())
        clipped = inf_a & (np.abs(b) == HALF_MAX)
        if clipped.any() and not only.any():
            return _cause(
                "saturation", f"{int(clipped.sum())} elements are infinite in the expected tensor and 65504 here"
            )
        return _cause("inf", f"{count} elements are infinite on one side only; the first at {_first(inf_a != inf_b)}")
    return None


def _first(mask: Array) -> list[int]:
    return [int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape)] if mask.ndim else []


def _short_mantissa(a: Array, b: Array, actual: Array, dtype: str) -> Cause | None:
    """All elements end in zeros: the mantissa is shorter than that of the type."""
    if dtype not in PRECISION or a.size < 32:
        return None
    width = PRECISION[dtype][0]
    nonzero = b[b != 0]
    if nonzero.size < 32 or float(np.count_nonzero(nonzero == np.rint(nonzero))) > 0.9 * nonzero.size:
        return None
    mantissa, _ = np.frexp(nonzero)
    own = np.abs(a[a != 0])
    for bits in range(1, width):
        scaled = mantissa * 2.0 ** (bits + 1)
        if (scaled == np.rint(scaled)).all():
            reference, _ = np.frexp(own)
            same = reference * 2.0 ** (bits + 1)
            if own.size and (same == np.rint(same)).mean() > 0.9:
                return None  # the expected values are as short
            return _cause("short_mantissa", f"all elements fit in {bits} of {width} mantissa bits", bits=bits)
    return None


class _Look:
    """Both tensors as float64 with what is wrong marked."""

    def __init__(self, a: Array, b: Array, gap: Array, wrong: Array, shape: tuple[int, ...], dtype: str) -> None:
        self.a, self.b, self.gap, self.wrong, self.shape, self.dtype = a, b, gap, wrong, shape, dtype
        self.flat_a, self.flat_b, self.flat_wrong = a.reshape(-1), b.reshape(-1), wrong.reshape(-1)
        self.count = int(np.count_nonzero(wrong))
        self.share = self.count / max(wrong.size, 1)

    def saturation(self) -> Cause | None:
        stopped = (np.abs(self.b) == HALF_MAX) & (np.abs(self.a) > HALF_MAX)
        count = int(np.count_nonzero(stopped))
        if count and count >= 0.5 * self.count:
            return _cause(
                "saturation", f"{count} elements are 65504 where up to {np.abs(self.a).max():.6g} is expected"
            )
        return None

    def order(self) -> Cause | None:
        """The same values elsewhere: transposed axes, or exchanged rows and elements."""
        if self.a.size < 4 or self.count < 2:
            return None
        for axes in self._transpositions():
            turned = np.ascontiguousarray(self.a.transpose(axes)).reshape(self.a.shape)
            if self._agree(turned):
                return _cause("transpose", f"equal to the expected tensor with axes {list(axes)}", axes=list(axes))
        places = np.flatnonzero(self.flat_wrong)
        x, y = np.sort(self.flat_a[places]), np.sort(self.flat_b[places])
        scale = float(np.abs(x).max(initial=0.0)) or 1.0
        if np.abs(x - y).max(initial=0.0) <= 2e-3 * scale and np.ptp(x) > 1e-2 * scale:
            # sorted values agree by chance only where they lie dense; moved values must differ much from those expected
            moved = float(np.median(np.abs(self.flat_a[places] - self.flat_b[places])))
            spread = float(np.median(np.abs(x - y)))
            if moved > 20 * max(spread, 1e-12 * scale):
                return _cause("permutation", f"{self.count} wrong elements hold the expected values in another order")
        return None

    def _transpositions(self) -> list[tuple[int, ...]]:
        long = [i for i, d in enumerate(self.shape) if d > 1]
        if not 2 <= len(long) <= 4 or self.share < 0.3:
            return []
        found = []
        for order in itertools.permutations(long):
            axes = list(range(len(self.shape)))
            for place, axis in zip(long, order, strict=True):
                axes[place] = axis
            if tuple(axes) != tuple(range(len(self.shape))):
                found.append(tuple(axes))
        return found

    def _agree(self, other: Array) -> bool:
        apart = float(np.linalg.norm((other - self.b).reshape(-1)))
        now = float(np.linalg.norm((self.a - self.b).reshape(-1)))
        return apart <= 0.1 * now and apart <= 0.05 * float(np.linalg.norm(self.flat_a))

    def factor(self) -> Cause | None:
        """Right up to a factor, or up to a constant."""
        a, b = self.flat_a, self.flat_b
        aa = float(a @ a)
        if self.share < 0.2 or aa == 0 or a.size < 4:
            return None
        now = float(np.linalg.norm(b - a))
        scale = float(a @ b) / aa
        if scale and float(np.linalg.norm(b - scale * a)) < 0.25 * now and abs(scale - 1) > 2e-4:
            return _cause("scale", f"the actual tensor is {scale:.6g} times the expected one", factor=scale)
        shift = float(np.mean(b - a))
        if float(np.linalg.norm(b - a - shift)) < 0.25 * now:
            return _cause("bias", f"the actual tensor is the expected one {shift:+.6g}", offset=shift)
        return None

    def region(self) -> Cause | None:
        """The wrong elements fill a part of the tensor."""
        held = self._channels()
        places = np.flatnonzero(self.flat_wrong)
        first, last = int(places[0]), int(places[-1])
        values = self.flat_b[places]
        span = last - first + 1
        zero = np.count_nonzero(values == 0) / places.size
        dense = places.size / span
        if places.size >= 8 and zero > 0.9:
            return _cause(
                "dropped_tile", f"{places.size} elements are 0, from {first} to {last}", first=first, last=last
            )
        unique, counts = np.unique(values, return_counts=True)
        most = int(counts.max())
        if places.size >= 8 and most > 0.8 * places.size:
            value = float(unique[int(np.argmax(counts))])
            return _cause("stuck_value", f"{most} of {places.size} wrong elements are {value:g}", value=value)
        if held is not None:
            return held
        if span < self.flat_a.size and dense > 0.8 and places.size >= 8:
            if last == self.flat_a.size - 1 and span < 0.2 * self.flat_a.size and not self._plausible(first, last):
                return _cause("tail", f"the last {span} elements are wrong", first=first)
            return _cause("stale_buffer", f"elements {first} to {last} do not belong here", first=first, last=last)
        if self.share > 0.5 and abs(self._correlation(self.flat_a, self.flat_b)) < 0.5:
            return _cause("stale_buffer", "the whole tensor holds unrelated values")
        return None

    def _plausible(self, first: int, last: int) -> bool:
        """Whether the wrong part is of the size of the rest (another tensor's values) rather than garbage."""
        part, rest = self.flat_b[first : last + 1], self.flat_a
        ratio = float(np.std(part)) / (float(np.std(rest)) or 1.0)
        return 0.2 < ratio < 5

    @staticmethod
    def _correlation(x: Array, y: Array) -> float:
        x, y = x - x.mean(), y - y.mean()
        size = float(np.linalg.norm(x) * np.linalg.norm(y))
        return float(x @ y) / size if size else 0.0

    def _channels(self) -> Cause | None:
        """All wrong elements lie in few indices of one axis, and fill them."""
        best: tuple[float, int, Array] | None = None
        for axis, size in enumerate(self.wrong.shape):
            if size < 2 or self.wrong.ndim < 2:
                continue
            others = tuple(i for i in range(self.wrong.ndim) if i != axis)
            hits = self.wrong.sum(axis=others)
            used = np.flatnonzero(hits)
            fill = self.count / (used.size * (self.wrong.size / size))
            if used.size <= max(1, size // 4) and fill > 0.5 and (best is None or used.size / size < best[0]):
                best = (used.size / size, axis, used)
        if best is None:
            return None
        _, axis, used = best
        indices = [int(i) for i in used[:32]]
        if used.size > 1 and used.size % 16 == 0 and used[0] % 16 == 0 and used[-1] - used[0] == used.size - 1:
            return _cause(
                "c0_block", f"indices {used[0]} to {used[-1]} of axis {axis} are wrong", axis=axis, indices=indices
            )
        contiguous = used.size > 1 and used[-1] - used[0] == used.size - 1
        outer = math.prod(self.shape[:axis]) == 1
        if contiguous and outer and used.size > 2:  # a run of rows is a run of memory
            return None
        return _cause(
            "channel", f"index {', '.join(map(str, indices[:8]))} of axis {axis} is wrong", axis=axis, indices=indices
        )

    def small(self) -> Cause | None:
        """Only the small values are wrong."""
        top = float(np.abs(self.a).max(initial=0.0))
        sizes = np.abs(self.flat_a[self.flat_wrong])
        if top and float(np.quantile(sizes, 0.95)) < TINY_SHARE * top * 10 and self.share < 0.9:
            return _cause(
                "small_values", f"{self.count} elements up to {sizes.max():.3g} are wrong, the largest is {top:.3g}"
            )
        return None

    def periodic(self) -> Cause | None:
        """Wrong elements repeat with a period."""
        places = np.flatnonzero(self.flat_wrong)
        if places.size < 8:
            return None
        steps, counts = np.unique(np.diff(places), return_counts=True)
        step = int(steps[int(np.argmax(counts))])
        if step > 1 and counts.max() > 0.9 * (places.size - 1):
            return _cause("stride", f"every {step}th element is wrong, from {int(places[0])} on", period=step)
        return None

    def growth(self) -> Cause:
        """Errors that grow with the value, or do not."""
        sizes, gaps = np.abs(self.flat_a), self.gap.reshape(-1)
        top = float(sizes.max(initial=0.0))
        large, little = gaps[sizes > 0.5 * top], gaps[sizes < 0.1 * top]
        near = float(np.quantile(gaps[self.flat_wrong], 0.5))
        if little.size >= 8 and large.size >= 1 and float(np.mean(large)) > 3 * float(np.mean(little)):
            share = float(np.median((gaps / np.maximum(sizes, 1e-300))[self.flat_wrong]))
            bits = -math.log2(share) if share > 0 else 0.0
            return _cause("relative", f"median relative error {share:.3g}, as of {bits:.1f} bits", bits=bits)
        return _cause("absolute", f"{self.count} elements are off, half of them by more than {near:.3g}")
