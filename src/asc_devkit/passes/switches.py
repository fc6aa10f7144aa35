"""Which passes run: the fusion switch file of ATC in both of its forms, and the ``--optimization_switch`` pairs.

Forms: lines ``Name:off``; or JSON ``{"Switch": {"GraphFusion": {"Name": "off", "ALL": "on"}, "UBFusion": {...}}}``. A
single name outranks ``ALL``. Source: atc_tools manual, fusion_switch_file.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path

from asc_devkit.errors import AscError, Problem
from asc_devkit.passes.declare import GRAPH, UB, Pass

MAX_BYTES = 1 << 20
_SECTIONS = {"GraphFusion": GRAPH, "UBFusion": UB}


@dataclass(frozen=True)
class Switches:
    """The user's choice of passes. ``warnings`` are to be shown once."""

    names: Mapping[str, bool] = field(default_factory=dict)
    groups: Mapping[str, bool] = field(default_factory=dict)
    max_level: int = 3
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | Path = "", pairs: str = "") -> Switches:
        """Read the switch file (if any), then the ``Name:on;Name:off`` pairs, which win.

        Raises ``AscError`` for a file that cannot be read or is in neither form, with all bad entries.
        """
        names: dict[str, bool] = {}
        groups: dict[str, bool] = {}
        problems: list[Problem] = []
        if path:
            _parse_file(Path(path), names, groups, problems)
        for item in filter(None, (p.strip() for p in pairs.split(";"))):
            _parse_pair(item, names, "optimization_switch", problems)
        if problems:
            raise AscError(problems)
        return cls(names, groups, warnings=tuple(_unknown(names)))

    def allows(self, item: Pass) -> bool:
        """True when ``item`` is to run."""
        if item.level > self.max_level:
            return False
        return self.names.get(item.name, self.groups.get(item.group, True))

    def off(self, *names: str) -> Switches:
        """The same switches with these passes off."""
        return replace(self, names={**self.names, **dict.fromkeys(names, False)})

    def only(self, *names: str) -> Switches:
        """Everything off but these passes."""
        return replace(self, names=dict.fromkeys(names, True), groups={GRAPH: False, UB: False})

    def without_graph_fusion(self) -> Switches:
        """The same switches with the whole graph fusion group off, but for passes switched on by name."""
        return replace(self, groups={**self.groups, GRAPH: False})

    def only_basic(self) -> Switches:
        """Only the passes of optimisation level O1."""
        return replace(self, max_level=1)


def _parse_file(path: Path, names: dict[str, bool], groups: dict[str, bool], problems: list[Problem]) -> None:
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a name that is none
        raise AscError(
            Problem(
                "E10001", f"fusion_switch_file {path} cannot be read", str(error), "give an existing UTF-8 text file"
            )
        ) from error
    if len(raw) > MAX_BYTES:
        raise AscError(Problem("E10001", f"fusion_switch_file {path} is larger than {MAX_BYTES} bytes"))
    if text.lstrip().startswith("{"):
        _parse_json(text, path, names, groups, problems)
        return
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            _parse_pair(line, names, path.name, problems)


def _parse_json(
    text: str, path: Path, names: dict[str, bool], groups: dict[str, bool], problems: list[Problem]
) -> None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AscError(Problem("E10032", f"fusion_switch_file {path} is no valid JSON", str(error))) from error
    sections = content.get("Switch") if isinstance(content, dict) else None
    if not isinstance(sections, dict):
        problems.append(Problem("E10032", f'fusion_switch_file {path} has no object "Switch"', fix=_EXAMPLE))
        return
    for section, entries in sections.items():
        group = _SECTIONS.get(section)
        if group is None or not isinstance(entries, dict):
            problems.append(
                Problem("E10032", f"fusion_switch_file {path}: section {section!r} is not known", fix=_EXAMPLE)
            )
            continue
        for name, value in entries.items():
            on = _on(value)
            if on is None:
                problems.append(Problem("E10032", f"fusion_switch_file {path}: {name} is {value!r}, not on or off"))
            elif name == "ALL":
                groups[group] = on
            else:
                names[name] = on


_EXAMPLE = '{"Switch": {"GraphFusion": {"ALL": "on", "SoftmaxFusionPass": "off"}, "UBFusion": {"ALL": "on"}}}'


def _parse_pair(item: str, names: dict[str, bool], where: str, problems: list[Problem]) -> None:
    name, _, value = item.partition(":")
    on = _on(value.strip())
    if on is None or not name.strip():
        problems.append(Problem("E10001", f"{where}: {item[:100]!r} is not of the form PassName:on or PassName:off"))
    else:
        names[name.strip()] = on


def _on(value: object) -> bool | None:
    return {"on": True, "off": False}.get(value.lower()) if isinstance(value, str) else None


def _unknown(names: Iterable[str]) -> list[str]:
    from asc_devkit.passes.pipeline import all_passes

    ours = {p.name for p in all_passes()}
    vendor = vendor_passes()
    warnings = []
    for name in names:
        if name in ours:
            continue
        if name in vendor:
            warnings.append(f"fusion switch {name}: a pass of the vendor's compiler that has no counterpart here")
            continue
        close = difflib.get_close_matches(name, [*ours, *vendor], n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else ""
        warnings.append(f"fusion switch {name}: no such pass{hint}")
    return warnings


@lru_cache(maxsize=1)
def vendor_passes() -> frozenset[str]:
    """Names of the vendor's passes that can be switched (``data/vendor_passes.csv``)."""
    text = resources.files("asc_devkit.passes").joinpath("data/vendor_passes.csv").read_text("utf-8")
    return frozenset(row["name"] for row in csv.DictReader(text.splitlines()))
