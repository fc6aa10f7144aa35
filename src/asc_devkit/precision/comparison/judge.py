"""Where the trouble starts: which operators add error of their own, and which only pass it on.

For an operator whose inputs and outputs were dumped, and which can be executed again (``local.guess``), the verdict is that of
its own inputs: the target's output against what the operator makes of the target's inputs. Where that is not possible an
operator is to blame when its output is further off than its inputs and rounding explain (relative Euclidean
distance above ``FACTOR`` times the inputs' and the type's noise), or when values turn non-finite in it. With outputs only, the
tensors before it in order stand for its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.precision.cause import Cause, classify
from asc_devkit.precision.comparison.pairs import Row
from asc_devkit.precision.local.model import ModelVerdict
from asc_devkit.precision.scales import PRECISION
from asc_devkit.precision.sources import TensorRef

NOISE: Final = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-22, "float64": 2.0**-50}
FACTOR: Final = 2.0
SUDDEN: Final = 4.0
MAX_AGAIN: Final = 64 << 20  # elements of one operator's tensors that are executed again
SUMS: Final = frozenset({"add", "sub", "addv2", "rsub", "biasadd", "reducemean", "mean"})


@dataclass
class Finding:
    """One operator that is to blame. ``how``: ``executed again`` or ``distance``."""

    op: str
    op_type: str
    name: str
    kind: str
    own_error: float
    inherited: float
    sudden: bool
    why: str
    how: str = "distance"
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


@dataclass(frozen=True)
class Tensors:
    """Where the tensors of both sides are found by name, to execute operators again."""

    golden: Mapping[str, TensorRef]
    target: Mapping[str, TensorRef]


def with_model(found: Sequence[Finding], verdict: ModelVerdict) -> list[Finding]:
    """The model's verdict in place of what tensors alone suggest, for every operator it executed."""
    executed = {name for op in verdict.operators for name in (op.worst.op, op.worst.output)}
    named = [
        Finding(
            op.worst.op,
            op.worst.op_type,
            op.worst.output,
            op.worst.cause.kind,
            op.worst.local_error,
            op.worst.inherited,
            True,
            f"{op.statement}; {op.worst.cause.evidence}",
            "executed again",
            op.worst.cause.advice,
        )
        for op in verdict.faulty
    ]
    return named + [f for f in found if f.op not in executed and f.name not in executed and f.how == "executed again"]


def distance(row: Row) -> float:
    """How far off a tensor is, 1 when it cannot be told."""
    if row.metrics is None:
        return 0.0
    value = row.metrics.relative_euclidean
    return value if value < 1e30 else 1.0


def findings(rows: Sequence[Row], tensors: Tensors | None = None) -> list[Finding]:
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
            again = _again(row, inputs, tensors) if tensors is not None and with_inputs else None
            if again is not None:
                finding = _local(op, row, again, inherited)
            else:
                finding = _judge(op, row, inputs, inherited, special)
            if finding is not None:
                found.append(finding)
                break
        before = max((distance(row) for row in outputs), default=before)
        before_special = max((_special(row) for row in outputs), default=before_special)
    return found


def _again(row: Row, inputs: Sequence[Row], tensors: Tensors) -> Cause | None:
    """The cause class of the output against the operator executed again on the target's inputs."""
    from asc_devkit.precision.local.guess import expected_output

    output, actual = tensors.golden.get(row.golden), tensors.target.get(row.target)
    theirs = [tensors.golden.get(r.golden) for r in inputs]
    ours = [tensors.target.get(r.target) for r in inputs]
    if output is None or actual is None or not inputs or None in theirs or None in ours:
        return None
    if sum(ref.size for ref in (output, *theirs) if ref is not None) > MAX_AGAIN or output.size != actual.size:
        return None
    made = expected_output(
        row.op_type,
        [ref.array() for ref in theirs if ref is not None],
        output.array(),
        [ref.array() for ref in ours if ref is not None],
    )
    found = actual.array()
    if made is None or made.size != found.size:
        return None
    return classify(rounded(made.reshape(found.shape), found), found, row.judged or found.dtype.name)


def rounded(expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``expected`` with what leaves the range of the actual's type as the infinity it becomes there."""
    if actual.dtype.name not in PRECISION or expected.dtype.kind != "f":
        return expected
    with np.errstate(over="ignore"):
        narrow = expected.astype(actual.dtype).astype(np.float64)
    return np.where(np.isinf(narrow), narrow, expected.astype(np.float64))


def _local(op: str, row: Row, again: Cause, inherited: float) -> Finding | None:
    if again.kind == "rounding":
        return None
    own = distance(row)
    why = f"executed again on its own inputs: {again.evidence}"
    return Finding(op, row.op_type, row.name, again.kind, own, inherited, True, why, "executed again", again.advice)


def _special(row: Row) -> int:
    return row.metrics.kind_mismatches if row.metrics is not None else 0


def _judge(op: str, row: Row, inputs: Sequence[Row], inherited: float, special: int) -> Finding | None:
    if row.metrics is None:
        return None
    own = distance(row)
    noise = NOISE.get(row.judged, NOISE["float16"])
    made = _special(row) > special
    limit = FACTOR * max(inherited, noise)
    if not made and (not own > limit or _cancels(row, inputs)):
        return None
    why = (
        f"{_special(row)} elements differ in kind (NaN, infinity), {special} in its inputs"
        if made
        else f"relative distance {own:.3g}, inputs {inherited:.3g}"
    )
    kind = row.cause.kind if row.cause is not None else "accumulated"
    advice = row.cause.advice if row.cause is not None else ""
    sudden = made or own > SUDDEN * max(inherited, noise)
    return Finding(op, row.op_type, row.name, kind, own, inherited, sudden, why, "distance", advice)


def _cancels(row: Row, inputs: Sequence[Row]) -> bool:
    """A sum whose absolute error is no larger than those of its summands: large numbers cancelled, nobody is to blame."""
    if row.op_type.lower().strip("_") not in SUMS or row.metrics is None:
        return False
    brought = sum(r.metrics.rmse for r in inputs if r.metrics is not None)
    rounding = max((r.metrics.expected_norm / max(r.metrics.count, 1) ** 0.5 for r in inputs if r.metrics), default=0.0)
    return row.metrics.rmse <= FACTOR * (brought + rounding * NOISE.get(row.judged, NOISE["float16"]))


def trend(rows: Sequence[Row], found: Sequence[Finding]) -> str:
    """``sudden`` when one operator brings most of the error, ``accumulated`` when it grows slowly, ``none``."""
    if not any(row.level == "error" for row in rows):
        return "none"
    return "sudden" if any(f.sudden for f in found) else "accumulated"
