"""The kinds of rule there are. Each counts what it needs block by block and judges at the end.

A rule sees the elements that are finite on both sides (``add``) and, where it wants to, the pairs that differ in kind
(``special``). Unless a rule says otherwise, such a pair fails the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from asc_devkit.precision.accumulate import Block
from asc_devkit.precision.metrics import Metrics

Array = np.ndarray[Any, Any]
LARGEST: Final = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


@dataclass(frozen=True)
class Verdict:
    """``level`` is pass, warning or error; ``reasons`` say by which figures; ``failing`` counts elements if the rule does."""

    rule: str
    level: str
    reasons: tuple[str, ...] = ()
    failing: int = 0

    @property
    def passed(self) -> bool:
        return self.level != "error"


class Criterion:
    """Base of all rules: nothing counted, non-finite mismatches fail."""

    kind: ClassVar[str] = ""
    forgives_special = False

    def __init__(self, dtype: str, **parameters: Any) -> None:
        self.dtype = dtype
        self.parameters = parameters
        self.failing = 0
        for name, value in parameters.items():
            setattr(self, name, value)

    def add(self, block: Block) -> None:
        """Count one block."""

    def special(self, expected: Array, actual: Array) -> None:
        """Take pairs in of which one is NaN or infinite, or that are infinite with different signs."""

    def problems(self, metrics: Metrics) -> list[str]:
        """What breaks the rule, in words with figures."""
        return []

    def warnings(self, metrics: Metrics) -> list[str]:
        return []

    def verdict(self, metrics: Metrics) -> Verdict:
        """Judge a tensor all of whose blocks were added."""
        found = self.problems(metrics)
        if metrics.kind_mismatches and not self.forgives_special:
            found.insert(0, f"{metrics.kind_mismatches} elements are NaN or infinite on one side only")
        if found:
            return Verdict(self.kind, "error", tuple(found), self.failing)
        mild = self.warnings(metrics)
        return Verdict(self.kind, "warning" if mild else "pass", tuple(mild), self.failing)


def _rate(failing: int, count: int) -> float:
    return failing / count if count else 0.0


class Combined(Criterion):
    """|a-b| <= atol + rtol |a| per element; the share of failing elements must be below ``error_rate`` (0: none may fail)."""

    kind = "combined"
    atol: float
    rtol: float
    error_rate: float = 0.0

    def add(self, block: Block) -> None:
        kind = block.gap.dtype.type
        self.failing += int(np.count_nonzero(block.gap > kind(self.atol) + kind(self.rtol) * block.magnitude))

    def problems(self, metrics: Metrics) -> list[str]:
        rate = _rate(self.failing, metrics.count)
        if self.failing and not rate < self.error_rate:
            return [
                f"{self.failing} of {metrics.count} elements ({rate:.3%}) exceed {self.atol:g} + {self.rtol:g} |expected|"
            ]
        return []


class AnyExceeded(Combined):
    """An element fails when its absolute error exceeds ``atol`` *or* its relative error |a-b| / (|a| + eps) ``rtol``."""

    kind = "any"
    eps: float = 1e-12

    def add(self, block: Block) -> None:
        gap, kind = block.gap, block.gap.dtype.type
        bad = (gap > kind(self.atol)) | (gap > kind(self.rtol) * (block.magnitude + kind(self.eps)))
        self.failing += int(np.count_nonzero(bad))

    def problems(self, metrics: Metrics) -> list[str]:
        rate = _rate(self.failing, metrics.count)
        if self.failing and not rate < self.error_rate:
            return [
                f"{self.failing} of {metrics.count} elements ({rate:.3%}) exceed the absolute {self.atol:g} "
                f"or the relative {self.rtol:g}"
            ]
        return []


class Ecosystem(Criterion):
    """Mean and largest relative error in the normal range; counts in the small-value and cancellation ranges.

    ``reference_errors``: how many small-value errors the same computation makes on a CPU in the same type (0: not known).
    """

    kind = "cann-eco"
    forgives_special = True
    threshold: float
    small: float
    small_error: float
    cancel: float
    eps: float = 1e-7
    ratio: float = 2.0
    reference_errors: int = 0

    def __init__(self, dtype: str, **parameters: Any) -> None:
        super().__init__(dtype, **parameters)
        self.sum = self.worst = 0.0
        self.normal = self.small_failing = self.cancel_failing = self.broken = 0

    def add(self, block: Block) -> None:
        gap, magnitude, kind = block.gap, block.magnitude, block.gap.dtype.type
        small = magnitude < kind(self.small)
        self.small_failing += int(np.count_nonzero(small & (gap > kind(self.small_error))))
        relative = gap / (magnitude + kind(self.eps))
        near = ~small & (magnitude < kind(self.cancel)) & (np.abs(block.actual) < kind(self.cancel))
        over = near & (relative > kind(10 * self.threshold))
        self.cancel_failing += int(np.count_nonzero(over))
        self._normal(relative[~small & ~over])

    def _normal(self, relative: Array) -> None:
        self.normal += relative.size
        self.sum += float(relative.sum(dtype=np.float64))
        self.worst = max(self.worst, float(relative.max(initial=0.0)))

    def special(self, expected: Array, actual: Array) -> None:
        """One-sided infinities count as the largest number of the type; NaN on one side and opposite signs fail."""
        top = LARGEST.get(self.dtype, LARGEST["float32"])
        one = (np.isinf(expected) ^ np.isinf(actual)) & ~np.isnan(expected) & ~np.isnan(actual)
        self.broken += int(np.count_nonzero(~one))
        a, b = np.clip(expected[one].astype(np.float64), -top, top), np.clip(actual[one].astype(np.float64), -top, top)
        self._normal(np.abs(a - b) / (np.abs(a) + self.eps))

    def problems(self, metrics: Metrics) -> list[str]:
        found = []
        mean = self.sum / self.normal if self.normal else 0.0
        if self.broken:
            found.append(f"{self.broken} elements are NaN on one side or infinite with opposite signs")
        if not mean < self.threshold and self.normal:
            found.append(f"mean relative error {mean:.3g} is not below {self.threshold:.3g}")
        if not self.worst < 10 * self.threshold and self.normal:
            found.append(f"largest relative error {self.worst:.3g} is not below {10 * self.threshold:.3g}")
        allowed = self.ratio * max(self.reference_errors, 1)
        for count, where in ((self.small_failing, "small values"), (self.cancel_failing, "cancelled values")):
            if count > allowed:
                found.append(f"{count} errors among {where}, {allowed:g} are allowed")
        self.failing = self.small_failing + self.cancel_failing + self.broken
        return found


class Exact(Criterion):
    """Every element equal."""

    kind = "binary"

    def problems(self, metrics: Metrics) -> list[str]:
        self.failing = metrics.differing
        return [f"{metrics.differing} of {metrics.count} elements differ"] if metrics.differing else []


class Shares(Criterion):
    """``shares``: pairs (limit, share): more than ``share`` of the elements have a relative error below ``limit``."""

    kind = "shares"
    shares: list[list[float]]
    mild: list[list[float]] = []  # noqa: RUF012 - a default, never written to

    def __init__(self, dtype: str, **parameters: Any) -> None:
        super().__init__(dtype, **parameters)
        self.counts = {limit: 0 for limit, _ in (*self.shares, *self.mild)}

    def add(self, block: Block) -> None:
        for limit in self.counts:
            below = block.gap < block.gap.dtype.type(limit) * block.magnitude
            self.counts[limit] += int(np.count_nonzero(below | (block.gap == 0)))

    def _missed(self, metrics: Metrics, rows: list[list[float]]) -> list[str]:
        same = metrics.count - metrics.kind_mismatches
        return [
            f"{_rate(self.counts[limit], same):.4%} of the elements have a relative error below {limit:g}, "
            f"more than {share:.4%} are wanted"
            for limit, share in rows
            if same and not self.counts[limit] / same > share
        ]

    def problems(self, metrics: Metrics) -> list[str]:
        return self._missed(metrics, self.shares)

    def warnings(self, metrics: Metrics) -> list[str]:
        return self._missed(metrics, self.mild)


class Precheck(Shares):
    """Cosine first, then a small absolute error passes at once, then shares of relative errors."""

    kind = "precheck"
    cosine: float = 0.99
    absolute: float = 1e-3

    def problems(self, metrics: Metrics) -> list[str]:
        if not metrics.cosine > self.cosine:
            return [f"cosine {metrics.cosine:.6f} is not above {self.cosine:g}"]
        return [] if metrics.max_abs < self.absolute else super().problems(metrics)

    def warnings(self, metrics: Metrics) -> list[str]:
        return [] if metrics.max_abs < self.absolute else super().warnings(metrics)


class AbsoluteThreshold(Criterion):
    """Relative error at most ``rtol`` where |a| >= ``small``, absolute at most ``atol`` below; no exception."""

    kind = "abs-threshold"
    rtol: float
    small: float
    atol: float

    def add(self, block: Block) -> None:
        kind = block.gap.dtype.type
        limit = np.where(block.magnitude < kind(self.small), kind(self.atol), kind(self.rtol) * block.magnitude)
        self.failing += int(np.count_nonzero(block.gap > limit))

    def problems(self, metrics: Metrics) -> list[str]:
        return [f"{self.failing} elements exceed their limit"] if self.failing else []


class Ulps(Criterion):
    """fp16/bf16: fewer than ``share`` of the elements off by more than 1 ULP; fp32: mean below ``mean`` or few above 32."""

    kind = "ulp"
    share: float
    mean: float | None = None

    def problems(self, metrics: Metrics) -> list[str]:
        if metrics.ulp_mean is None or metrics.ulp_above_1 is None or metrics.ulp_above_32 is None:
            return [f"{metrics.differing} elements differ"] if metrics.differing else []
        if self.mean is None:
            off = metrics.ulp_above_1
            return [] if off < self.share else [f"{off:.4%} of the elements are off by more than 1 ULP"]
        if metrics.ulp_mean < self.mean or metrics.ulp_above_32 < self.share:
            return []
        return [f"mean error {metrics.ulp_mean:.3g} ULP, {metrics.ulp_above_32:.3%} above 32 ULP"]


class MaxUlps(Criterion):
    """No element off by more than ``ulps`` units in the last place of its type."""

    kind = "max-ulp"
    ulps: float

    def problems(self, metrics: Metrics) -> list[str]:
        if metrics.ulp_max is None:
            return [f"{metrics.differing} elements differ"] if metrics.differing else []
        return (
            []
            if metrics.ulp_max <= self.ulps
            else [f"the largest error is {metrics.ulp_max:.3g} ULP, {self.ulps:g} are allowed"]
        )


class WholeNet(Criterion):
    """Limits on metrics of the whole tensor."""

    kind = "net"
    cosine: float
    relative_euclidean: float
    kl: float
    rmse: float
    mean_rel: float

    def problems(self, metrics: Metrics) -> list[str]:
        found = []
        if not metrics.cosine > self.cosine:
            found.append(f"cosine {metrics.cosine:.6f} is not above {self.cosine:g}")
        for name in ("relative_euclidean", "kl", "rmse", "mean_rel"):
            value = getattr(metrics, name)
            if value is not None and not value < getattr(self, name):
                found.append(f"{name} {value:.4g} is not below {getattr(self, name):g}")
        return found


class MsOpSt(Criterion):
    """At most ``rtol`` of the elements off by more than ``atol`` |a|, none by more than ``max_atol`` |a|."""

    kind = "msopst"
    rtol: float
    atol: float
    max_atol: float

    def __init__(self, dtype: str, **parameters: Any) -> None:
        super().__init__(dtype, **parameters)
        self.far = 0

    def add(self, block: Block) -> None:
        kind = block.gap.dtype.type
        self.failing += int(np.count_nonzero(block.gap > kind(self.atol) * block.magnitude))
        self.far += int(np.count_nonzero(block.gap > kind(self.max_atol) * block.magnitude))

    def problems(self, metrics: Metrics) -> list[str]:
        found = []
        if self.failing > self.rtol * metrics.count:
            found.append(f"{self.failing} elements are off by more than {self.atol:g} |expected|")
        if self.far:
            found.append(f"{self.far} elements are off by more than {self.max_atol:g} |expected|")
        return found


class Quantised(Criterion):
    """Integers at most ``step`` apart."""

    kind = "quant"
    step: float = 1

    def problems(self, metrics: Metrics) -> list[str]:
        return [] if metrics.max_abs <= self.step else [f"largest difference {metrics.max_abs:g} exceeds {self.step:g}"]


class Dropout(Criterion):
    """The shares of zeros differ by less than ``share``, for tensors of at least ``at_least`` elements."""

    kind = "dropout"
    forgives_special = True
    share: float
    at_least: int

    def __init__(self, dtype: str, **parameters: Any) -> None:
        super().__init__(dtype, **parameters)
        self.zeros = [0, 0]

    def add(self, block: Block) -> None:
        self.zeros[0] += int(np.count_nonzero(block.expected == 0))
        self.zeros[1] += int(np.count_nonzero(block.actual == 0))

    def problems(self, metrics: Metrics) -> list[str]:
        apart = abs(self.zeros[0] - self.zeros[1]) / max(metrics.count, 1)
        if metrics.count < self.at_least or apart < self.share:
            return []
        return [f"the shares of zeros differ by {apart:.1%}"]


KINDS: Final[dict[str, type[Criterion]]] = {
    c.kind: c
    for c in (
        Combined,
        AnyExceeded,
        Ecosystem,
        Exact,
        Shares,
        Precheck,
        AbsoluteThreshold,
        Ulps,
        MaxUlps,
        WholeNet,
        MsOpSt,
        Quantised,
        Dropout,
    )
}
