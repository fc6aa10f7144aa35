"""The registry of error codes (data/errors*.json): lookups, text search and the reference page.

Used by ``asc explain``, by the printing of errors and by the documentation. Every code has one seed class, which names
the stage it belongs to by its first digit: ``EE1xxx`` parsing (10 command line, 11 Caffe, 12 TensorFlow, 13 files, 16
ONNX, 17 and 18 other input), ``EE2xxx`` operators, ``EE3xxx`` memory; empty where a code belongs to none of them.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from asc_devkit.errors import Problem


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


GE = "CANN GE error registry"


FILES = ("errors_ge.json", "errors_cann.json", "errors.json")


@lru_cache(maxsize=1)
def registry() -> dict[str, ErrorCode]:
    """All codes by name, in documentation order: GE's own, other CANN codes, asc-devkit's."""
    entries: dict[str, ErrorCode] = {}
    for name in FILES:
        text = resources.files("asc_devkit.atc").joinpath(f"data/{name}").read_text(encoding="utf-8")
        for row in json.loads(text)["codes"]:
            seed = row["seed_class"].replace("xxx", row["code"][-3:])
            entries[row["code"]] = ErrorCode(**{**row, "arguments": tuple(row["arguments"]), "seed_class": seed})
    return entries


def lookup(code: str) -> ErrorCode | None:
    """The entry of ``code`` (any case), or None."""
    return registry().get(code.strip().upper())


def seed_class(problem: Problem) -> str:
    """The seed class of a problem: that of its code; a code that is not registered keeps the class it was raised with."""
    entry = lookup(problem.code)
    return entry.seed_class if entry is not None else problem.seed_class


def described(problem: Problem) -> dict[str, Any]:
    """JSON form of a problem, with the cause and solution of its code where it states none itself."""
    entry = lookup(problem.code)
    made = {**problem.as_dict(), "seed_class": seed_class(problem)}
    if entry is not None:
        made["cause"], made["fix"] = problem.cause or entry.cause, problem.fix or entry.solution
    return made


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
    vendor = sum(entry.source == GE for entry in entries)
    lines = [
        "# Error codes",
        "",
        f"{len(entries)} codes; `asc explain CODE` prints one, `asc explain WORDS` searches. The {vendor} of GE's own registry",
        "come first. Class: EE1xxx parsing, EE2xxx operators, EE3xxx memory. A `*` marks codes that the sources describe only",
        "as a group: the text is that of the group, the exact occasion unsure. Wording, causes and solutions are asc-devkit's.",
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
