"""One pair of tensors: read both in blocks, measure, judge, and look for the cause when it fails. Runs in worker processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError
from asc_devkit.precision.accumulate import BLOCK, Accumulator
from asc_devkit.precision.cause import Cause, classify
from asc_devkit.precision.comparison.match import Pair
from asc_devkit.precision.held import holds
from asc_devkit.precision.metrics import Metrics
from asc_devkit.precision.policy import Policy
from asc_devkit.precision.policy.presets import INTEGERS

CHUNK: Final = 1 << 20  # elements read at once; a multiple of BLOCK
MAX_CAUSE: Final = 32 << 20  # elements of a tensor that is looked at as a whole for its cause


@dataclass(frozen=True)
class PairOptions:
    """What is measured for every pair. ``cosine`` is an extra gate; None leaves it out.

    ``judge_as``: ``auto`` (the device's type where known, or the shorter type whose values a float32 file holds), ``file``
    (the file's own type), or the name of an element type. ``held``: the type whose values the target's float32 files hold.
    """

    policy: Policy
    atol: float = 1e-3
    rtol: float = 1e-3
    cosine: float | None = None
    kl: bool = True
    equal_nan: bool = True
    cause: bool = True
    also: tuple[Policy, ...] = ()
    judge_as: str = "auto"
    held: str = "float32"


_PLAIN: Final = (
    *("name", "how", "level", "golden", "target", "op", "op_type", "side", "index"),
    *("dtype", "golden_dtype", "judged", "reasons", "rule", "failing"),
)


@dataclass
class Row:
    """The result for one pair. ``level``: pass, warning, error, or unreadable."""

    name: str
    how: str
    level: str
    golden: str
    target: str
    op: str = ""
    op_type: str = ""
    side: str = ""
    index: int = 0
    dtype: str = ""
    golden_dtype: str = ""
    judged: str = ""
    shape: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    rule: str = ""
    failing: int = 0
    metrics: Metrics | None = None
    cause: Cause | None = None
    also: tuple[tuple[str, str, int], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {key: getattr(self, key) for key in _PLAIN}
        facts["shape"] = list(self.shape)
        facts["metrics"] = self.metrics.as_dict() if self.metrics is not None else None
        facts["cause"] = self.cause.as_dict() if self.cause is not None else None
        facts["also"] = [{"rule": rule, "level": level, "failing": failing} for rule, level, failing in self.also]
        return facts


def measure(pair: Pair, options: PairOptions) -> Row:
    """Compare one pair; whatever is wrong with its files becomes a row of level ``unreadable``."""
    golden, target = pair.golden, pair.target
    facts = {**golden.facts, **target.facts}
    row = Row(
        pair.name,
        pair.how,
        "unreadable",
        golden.name,
        target.name,
        op=str(facts.get("op", "")),
        op_type=str(facts.get("op_type", "")),
        side=str(facts.get("side", "")),
        index=int(facts.get("index", 0) or 0),
        dtype=target.dtype.name,
        golden_dtype=golden.dtype.name,
        shape=target.shape,
    )
    try:
        if golden.size != target.size:
            row.level, row.rule = "error", "shape"
            row.reasons = (f"the shapes differ: {list(golden.shape)} expected, {list(target.shape)} found",)
            return row
        _measure(row, pair, options)
    except AscError as error:
        row.reasons = tuple(f"{p.code}: {p.what}" for p in error.problems)
    except OSError as error:
        row.reasons = (f"ASC5101: {error.strerror or error}",)
    return row


def _measure(row: Row, pair: Pair, options: PairOptions) -> None:
    golden, target = pair.golden, pair.target
    policies = (options.policy, *options.also)
    judged = row.judged = _judged_type(pair, options)
    criteria = [policy.criterion(judged, row.op_type, row.op) for policy in policies]
    shape = golden.shape if golden.shape == target.shape or len(golden.shape) > len(target.shape) else target.shape
    if golden.dtype.kind == "c":
        shape = (*shape, 2)
    floating = target.dtype.name not in INTEGERS
    sums = Accumulator(
        atol=options.atol,
        rtol=options.rtol,
        shape=shape,
        target=judged if floating else "",
        kl=False,
        criteria=criteria,
        equal_nan=options.equal_nan,
    )
    whole = golden.size <= CHUNK
    for a, b in zip(golden.blocks(CHUNK), target.blocks(CHUNK), strict=True):
        for start in range(0, a.size, BLOCK):
            sums.add_flat(a[start : start + BLOCK], b[start : start + BLOCK])
        if whole and options.kl and floating:  # still in the cache
            for start in range(0, a.size, BLOCK):
                sums.add_divergence(a[start : start + BLOCK], b[start : start + BLOCK])
    if not whole and options.kl and floating:
        for a, b in zip(golden.blocks(CHUNK), target.blocks(CHUNK), strict=True):
            for start in range(0, a.size, BLOCK):
                sums.add_divergence(a[start : start + BLOCK], b[start : start + BLOCK])
    metrics = row.metrics = sums.result()
    verdict = criteria[0].verdict(metrics)
    row.rule, row.failing = verdict.rule, verdict.failing
    reasons = list(verdict.reasons)
    row.level = verdict.level
    if options.cosine is not None and not metrics.cosine >= options.cosine:
        row.level = "error"
        reasons.append(f"cosine {metrics.cosine:.6f} is below {options.cosine:g}")
    row.also = tuple((v.rule, v.level, v.failing) for v in (c.verdict(metrics) for c in criteria[1:]))
    row.reasons = tuple(reasons)
    if options.cause and row.level == "error" and golden.size <= MAX_CAUSE:
        expected, actual = np.asarray(golden.array()), np.asarray(target.array())
        row.cause = classify(expected.reshape(shape if expected.dtype.kind != "c" else golden.shape), actual, judged)


def _judged_type(pair: Pair, options: PairOptions) -> str:
    """The element type whose rounding is forgiven."""
    own, wanted = str(pair.target.dtype.name), options.judge_as
    if wanted not in ("auto", "file"):
        return wanted if own not in INTEGERS else own
    device = str(pair.target.facts.get("device_dtype", "")).lower()
    if device in ("float16", "bfloat16"):
        return device
    if wanted == "auto" and options.held != own:
        first = next(iter(pair.target.blocks(CHUNK)), None)
        if first is not None and holds(first, options.held):
            return options.held
    return own
