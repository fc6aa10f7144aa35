"""Tables of ``msprof_*.db`` (data/database.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    text = resources.files("asc_devkit.profiling.schema").joinpath("data/database.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def tables() -> Mapping[str, Mapping[str, str]]:
    """Table name -> column -> SQLite type, in order."""
    found: Mapping[str, Mapping[str, str]] = _data()["tables"]
    return found


def table_columns(name: str) -> tuple[str, ...]:
    """Columns of one table in order."""
    return tuple(tables()[name])


def enum_tables() -> dict[str, dict[int, str]]:
    """Tables that give numbers a name, with their whole content."""
    return {name: {int(i): text for i, text in rows.items()} for name, rows in _data()["enums"].items()}
