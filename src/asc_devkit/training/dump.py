"""Reading ``dump.json`` as calls: API by API with its arguments, for replaying (``precheck``) and for finding overflows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asc_devkit.errors import AscError, Problem

MAX_DUMP: Final = 1 << 30


@dataclass(frozen=True)
class Call:
    """One entry: ``name`` (``Functional.linear.0.forward``), ``kind``, ``api``, ``number``, ``direction``, its rows."""

    name: str
    kind: str
    api: str
    number: str
    direction: str
    facts: dict[str, Any]
    folder: Path


def find(path: Path) -> list[Path]:
    """The dump.json files at or below ``path`` (a file, or a folder of steps and ranks). Raises ``AscError`` (ASC5101)."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob("dump.json")) if path.is_dir() else []
    if not found:
        raise AscError(
            Problem(
                "ASC5101",
                f"There is no dump.json at {path}.",
                fix="Give a folder written by the debugger.",
                nodes=(str(path),),
            )
        )
    return found


def calls(path: Path) -> Iterator[Call]:
    """The entries of one dump.json in the order of the run. Raises ``AscError`` (ASC5102)."""
    try:
        if path.stat().st_size > MAX_DUMP:
            raise ValueError("it is absurdly large")
        data = json.loads(path.read_bytes())["data"]
        if not isinstance(data, dict):
            raise ValueError("its data section is no object")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AscError(Problem("ASC5102", f"{path} is no dump: {error}."[:300], nodes=(str(path),))) from error
    for name, facts in data.items():
        if not isinstance(facts, dict):
            continue
        parts = str(name).split(".")
        if parts[0] == "Module":
            place = next(
                (i for i, p in enumerate(parts) if p in ("forward", "backward", "parameters_grad")), len(parts) - 1
            )
            yield Call(name, "Module", ".".join(parts[1:place]), parts[-1], parts[place], facts, path.parent)
        elif len(parts) >= 4:
            yield Call(name, parts[0], ".".join(parts[1:-2]), parts[-2], parts[-1], facts, path.parent)


def rows(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """All tensor rows in a part of an entry."""
    if depth > 32:
        return
    if isinstance(value, dict):
        if "dtype" in value and "shape" in value:
            yield value
        else:
            for item in value.values():
                yield from rows(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from rows(item, depth + 1)


def finite(value: Any) -> bool:
    """Whether the statistics of all tensors in a part of an entry are finite."""
    for row in rows(value):
        for key in ("Max", "Min"):  # a norm overflows before its elements do
            text = row.get(key)
            number = _number(text)
            if text is not None and not (number is not None and number - number == 0):
                return False
    return True


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
