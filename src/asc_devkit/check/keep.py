"""Which operators must keep float32 so that every output is close enough: a search with real conversions and runs.

Operators are ranked by saturation and by their own error (``layers.judge``). The shortest prefix of the ranking that
reaches the target is found by bisection; then ever smaller parts of it are left out (delta debugging) until no single
operator can be: the result is minimal in this sense, found without trying all sets. Called by ``asc tune-precision`` and
``atc --auto_keep_dtype``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import onnx_ir as ir

from asc_devkit import atc, files, npu, om, perf
from asc_devkit.check import accuracy
from asc_devkit.check import data as samples_module
from asc_devkit.check.reference import Reference
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ENGINE, ORIGIN_OPS, Engine

MAX_SAMPLES: Final = 32
Progress = Callable[[str], None]
#: Metrics a target can be set for: True where more is better. All are columns of ``precision.Metrics``.
METRICS: Final[dict[str, bool]] = {
    "cosine": True,
    "close_share": True,
    "relative_euclidean": False,
    "rmse": False,
    "max_abs": False,
    "mean_abs": False,
    "max_rel": False,
    "mean_rel": False,
}


@dataclass(frozen=True)
class Target:
    """What every output must reach: ``value`` of ``metric`` (a key of ``METRICS``).

    For the cosine the length of the output must fit too (``accuracy.accepted``); a NaN that the original does not have never
    passes.
    """

    value: float
    metric: str = "cosine"

    def met(self, output: dict[str, Any]) -> bool:
        """Whether one row of ``accuracy.outputs`` is good enough."""
        if self.metric == "cosine":
            return accuracy.accepted(output, self.value)
        found = output[self.metric]
        better = found >= self.value if METRICS[self.metric] else found <= self.value
        return bool(better and output["nan_actual"] <= output["nan_expected"] and not output["kind_mismatches"])

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if METRICS[self.metric] else '<='} {self.value:g}"


def target(value: str | float, metric: str = "cosine") -> Target:
    """Check and build a ``Target``; raises ``AscError`` (E10001) for a value or metric that makes no sense."""
    from asc_devkit.atc.options import nearest

    problems = []
    if metric not in METRICS:
        problems.append(_bad("metric", metric, f"metrics are {', '.join(METRICS)}", nearest(metric, [*METRICS])))
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not (0 <= number <= 1 if METRICS.get(metric, True) else 0 <= number < float("inf")):
        reason = "it must be a number from 0 to 1" if METRICS.get(metric, True) else "it must be a number from 0 on"
        problems.append(_bad("auto_keep_dtype", str(value), reason))
    if problems:
        raise AscError(problems)
    return Target(number, metric)


def _bad(option: str, value: str, reason: str, fix: str = "") -> Problem:
    return Problem(
        "E10001",
        f"Value [{value}] for parameter [{option}] is invalid. Reason: {reason}.",
        cause="The search needs a number that the outputs have to reach.",
        fix=fix or "See docs/precision_control.md.",
        nodes=(f"--{option}",),
        seed_class="EE1001",
    )


@dataclass(frozen=True)
class Keep:
    """The result. ``names``: operators of the user's model to keep (empty: none needed), with ``costs_us``, the estimated
    time that leaving each out would save. ``reached``: whether the target is; ``outputs``: rows of the last state.
    ``ranking``: rows of all layers in fp16, worst first. ``plain_us``, ``kept_us``: estimated times without and with.
    ``unable``: operators that cannot keep float32 on ``soc``. ``types``: compiled types of the kept ones, for a mix list, and
    ``mixlist_reached``, whether that list reaches the target (None outside the mixed modes, where it has no effect).
    """

    target: Target
    names: tuple[str, ...]
    reached: bool
    ranking: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    conversions: int
    costs_us: dict[str, float]
    plain_us: float
    kept_us: float
    soc: str = ""
    unable: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    mixlist_reached: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        rows = [
            {
                k: r[k]
                for k in ("name", "type", "tensor", "origin", "saturated", "own_error", "inherited_error", "cosine")
            }
            for r in self.ranking
        ]
        return {
            "schema": "asc-devkit/keep/1",
            "target": {"metric": self.target.metric, "value": self.target.value},
            "reached": self.reached,
            "keep": [{"name": n, "cost_us": round(self.costs_us[n], 3)} for n in self.names],
            "time_us": {"basis": "estimated", "without": self.plain_us, "with": self.kept_us},
            "cannot_keep": list(self.unable),
            "mixlist": None if self.mixlist_reached is None else {"types": self.types, "reached": self.mixlist_reached},
            "conversions": self.conversions,
            "outputs": list(self.outputs),
            "ranking": rows,
        }

    def keep_dtype_text(self) -> str:
        """Contents of a file for ``--keep_dtype``."""
        return "".join(f"{name}\n" for name in self.names)

    def mixlist_text(self) -> str:
        """Contents of a file for ``--modify_mixlist``: the compiled types of all kept operators on the black list."""
        return _mixlist(self.types)


def _mixlist(types: Sequence[str]) -> str:
    return json.dumps({"black-list": {"to-add": list(types)}}, indent=1) + "\n"


@dataclass(frozen=True)
class _Trial:
    """One converted and run state."""

    outputs: tuple[dict[str, Any], ...]
    passed: bool
    us: float


class _Search:
    def __init__(self, options: atc.Options, goal: Target, data: Path | None, folder: Path, tell: Progress) -> None:
        self.options, self.goal, self.data, self.folder, self.tell = options, goal, data, folder, tell
        self.reference = Reference(options.model, 1)
        self.samples: samples_module.Samples | None = None
        self.known: dict[frozenset[str], _Trial] = {}
        self.result: atc.Result | None = None
        self.session: npu.Session | None = None

    def graph(self) -> ir.Graph:
        """The graph of the last conversion."""
        assert self.result is not None
        return om.read(self.result.om_path).to_ir().graph

    def trial(self, names: Iterable[str], **changed: Any) -> _Trial:
        """Convert with ``names`` kept (and ``changed`` options), run, measure the outputs."""
        kept = frozenset(names)
        if kept in self.known and not changed:
            return self.known[kept]
        path = self.folder / "keep.cfg"
        files.write_text(path, "".join(f"{name}\n" for name in sorted(kept)))
        extra = {**({"keep_dtype": str(path)} if kept else {}), **changed}
        self.result = atc.compile(replace(self.options, output=self.folder / "trial", **extra))
        if self.samples is None:
            specs = samples_module.specs(self.result.inputs)
            given = self.data
            self.samples = (
                samples_module.load(given, specs, MAX_SAMPLES) if given else samples_module.random_samples(specs, 0)
            )
        self.session = npu.load(self.result.om_path, threads=1, cache=False)
        outputs = accuracy.outputs(self.session, self.reference, self.samples)
        us = perf.estimate(self.result.model, self.result.soc).total_us
        made = _Trial(tuple(outputs), all(map(self.goal.met, outputs)), us)
        if not changed:
            self.known[kept] = made
            self.tell(f"{len(self.known)} conversions; {len(kept)} operators in float32: {_worst(outputs, self.goal)}")
        return made

    def mixlist(self, types: Sequence[str]) -> bool:
        """Whether these types on the black list reach the target in place of the names."""
        path = self.folder / "mix.json"
        files.write_text(path, _mixlist(types))
        return self.trial((), modify_mixlist=str(path)).passed

    def reaches(self, names: Iterable[str]) -> bool:
        return self.trial(names).passed

    def layers(self) -> list[dict[str, Any]]:
        """Rows of all layers of the last conversion, worst first."""
        assert self.session is not None and self.samples is not None
        rows = accuracy.layers(self.session, self.graph(), self.reference, self.samples.batch(0))
        return sorted(rows, key=lambda r: (-min(r["saturated"], 1), -r.get("own_error", 0.0)))


def search(options: atc.Options, goal: Target, data: Path | None = None, tell: Progress = lambda text: None) -> Keep:
    """Search the operators of ``options.model`` to keep; ``tell`` hears of progress.

    Raises ``AscError`` where the conversion or the data does. Files of the options (``keep_dtype``) are replaced.
    """
    options = replace(options, keep_dtype="", debug_dir=None)
    with tempfile.TemporaryDirectory(prefix="asc-keep-") as folder:
        trial = _Search(options, goal, data, Path(folder), tell)
        plain = trial.trial(())
        assert trial.result is not None
        chip, graph = trial.result.soc, trial.graph()
        rows = trial.layers()
        unable = _unable(graph) if "fp32" not in chip.cube_floats else {}
        types = _types(graph)
        ranked = (o.rsplit(" (", 1)[0] for row in rows for o in row["origin"])
        names = [n for n in dict.fromkeys((*ranked, *types)) if n not in unable]  # what has no layer row comes last
        best, reached = plain, plain.passed
        chosen: list[str] = []
        if not reached and names:
            best = trial.trial(names)
            reached = best.passed
            if reached:
                chosen = _fewest(_shortest(names, trial.reaches), trial.reaches)
                best = trial.trial(chosen)
        kinds = tuple(sorted({kind for name in chosen for kind in types.get(name, ())}))
        mixed = trial.mixlist(kinds) if chosen and options.precision_mode.startswith("allow_mix_precision") else None
        costs = {n: best.us - trial.trial(other for other in chosen if other != n).us for n in chosen}
        return Keep(
            target=goal,
            names=tuple(chosen),
            reached=reached,
            ranking=tuple(rows),
            outputs=best.outputs,
            conversions=len(trial.known),
            costs_us=costs,
            plain_us=plain.us,
            kept_us=best.us,
            soc=chip.name,
            unable=tuple(unable),
            types=kinds,
            mixlist_reached=mixed,
        )


def _shortest(names: Sequence[str], reaches: Callable[[Sequence[str]], bool]) -> list[str]:
    """The shortest prefix of ``names`` that reaches the target; all of them do."""
    low, high = 0, len(names)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(names[:middle]) else (middle, high)
    return list(names[:high])


def _fewest(names: list[str], reaches: Callable[[Sequence[str]], bool]) -> list[str]:
    """A subset of ``names`` that reaches the target and from which no single name can be left out."""
    size = max(len(names) // 2, 1)
    while True:
        shrunk = False
        for start in range(len(names) - size, -size, -size):  # from the least suspicious end
            fewer = names[: max(start, 0)] + names[start + size :]
            if fewer and len(fewer) < len(names) and reaches(fewer):
                names, shrunk = fewer, True
        if size == 1 and not shrunk:
            return names
        size = max(min(size // 2, len(names) // 2), 1)


def _unable(graph: ir.Graph) -> dict[str, None]:
    """Operators of the user's model that the cube multiplies."""
    return {
        name: None
        for node in graph
        if node.meta.get(ENGINE) is Engine.CUBE
        for name, kind in node.meta.get(ORIGIN_OPS, ())
        if kind in ("Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "LSTM", "GRU", "RNN")
    }


def _types(graph: ir.Graph) -> dict[str, list[str]]:
    """Compiled types of the nodes that stand for each operator of the user's model, members of groups included."""
    found: dict[str, list[str]] = {}
    for node in ir.traversal.RecursiveGraphIterator(graph):
        for name, _ in node.meta.get(ORIGIN_OPS, ()):
            found.setdefault(name, []).append(node.op_type)
    return found


def _worst(outputs: Sequence[dict[str, Any]], goal: Target) -> str:
    pick = min if METRICS[goal.metric] else max
    values = [float(o[goal.metric]) for o in outputs]
    return f"{goal.metric} {pick(values):.6g}" if values else "no outputs"
