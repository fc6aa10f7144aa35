"""Metric groups of ``--aic-metrics``: which columns they add, per core layout (data/metrics.json)."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from asc_devkit.soc import Soc

_SPLIT: Final = frozenset({"910B", "910_93", "950"})


@lru_cache(maxsize=1)
def _groups() -> dict[str, Any]:
    text = resources.files("asc_devkit.profiling.schema").joinpath("data/metrics.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["groups"]
    return found


GROUPS: Final[tuple[str, ...]] = tuple(_groups())


def core_layout(soc: Soc) -> str:
    """``split`` where cube and vector cores are counted apart, else ``unified``."""
    return "split" if soc.generation in _SPLIT or (soc.core_layout or "").startswith("split") else "unified"


def metric_columns(group: str, layout: str) -> tuple[str, ...]:
    """Columns of a group on a core layout; () when that layout does not have the group. ``KeyError``: unknown group."""
    return tuple(_groups()[group]["layouts"].get(layout, ()))
