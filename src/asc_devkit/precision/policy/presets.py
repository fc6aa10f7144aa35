"""Presets read from ``data/presets.json``: which rule with which numbers for which type and operator, and from where."""

from __future__ import annotations

import difflib
import functools
import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.policy.criteria import KINDS, Criterion, Exact

INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"})


@dataclass(frozen=True)
class Rule:
    """One row: the rule ``kind`` with ``parameters`` for these element types (empty: all) and operator types (empty: all)."""

    kind: str
    dtypes: frozenset[str]
    op_types: frozenset[str]
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Preset:
    """A named standard. ``integers`` says what happens to integer tensors: ``exact`` or ``rule`` (like any other)."""

    id: str
    what: str
    source: str
    rules: tuple[Rule, ...]
    integers: str = "exact"

    def rule(self, dtype: str, op_type: str) -> Rule | None:
        """The first rule that fits, None when the standard says nothing about this type."""
        kind = op_type.lower()
        for rule in self.rules:
            if (not rule.dtypes or dtype in rule.dtypes) and (not rule.op_types or kind in rule.op_types):
                return rule
        return None


@functools.lru_cache(maxsize=1)
def presets() -> dict[str, Preset]:
    """All presets by id."""
    text = resources.files("asc_devkit.precision.policy").joinpath("data/presets.json").read_text(encoding="utf-8")
    return {row["id"]: _preset(row) for row in json.loads(text)["presets"]}


def _preset(row: dict[str, Any]) -> Preset:
    rules = tuple(
        Rule(
            rule["kind"],
            frozenset(rule.get("dtypes", ())),
            frozenset(name.lower() for name in rule.get("op_types", ())),
            dict(rule.get("parameters", {})),
        )
        for rule in row["rules"]
    )
    return Preset(row["id"], row["what"], row["source"], rules, row.get("integers", "exact"))


def preset(name: str) -> Preset:
    """The preset ``name``. Raises ``AscError`` (ASC5110) with the nearest name."""
    found = presets().get(name)
    if found is None:
        near = difflib.get_close_matches(name, presets(), n=1)
        fix = f"Did you mean {near[0]}?" if near else "Use one of " + ", ".join(presets()) + "."
        raise AscError(Problem("ASC5110", f"There is no standard {name!r}.", fix=fix))
    return found


def criterion(name: str, dtype: str, op_type: str = "", **override: Any) -> Criterion:
    """The rule of preset ``name`` for a tensor of ``dtype`` (of the actual data) made by ``op_type``; ``override`` replaces
    single numbers. Types a standard does not cover get its float32 rule; integers are compared exactly unless it says else."""
    chosen = preset(name)
    if dtype in INTEGERS and chosen.integers == "exact":
        return Exact(dtype)
    rule = chosen.rule(dtype, op_type) or chosen.rule("float32", op_type)
    if rule is None:
        return Exact(dtype)
    known = {**rule.parameters, **{k: v for k, v in override.items() if v is not None}}
    return KINDS[rule.kind](dtype, **known)


@dataclass(frozen=True)
class Policy:
    """A preset, numbers the user set, and exceptions by operator name or type (``overrides``: name -> preset or numbers)."""

    preset: str
    numbers: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)

    def criterion(self, dtype: str, op_type: str = "", op: str = "") -> Criterion:
        """The rule for one tensor."""
        special = self.overrides.get(op) or self.overrides.get(op_type)
        if special is None:
            return criterion(self.preset, dtype, op_type, **self.numbers)
        numbers = {**self.numbers, **special}
        return criterion(numbers.pop("standard", self.preset), dtype, op_type, **numbers)

    @staticmethod
    def load_overrides(path: Path) -> dict[str, dict[str, Any]]:
        """Exceptions from a JSON file: ``{"<operator or type>": {"standard": "...", "atol": 1e-2}}``. Raises ``AscError``."""
        try:
            rows = json.loads(path.read_bytes())
            if not isinstance(rows, dict) or not all(isinstance(v, dict) for v in rows.values()):
                raise ValueError("it should map operator names or types to objects")
        except (OSError, ValueError, RecursionError) as error:
            raise AscError(
                Problem("ASC5111", f"{path} holds no overrides: {error}."[:300], nodes=(str(path),))
            ) from error
        for name, row in rows.items():
            preset(str(row.get("standard", "cann-eco")))
            unknown = [k for k in row if k != "standard" and k not in _NUMBERS]
            if unknown:
                raise AscError(
                    Problem(
                        "ASC5111",
                        f"{path}: {name!r} sets {', '.join(unknown)}, which no rule has.",
                        fix="Known: standard, " + ", ".join(sorted(_NUMBERS)) + ".",
                        nodes=(str(path),),
                    )
                )
        return rows


_NUMBERS = frozenset(
    [
        "atol",
        "rtol",
        "error_rate",
        "eps",
        "threshold",
        "small",
        "small_error",
        "cancel",
        "ratio",
        "share",
        "mean",
        "cosine",
        "relative_euclidean",
        "kl",
        "rmse",
        "mean_rel",
        "max_atol",
        "step",
        "ulps",
        "at_least",
        "absolute",
    ]
)
