"""What a comparison found, as data: rows, pairs that found no partner, operators to blame; and as JSON (schema 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from asc_devkit.errors import Problem
from asc_devkit.precision.cause import Cause
from asc_devkit.precision.comparison.judge import Finding
from asc_devkit.precision.comparison.match import Matching
from asc_devkit.precision.comparison.pairs import PairOptions, Row
from asc_devkit.precision.local.model import ModelVerdict
from asc_devkit.precision.metrics import Metrics, Worst
from asc_devkit.precision.sources import Collection
from asc_devkit.precision.sources.folders import Statistics

SCHEMA: Final = "asc-devkit/compare/1"
STATISTIC_ERROR: Final = 0.5  # relative difference of a norm, as the vendor's tool judges statistics
STATISTIC_INPUT: Final = 0.1


@dataclass
class Result:
    """``passed``: every pair was read and met its rule, and at least one pair there was."""

    golden: Collection
    target: Collection
    matching: Matching
    rows: list[Row]
    findings: list[Finding]
    trend: str
    problems: list[Problem]
    options: PairOptions
    notes: list[str] = field(default_factory=list)
    verdict: ModelVerdict | None = None
    pictures: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return bool(self.rows) and all(row.level in ("pass", "warning") for row in self.rows) and not self.problems

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a tensor failed, 2 nothing comparable or files that cannot be read."""
        if any(row.level == "error" for row in self.rows):
            return 1
        return 0 if self.passed else 2

    @property
    def first(self) -> Finding | None:
        return self.findings[0] if self.findings else None

    def counts(self) -> dict[str, int]:
        levels = ("pass", "warning", "error", "unreadable")
        return {level: sum(row.level == level for row in self.rows) for level in levels}

    def as_dict(self) -> dict[str, Any]:
        """The whole result as JSON data."""
        policy = self.options.policy
        return {
            "schema": SCHEMA,
            "golden": {"path": str(self.golden.path), "kind": self.golden.kind},
            "target": {"path": str(self.target.path), "kind": self.target.kind},
            "standard": {"name": policy.preset, "numbers": policy.numbers, "overrides": policy.overrides},
            "passed": self.passed,
            "summary": {
                **self.counts(),
                "only_golden": len(self.matching.only_golden),
                "only_target": len(self.matching.only_target),
                "trend": self.trend,
                "first_divergence": self.first.op if self.first else None,
            },
            "model": self.verdict.as_dict() if self.verdict is not None else None,
            "findings": [finding.as_dict() for finding in self.findings],
            "tensors": [row.as_dict() for row in self.rows],
            "only_golden": self.matching.only_golden,
            "only_target": self.matching.only_target,
            "problems": [problem.as_dict() for problem in self.problems],
            "notes": self.notes,
        }

    def page(self) -> dict[str, Any]:
        """``as_dict`` with what the HTML page draws beyond it: pictures of errors by tensor name."""
        return {**self.as_dict(), "pictures": self.pictures}


def row_from(facts: dict[str, Any]) -> Row:
    """The inverse of ``Row.as_dict``. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for other data."""
    facts = dict(facts)
    metrics, cause, also = facts.pop("metrics"), facts.pop("cause"), facts.pop("also")
    facts["shape"] = tuple(facts["shape"])
    facts["reasons"] = tuple(facts["reasons"])
    row = Row(**facts)
    if metrics is not None:
        pairs = ("quantiles", "error_histogram", "ulp_histogram")
        metrics |= {name: tuple((float(x), y) for x, y in metrics[name]) for name in pairs}
        metrics["worst"] = tuple(Worst(**w) for w in metrics["worst"])
        row.metrics = Metrics(**metrics)
    row.cause = Cause(**cause) if cause is not None else None
    row.also = tuple((a["rule"], a["level"], a["failing"]) for a in also)
    return row


def statistics_rows(golden: Collection, target: Collection) -> list[Row]:
    """Tensors of which both sides have statistics only: relative difference of Max, Min, Mean and Norm.

    An operator fails when its output's norm is off by more than half while its inputs' are not.
    """
    rows: list[Row] = []
    inputs: dict[str, float] = {}
    for name, ours in target.statistics.items():
        theirs = golden.statistics.get(name)
        if theirs is None:
            continue
        relative = {
            key: _relative(theirs.values.get(key), ours.values.get(key)) for key in ("Max", "Min", "Mean", "Norm")
        }
        norm = relative["Norm"]
        op = str(ours.facts.get("op", ""))
        if ours.facts.get("side") == "input":
            inputs[op] = max(inputs.get(op, 0.0), norm or 0.0)
        rows.append(_statistics_row(ours, theirs, relative, inputs.get(op, 0.0)))
    return rows


def _statistics_row(ours: Statistics, theirs: Statistics, relative: dict[str, float | None], before: float) -> Row:
    norm = relative["Norm"]
    row = Row(ours.name, "name", "pass", theirs.name, ours.name, dtype=ours.dtype, golden_dtype=theirs.dtype)
    row.op, row.op_type = str(ours.facts.get("op", "")), str(ours.facts.get("op_type", ""))
    row.side, row.index = str(ours.facts.get("side", "")), int(ours.facts.get("index", 0) or 0)
    row.shape, row.rule = ours.shape, "statistics"
    if ours.shape != theirs.shape:
        row.level, row.reasons = "error", (f"the shapes differ: {list(theirs.shape)}, {list(ours.shape)}",)
    elif norm is None:
        bad = {k for k in ("Max", "Min", "Norm") if _finite(theirs.values.get(k)) != _finite(ours.values.get(k))}
        if bad:
            row.level, row.reasons = "error", (f"{', '.join(sorted(bad))} is finite on one side only",)
    elif row.side != "input" and norm > STATISTIC_ERROR and before < STATISTIC_INPUT:
        row.level, row.reasons = "error", (f"the norm is off by {norm:.1%}, its inputs by {before:.1%}",)
    elif row.side != "input" and norm > max(10 * before, STATISTIC_INPUT):
        row.level, row.reasons = "warning", (f"the norm is off by {norm:.1%}, its inputs by {before:.1%}",)
    return row


def _finite(value: float | None) -> bool:
    return value is not None and abs(value) < float("inf")


def _relative(golden: float | None, target: float | None) -> float | None:
    if not (_finite(golden) and _finite(target)):
        return None
    assert golden is not None and target is not None
    if golden == target:
        return 0.0
    return abs(golden - target) / max(abs(golden), 1e-12)
