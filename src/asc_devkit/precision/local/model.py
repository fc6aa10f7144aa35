"""The verdict of a model on a target, over one or several inputs: which operators are wrong, which only round.

The operators are executed again on the target's own inputs (``localise``) for every run. An operator wrong in any run is a bug;
the share of inputs it is wrong for gets a lower bound. One that is right in all runs is limited by its type alone, and the
share of inputs for which it could still be wrong an upper bound; both are exact (Clopper-Pearson, 95 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.local.localise import LocalRow, localise
from asc_devkit.precision.sources import Collection

CONFIDENCE: Final = 0.95
BEFORE: Final = 3
AFTER: Final = 3
SHOWN: Final = 40  # operators of a neighbourhood
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class OperatorVerdict:
    """One operator over ``runs`` inputs; ``worst`` is its row with the largest own error, faulty ones first.

    ``low`` and ``high`` bound the share of inputs for which it is wrong, each with 95 % confidence.
    """

    worst: LocalRow
    runs: int
    faulty_runs: int
    low: float
    high: float

    @property
    def statement(self) -> str:
        """What the runs say, as a sentence."""
        if self.runs == 1:
            return "wrong on its own inputs: a bug" if self.faulty_runs else "right on its own inputs"
        if self.faulty_runs:
            return f"wrong in {self.faulty_runs} of {self.runs} inputs: a bug (95 % sure: for {self.low:.0%} of inputs or more)"
        return f"right in all of {self.runs} inputs (95 % sure: wrong for {self.high:.0%} of inputs at most)"

    def as_dict(self) -> dict[str, Any]:
        facts = {key: getattr(self, key) for key in ("runs", "faulty_runs", "low", "high", "statement")}
        return {**self.worst.as_dict(), **facts}


@dataclass(frozen=True)
class Neighbourhood:
    """The operators around the first faulty one. ``nodes``: name, type, column (0: that one, negative: before it)."""

    nodes: list[dict[str, Any]]
    edges: list[tuple[str, str]]


@dataclass(frozen=True)
class ModelVerdict:
    """``limited``: ``bug`` (an operator is wrong), ``dtype`` (every operator that matters was executed and computes what its
    inputs ask for), ``undecided`` (nothing wrong, but ``missing`` operators could not be executed)."""

    path: Path
    runs: int
    operators: tuple[OperatorVerdict, ...]
    missing: tuple[str, ...]
    around: Neighbourhood | None = None

    @property
    def faulty(self) -> list[OperatorVerdict]:
        return [op for op in self.operators if op.faulty_runs]

    @property
    def limited(self) -> str:
        if self.faulty:
            return "bug"
        return "undecided" if self.missing or not self.operators else "dtype"

    @property
    def statement(self) -> str:
        """The verdict as a sentence."""
        many = f"{len(self.operators)} operators on {self.runs} input{'s' if self.runs != 1 else ''}"
        if self.faulty:
            return f"{len(self.faulty)} of {many} do not compute what their own inputs ask for"
        healthy = f"{many} compute what their own inputs ask for"
        cancels = sum(op.worst.verdict == "cancels" for op in self.operators)
        grown = f"; {cancels} of them amplify inherited error (cancellation, benign)" if cancels else ""
        if self.limited == "undecided":
            return f"{healthy}{grown}; {len(self.missing)} could not be executed: {', '.join(self.missing[:5])}"
        high = max(op.high for op in self.operators)
        sure = (
            f" (95 % sure for {1 - high:.0%} of inputs)"
            if self.runs > 1
            else " on this input; more inputs make it surer"
        )
        return f"{healthy}{grown}: what differs is the element type's rounding, no bug{sure}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": str(self.path),
            "runs": self.runs,
            "limited": self.limited,
            "statement": self.statement,
            "operators": [op.as_dict() for op in self.operators],
            "missing": list(self.missing),
            "around": None if self.around is None else {"nodes": self.around.nodes, "edges": self.around.edges},
        }


def load_model(path: Path) -> onnx.ModelProto:
    """The ONNX form of a model file: of any framework that is converted, or an offline model. Raises ``AscError``."""
    if path.suffix.lower() in (".om", ".om2"):
        from asc_devkit import om
        from asc_devkit.om.to_onnx import rebuild

        return rebuild(om.read(path)).proto()
    from asc_devkit.frontends.source import Source, framework_of

    source = Source(path, framework_of(path))
    if not source.is_onnx:
        return source.to_onnx()[0]
    source.load(host_ops=True)  # the checks of a hostile file
    try:
        return onnx.load(path)
    except Exception as error:  # onnx and protobuf have no common base
        what = f"{path} cannot be read as an ONNX model: {error}"[:300]
        raise AscError(
            Problem("ASC5108", what, fix="Give the model the dumps come from.", nodes=(str(path),))
        ) from None


def judge_model(
    path: Path,
    model: onnx.ModelProto,
    runs: Sequence[tuple[Collection, Collection]],
    tell: Progress = lambda what, share: None,
) -> ModelVerdict:
    """Judge every operator of ``model`` on ``runs`` of (golden, target). Raises ``AscError`` (ASC5109) when no tensor fits."""
    rows: dict[tuple[str, str], list[LocalRow]] = {}
    for number, (golden, target) in enumerate(runs):
        tell(f"execute operators again, input {number + 1} of {len(runs)}", number / len(runs))
        for row in localise(model, target, golden):
            rows.setdefault((row.op, row.output), []).append(row)
    if not rows:
        raise AscError(
            Problem(
                "ASC5109",
                f"No tensor of {runs[0][1].path if runs else 'the target'} is one of {path.name}.",
                "Operators are executed again where the dump holds their inputs and outputs under the model's names.",
                "Give the model the dumps come from, or compare without --model.",
            )
        )
    seen = {output for _, output in rows}
    missing = tuple(
        node.name or node.output[0]
        for node in model.graph.node
        if node.op_type != "Constant" and not any(name in seen for name in node.output)
    )
    operators = tuple(_verdicts(rows.values()))
    first = next((op for op in operators if op.faulty_runs), None)
    around = neighbourhood(model, first.worst.output) if first is not None else None
    return ModelVerdict(path, len(runs), operators, missing, around)


def neighbourhood(model: onnx.ModelProto, output: str) -> Neighbourhood:
    """Operators up to ``BEFORE`` steps before and ``AFTER`` steps after the one that makes ``output``, at most ``SHOWN``."""
    nodes = list(model.graph.node)
    maker = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    users: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        for name in node.input:
            users.setdefault(name, []).append(place)
    columns = {maker[output]: 0}
    for step in range(1, BEFORE + 1):
        edge = [p for p, c in columns.items() if c == 1 - step]
        for place in edge:
            for name in nodes[place].input:
                if name in maker and len(columns) < SHOWN:
                    columns.setdefault(maker[name], -step)
    for step in range(1, AFTER + 1):
        edge = [p for p, c in columns.items() if c == step - 1]
        for place in edge:
            for name in nodes[place].output:
                for user in users.get(name, ()):
                    if len(columns) < SHOWN:
                        columns.setdefault(user, step)

    def title(place: int) -> str:
        return nodes[place].name or nodes[place].output[0]

    shown = [
        {"name": title(place), "op_type": nodes[place].op_type, "column": column, "tensors": list(nodes[place].output)}
        for place, column in sorted(columns.items())
    ]
    edges = {
        (title(maker[name]), title(place))
        for place in columns
        for name in nodes[place].input
        if maker.get(name) in columns
    }
    return Neighbourhood(shown, sorted(edges))


def _verdicts(groups: Iterable[list[LocalRow]]) -> Iterable[OperatorVerdict]:
    for group in groups:
        faulty = sum(row.faulty for row in group)
        worst = max(group, key=lambda r: (r.faulty, r.verdict == "cancels", r.local_error))
        low, high = bounds(faulty, len(group))
        yield OperatorVerdict(worst, len(group), faulty, low, high)


def bounds(hits: int, trials: int) -> tuple[float, float]:
    """One-sided 95 % bounds of a share (Clopper-Pearson) of which ``hits`` of ``trials`` were seen."""
    alpha = 1 - CONFIDENCE
    low = 0.0 if hits == 0 else _solve(lambda p: _at_least(hits, trials, p), alpha)
    high = 1.0 if hits == trials else _solve(lambda p: 1 - _at_least(hits + 1, trials, p), alpha, falling=True)
    return low, high


def _at_least(hits: int, trials: int, p: float) -> float:
    return math.fsum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1))


def _solve(function: Callable[[float], float], value: float, falling: bool = False) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) > value) == falling:
            low = middle
        else:
            high = middle
    return (low + high) / 2
