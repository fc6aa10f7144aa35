"""Judging one operator's result from Python: ``compare`` for a pair of arrays or files, ``batch`` for many with a summary.

The same engine and rules as the command ``op_validate``; re-exported by the package of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.accumulate import BLOCK, Accumulator
from asc_devkit.precision.cause import Cause, classify
from asc_devkit.precision.metrics import Metrics
from asc_devkit.precision.policy import Policy
from asc_devkit.precision.policy.presets import INTEGERS
from asc_devkit.precision.sources import open_file

Array = np.ndarray[Any, Any]
Tensor = Any  # numpy array, torch tensor, anything numpy takes, or the path of a file


@dataclass(frozen=True)
class Report:
    """The verdict on one result: ``level`` pass, warning or error, the figures behind it, and the cause when it failed."""

    op_name: str
    dtype: str
    shape: tuple[int, ...]
    rule: str
    level: str
    reasons: tuple[str, ...]
    failing: int
    metrics: Metrics
    cause: Cause | None

    @property
    def passed(self) -> bool:
        return self.level != "error"

    @property
    def worst(self) -> list[tuple[tuple[int, ...], float, float]]:
        """Place, expected and actual value of the elements that are furthest apart, worst first."""
        shape = self.shape or (1,)
        return [
            (tuple(int(i) for i in np.unravel_index(w.index, shape)) if self.shape else (), w.expected, w.actual)
            for w in self.metrics.worst
            if w.index < int(np.prod(shape))
        ]

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        facts = {key: getattr(self, key) for key in ("op_name", "dtype", "rule", "level", "passed", "failing")}
        facts |= {"shape": list(self.shape), "reasons": list(self.reasons), "metrics": self.metrics.as_dict()}
        return {**facts, "cause": self.cause.as_dict() if self.cause is not None else None}

    def __str__(self) -> str:
        m = self.metrics
        figures = f"MAE {m.mean_abs:.4g} MRE {m.mean_rel:.4g} MaxAE {m.max_abs:.4g} MaxRE {m.max_rel:.4g} cosine {m.cosine:.6f}"
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        cause = f" [{self.cause.kind}: {self.cause.evidence}]" if self.cause is not None else ""
        return f"{self.op_name or 'operator'} {self.level.upper()} ({self.rule}) {figures}{why}{cause}"


@dataclass(frozen=True)
class Batch:
    """Reports by name, with the summary over all of them."""

    reports: dict[str, Report]

    @property
    def passed(self) -> bool:
        return bool(self.reports) and all(report.passed for report in self.reports.values())

    def summary(self) -> dict[str, Any]:
        """Counts by level and by cause, the names that failed, and the worst figures of all."""
        rows = self.reports.values()
        return {
            "total": len(self.reports),
            "levels": dict(Counter(report.level for report in rows)),
            "causes": dict(Counter(report.cause.kind for report in rows if report.cause is not None)),
            "failed": [name for name, report in self.reports.items() if not report.passed],
            "max_abs": max((report.metrics.max_abs for report in rows), default=0.0),
            "max_rel": max((report.metrics.max_rel for report in rows), default=0.0),
            "min_cosine": min((report.metrics.cosine for report in rows), default=1.0),
        }

    def __str__(self) -> str:
        facts = self.summary()
        lines = [str(report) for report in self.reports.values()]
        levels = ", ".join(f"{count} {level}" for level, count in facts["levels"].items())
        return "\n".join([*lines, f"{facts['total']} operators: {levels or 'nothing compared'}"])


def compare(
    golden: Tensor,
    actual: Tensor,
    op_name: str = "",
    *,
    abs_tolerance: float = 1e-3,
    rel_tolerance: float = 1e-2,
    error_rate_threshold: float = 0.0,
    criterion: str = "any",
    equal_nan: bool = True,
) -> Report:
    """Judge ``actual`` against ``golden`` (arrays, torch tensors, or paths of files; same shape, any element types).

    ``criterion``: ``any`` (an element fails when its absolute *or* its relative error is too large), ``combined``
    (|a-b| <= abs + rel |a|), or a standard by name, which brings its own numbers. ``error_rate_threshold``: the share
    of failing elements must stay below it. Raises ``AscError`` for shapes that differ (ASC5001), unknown standards (ASC5110)
    and files that cannot be read (ASC51xx).
    """
    expected, found = _array(golden), _array(actual)
    if expected.shape != found.shape:
        raise AscError(
            Problem(
                "ASC5001",
                f"The arrays have the shapes {list(expected.shape)} and {list(found.shape)}.",
                "They are not the same tensor, or one was cut.",
                nodes=(op_name,) if op_name else (),
            )
        )
    numbers: dict[str, Any] = {"atol": abs_tolerance, "rtol": rel_tolerance, "error_rate": error_rate_threshold}
    policy = Policy(criterion, numbers if criterion in ("any", "combined") else {})
    name = found.dtype.name
    rule = policy.criterion(name, op_name, op_name)
    sums = Accumulator(
        atol=abs_tolerance,
        rtol=rel_tolerance,
        shape=(*expected.shape, 2) if expected.dtype.kind == "c" else expected.shape,
        target="" if name in INTEGERS else name,
        kl=name not in INTEGERS and expected.size > 0,
        criteria=[rule],
        equal_nan=equal_nan,
    )
    left, right = np.ascontiguousarray(expected).reshape(-1), np.ascontiguousarray(found).reshape(-1)
    for start in range(0, left.size, BLOCK):
        sums.add_flat(left[start : start + BLOCK], right[start : start + BLOCK])
    if sums.kl:
        for start in range(0, left.size, BLOCK):
            sums.add_divergence(left[start : start + BLOCK], right[start : start + BLOCK])
    metrics = sums.result()
    verdict = rule.verdict(metrics)
    cause = classify(expected, found, name) if verdict.level == "error" else None
    return Report(
        op_name, name, found.shape, verdict.rule, verdict.level, verdict.reasons, verdict.failing, metrics, cause
    )


def batch(pairs: Mapping[str, tuple[Tensor, Tensor]] | Iterable[tuple[str, Tensor, Tensor]], **options: Any) -> Batch:
    """``compare`` for many operators: a mapping of name to (golden, actual), or triples; ``options`` as in ``compare``."""
    triples = ((name, *pair) for name, pair in pairs.items()) if isinstance(pairs, Mapping) else pairs
    return Batch({name: compare(golden, actual, name, **options) for name, golden, actual in triples})


def _array(value: Tensor) -> Array:
    if isinstance(value, (str, Path)):
        return open_file(Path(value))[0].array()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            import ml_dtypes

            return np.asarray(value.view(_torch_int16(value)).numpy()).view(ml_dtypes.bfloat16)
        return np.asarray(value.numpy())
    return np.asarray(value)


def _torch_int16(value: Any) -> Any:
    import sys

    return sys.modules["torch"].int16
