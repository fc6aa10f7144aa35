"""The registry of error codes (data/errors.json): lookups, text search and the reference page.

Used by ``asc explain`` and by the documentation. Codes carry the seed class of the stage they belong to: ``EE1xxx``
parsing, ``EE2xxx`` operators, ``EE3xxx`` memory; empty where a code belongs to none of them.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One registered code. ``listed`` is ``group`` where the source describes it only together with its neighbours."""

    code: str
    seed_class: str
    arguments: tuple[str, ...]
    message: str
    cause: str
    solution: str
    source: str
    listed: str


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    text = resources.files("asc_devkit.atc").joinpath("data/errors.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@lru_cache(maxsize=1)
def registry() -> dict[str, ErrorCode]:
    """All codes by name, in documentation order."""
    return {row["code"]: ErrorCode(**{**row, "arguments": tuple(row["arguments"])}) for row in _data()["codes"]}


def lookup(code: str) -> ErrorCode | None:
    """The entry of ``code`` (any case), or None."""
    return registry().get(code.strip().upper())


def search(text: str) -> list[ErrorCode]:
    """Entries that hold every word of ``text`` (any case) in code, message, arguments, cause or solution."""
    words = text.lower().split()
    return [entry for entry in registry().values() if words and all(word in _haystack(entry) for word in words)]


def near(code: str) -> list[str]:
    """Registered codes spelt like ``code``, nearest first."""
    return difflib.get_close_matches(code.strip().upper(), list(registry()), n=3, cutoff=0.7)


def page() -> str:
    """The reference page of all codes."""
    entries = list(registry().values())
    vendor = sum(entry.source == "CANN GE error registry" for entry in entries)
    lines = [
        "# Error codes",
        "",
        f"{len(entries)} codes; `asc explain CODE` prints one, `asc explain WORDS` searches. GE's own registry has",
        f"{_data()['ge_registry_size']} codes; the {vendor} that the sources used here name are listed.",
        "Class: EE1xxx parsing, EE2xxx operators, EE3xxx memory. A `*` marks codes that the sources describe only as a",
        "group: the text is that of the group. Wording, causes and solutions are asc-devkit's.",
    ]
    for source in dict.fromkeys(entry.source for entry in entries):
        lines += ["", f"## {source}", "", "| code | class | message | cause | solution |", "|---|---|---|---|---|"]
        for entry in entries:
            if entry.source == source:
                mark = "*" if entry.listed == "group" else ""
                cells = (entry.code + mark, entry.seed_class, entry.message, entry.cause, entry.solution)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _haystack(entry: ErrorCode) -> str:
    return " ".join((entry.code, entry.message, *entry.arguments, entry.cause, entry.solution)).lower()
