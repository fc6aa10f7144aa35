"""Reading the files of a tree in tests."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

OUTPUT = "mindstudio_profiler_output"


def found(tree: Path, name: str) -> Path:
    """The one file whose name begins with ``name`` and a time."""
    hits = [p for p in (tree / OUTPUT).iterdir() if p.name.startswith(f"{name}_2")]
    assert len(hits) == 1, f"{name}: {sorted(p.name for p in (tree / OUTPUT).iterdir())}"
    return hits[0]


def rows(tree: Path, name: str) -> list[dict[str, str]]:
    """Rows of a CSV table."""
    with found(tree, name).open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def header(tree: Path, name: str) -> list[str]:
    """First line of a CSV table."""
    with found(tree, name).open(newline="", encoding="utf-8") as handle:
        return next(csv.reader(handle))


def timeline(tree: Path) -> list[dict[str, Any]]:
    """Events of the timeline."""
    events = json.loads(found(tree, "msprof").read_text(encoding="utf-8"))
    assert isinstance(events, list)
    return events


def sql(tree: Path, query: str) -> list[tuple[Any, ...]]:
    """Result of a query on the tree's database."""
    (path,) = tree.glob("msprof_*.db")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def only(folder: Path) -> Path:
    """The one tree in a folder."""
    trees = list(folder.glob("PROF_*"))
    assert len(trees) == 1, trees
    return trees[0]
