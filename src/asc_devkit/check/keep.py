"""Which operators must keep float32 so that every output reaches a cosine: a search with real conversions and runs.

Operators are ranked by saturation and by their own error (``layers.judge``); the shortest prefix of the ranking that reaches
the target is found by bisection, then every operator in it that is not needed is dropped again, so no single operator of the
result can be left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asc_devkit import atc, files, npu, om
from asc_devkit.check import accuracy
from asc_devkit.check import data as samples_module
from asc_devkit.check.reference import Reference


@dataclass(frozen=True)
class Keep:
    """``names`` to keep (empty: none needed), whether the target is ``reached``, the ``ranking`` rows, conversions made."""

    names: tuple[str, ...]
    reached: bool
    ranking: tuple[dict[str, Any], ...]
    conversions: int


class _Search:
    def __init__(self, options: atc.Options, data: Path | None, target: float, folder: Path) -> None:
        self.options, self.target, self.folder = options, target, folder
        self.reference = Reference(options.model, 1)
        self.data, self.conversions = data, 0

    def measure(self, names: Sequence[str]) -> dict[str, Any]:
        """The accuracy section with ``names`` kept."""
        keep = self.folder / "keep.cfg"
        files.write_text(keep, "".join(f"{name}\n" for name in names))
        request = replace(self.options, output=self.folder / "trial", keep_dtype=str(keep) if names else "")
        result = atc.compile(request)
        self.conversions += 1
        specs = samples_module.specs(result.inputs)
        samples = samples_module.load(self.data, specs, 32) if self.data else samples_module.random_samples(specs, 0)
        session = npu.load(result.om_path, threads=1)
        graph = om.read(result.om_path).to_ir().graph
        return accuracy.measure(session, graph, self.reference, samples, None, self.target, lambda stage, share: None)

    def reaches(self, names: Sequence[str]) -> bool:
        return bool(self.measure(names)["passed"])


def search(options: atc.Options, target: float, data: Path | None = None) -> Keep:
    """Search the operators of ``options.model`` to keep; raises ``AscError`` where the conversion or the data does."""
    with tempfile.TemporaryDirectory() as folder:
        trial = _Search(options, data, target, Path(folder))
        plain = trial.measure(())
        rows = sorted(plain["layers"], key=lambda r: (-min(r["saturated"], 1), -r.get("own_error", 0.0)))
        ranking = tuple(rows)
        names = list(dict.fromkeys(o.rsplit(" (", 1)[0] for row in rows for o in row["origin"]))
        if plain["passed"]:
            return Keep((), True, ranking, trial.conversions)
        if not trial.reaches(names):
            return Keep((), False, ranking, trial.conversions)
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if trial.reaches(names[:middle]) else (middle, high)
        chosen = names[:high]
        for name in reversed(list(chosen)):
            fewer = [other for other in chosen if other != name]
            if fewer and trial.reaches(fewer):
                chosen = fewer
        return Keep(tuple(chosen), True, ranking, trial.conversions)
