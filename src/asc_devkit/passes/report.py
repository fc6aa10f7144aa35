"""What the passes did: counts in the vendor's ``fusion_result.json`` layout and every rewrite for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asc_devkit import files
from asc_devkit.passes.declare import UB, Pass


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: the nodes that went and the nodes that came, each as ``name (Type)``; after is empty for removals."""

    pass_name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(slots=True)
class PassCount:
    """How often a pass found its pattern and how often it changed the graph; seconds spent in it."""

    name: str
    group: str
    match_times: int = 0
    effect_times: int = 0
    seconds: float = 0.0


@dataclass
class FusionReport:
    """Counts per enabled pass, in pass order, and all rewrites in the order they happened.

    ``ub_fusion``: whether the chip has UB fusion at all (else the vendor's file has no such section).
    """

    counts: list[PassCount] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    nodes_before: int = 0
    nodes_after: int = 0
    seconds: float = 0.0
    ub_fusion: bool = True

    @classmethod
    def for_passes(cls, passes: Iterable[Pass]) -> FusionReport:
        """An empty report with a line for each pass; passes of one name share the line."""
        names = {p.name: p.group for p in passes}
        return cls(counts=[PassCount(name, group) for name, group in names.items()])

    def count(self, name: str) -> PassCount:
        """The line of pass ``name``. Raises ``KeyError`` when the pass did not run."""
        for line in self.counts:
            if line.name == name:
                return line
        raise KeyError(name)

    def as_vendor_json(self) -> dict[str, Any]:
        """The content of ``fusion_result.json``: one graph, two sections, counts as strings, matched passes only."""
        sections: dict[str, dict[str, dict[str, str]]] = {"graph_fusion": {}}
        if self.ub_fusion:
            sections["ub_fusion"] = {}
        for line in sorted(self.counts, key=lambda c: c.name):
            if not line.match_times:
                continue
            entry = {"effect_times": str(line.effect_times), "match_times": str(line.match_times)}
            if line.group == UB:
                entry["repository_hit_times"] = "0"
                sections["ub_fusion"][line.name] = entry
            else:
                sections["graph_fusion"][line.name] = entry
        return {"session_and_graph_id_0_0": sections}

    def save(self, path: Path) -> None:
        """Write ``fusion_result.json``, atomically."""
        files.write_text(path, json.dumps(self.as_vendor_json(), indent=4) + "\n")
