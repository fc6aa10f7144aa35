"""The text files of a profile and their columns by version (data/files.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    ``kind``: ``integer``, ``real``, ``time`` (decimal us since 1970, with a trailing tab in files from 2024 on), ``text``,
    ``list`` (``;`` between tensors) or ``shapes`` (a list in quotes of its own). ``unit`` is empty for plain numbers.
    ``ours``: where the value comes from in files that this toolkit writes: ``given``, ``measured`` (on the host) or
    ``simulated``. ``layouts`` names the versions that have the column; empty: all.
    """

    name: str
    kind: str
    unit: str
    ours: str
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One kind of file: name ``pattern`` (regular expression), ``folder`` below the tree, ``layouts`` oldest first.

    ``pmu``: the columns of a metric group follow the ones listed here.
    """

    name: str
    pattern: str
    folder: str
    layouts: tuple[str, ...]
    pmu: bool
    source: str
    note: str
    columns: tuple[Column, ...]

    def of(self, layout: str) -> tuple[Column, ...]:
        """Columns of one version, in order. Raises ``KeyError`` for a version that is not listed."""
        if layout not in self.layouts:
            raise KeyError(layout)
        return tuple(c for c in self.columns if not c.layouts or layout in c.layouts)

    def header(self, layout: str | None = None) -> list[str]:
        """Column names of one version (default: the newest)."""
        return [c.name for c in self.of(layout or self.layouts[-1])]

    def column(self, name: str) -> Column | None:
        """The column of that name in any version."""
        return next((c for c in self.columns if c.name == name), None)

    def matches(self, file_name: str) -> bool:
        """True when ``file_name`` is a file of this kind."""
        return re.match(self.pattern, file_name) is not None


@lru_cache(maxsize=1)
def files() -> dict[str, FileSpec]:
    """Every kind of file by name."""
    text = resources.files("asc_devkit.profiling.schema").joinpath("data/files.json").read_text(encoding="utf-8")
    return {row["name"]: _spec(row) for row in json.loads(text)["files"]}


def _spec(row: dict[str, Any]) -> FileSpec:
    columns = tuple(Column(**{**c, "layouts": tuple(c.get("layouts", ()))}) for c in row["columns"])
    return FileSpec(**{"note": "", **row, "layouts": tuple(row["layouts"]), "columns": columns})


def file_spec(name: str) -> FileSpec:
    """The file kind called ``name``; raises ``KeyError`` when there is none."""
    return files()[name]


def layout_of(spec: FileSpec, header: Sequence[str]) -> str | None:
    """The version whose columns ``header`` begins with (newest first); None when it is none of them."""
    names = [h.strip().lstrip("\ufeff") for h in header]
    for layout in reversed(spec.layouts):
        wanted = spec.header(layout)
        if names[: len(wanted)] == wanted and (spec.pmu or len(names) == len(wanted)):
            return layout
    return None
