"""Where the trouble starts, from tensors alone: which operators add error of their own, and which only pass it on.

With inputs and outputs dumped, an operator is to blame when its output is further off than its inputs and rounding
explain (relative Euclidean distance above ``FACTOR`` times the inputs' and the type's noise), or when values turn
non-finite in it. With outputs only, the tensors before it in order stand for its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from asc_devkit.precision.comparison.pairs import Row

NOISE: Final = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-22, "float64": 2.0**-50}
FACTOR: Final = 2.0
SUDDEN: Final = 4.0


@dataclass
class Finding:
    """One operator that is to blame."""

    op: str
    op_type: str
    name: str
    kind: str
    own_error: float
    inherited: float
    sudden: bool
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


def distance(row: Row) -> float:
    """How far off a tensor is, 1 when it cannot be told."""
    if row.metrics is None:
        return 0.0
    value = row.metrics.relative_euclidean
    return value if value < 1e30 else 1.0


def findings(rows: Sequence[Row]) -> list[Finding]:
    """The operators that add error of their own, in the order of the rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.op or row.name, []).append(row)
    with_inputs = any(row.side == "input" for row in rows)
    found: list[Finding] = []
    before, before_special = 0.0, 0
    for op, group in groups.items():
        outputs = [row for row in group if row.side != "input"]
        inputs = [row for row in group if row.side == "input"]
        if with_inputs:
            inherited = max((distance(row) for row in inputs), default=0.0)
            special = max((_special(row) for row in inputs), default=0)
        else:
            inherited, special = before, before_special
        for row in outputs:
            finding = _judge(op, row, inherited, special)
            if finding is not None:
                found.append(finding)
                break
        before = max((distance(row) for row in outputs), default=before)
        before_special = max((_special(row) for row in outputs), default=before_special)
    return found


def _special(row: Row) -> int:
    return row.metrics.kind_mismatches if row.metrics is not None else 0


def _judge(op: str, row: Row, inherited: float, special: int) -> Finding | None:
    if row.metrics is None:
        return None
    own = distance(row)
    kind = row.cause.kind if row.cause is not None else "accumulated"
    noise = NOISE.get(row.dtype, NOISE["float16"])
    made = _special(row) > special
    limit = FACTOR * max(inherited, noise)
    if not made and not own > limit:
        return None
    why = (
        f"{_special(row)} elements differ in kind (NaN, infinity), {special} in its inputs"
        if made
        else f"relative distance {own:.3g}, inputs {inherited:.3g}"
    )
    sudden = made or own > SUDDEN * max(inherited, noise)
    return Finding(op, row.op_type, row.name, kind, own, inherited, sudden, why)


def trend(rows: Sequence[Row]) -> str:
    """``sudden`` when one operator brings most of the error, ``accumulated`` when it grows slowly, ``none``."""
    failing = [row for row in rows if row.level == "error"]
    if not failing:
        return "none"
    return "sudden" if any(f.sudden for f in findings(rows)) else "accumulated"
