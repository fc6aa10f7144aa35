"""Finding a chip by name: case, missing ``Ascend``, did-you-mean, and names that mean two things."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from asc_devkit.errors import AscError, Problem
from asc_devkit.soc.chip import Soc, from_row


@dataclass(frozen=True)
class Resolution:
    """The chip a name stands for, and what the user must be told about the choice."""

    soc: Soc
    warnings: tuple[str, ...] = ()


def _read(name: str) -> Any:
    return json.loads(resources.files("asc_devkit.soc").joinpath(f"data/{name}").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _index() -> dict[str, Any]:
    index: dict[str, Any] = _read("index.json")
    return index


@lru_cache(maxsize=1)
def _chips() -> dict[str, Soc]:
    index = _index()
    chips: dict[str, Soc] = {}
    for generation, series in index["series"].items():
        data = _read(f"{generation}.json")
        mode = "infnan" if generation in index["overflow"]["infnan"] else "saturate"
        for name, row in data["chips"].items():
            chips[name] = from_row(
                name,
                row,
                data["sources"],
                generation=generation,
                series=series,
                overflow_mode=mode,
                overflow_source=index["overflow"]["source"],
            )
    return chips


def names() -> tuple[str, ...]:
    """All ``soc_version`` strings, oldest family first."""
    return tuple(_chips())


def conflicts() -> tuple[str, ...]:
    """Figures on which public sources disagree, one sentence each."""
    return tuple(_index()["conflicts"])


@dataclass(frozen=True)
class Board:
    """A product that carries chips of a family; ``bytes_per_chip`` of device memory each."""

    name: str
    bytes_per_chip: int
    source: str


def boards(generation: str) -> tuple[Board, ...]:
    """Known products of a chip family: where a chip's own memory size is not public, its boards' is the next best."""
    return tuple(Board(**row) for row in _index()["boards"].get(generation, ()))


def get(name: str) -> Soc:
    """The chip of exactly this ``soc_version``. Raises ``AscError`` (E10001) with the nearest names."""
    chip = _chips().get(name)
    if chip is None:
        raise AscError(_unknown(name))
    return chip


def resolve(name: str) -> Resolution:
    """The chip meant by ``name``: any case, with or without ``Ascend``; an ambiguous name gets a warning with both
    readings. Raises ``AscError`` (E10001) for a name that fits nothing."""
    wanted = name.strip().lower()
    if not wanted.startswith("ascend"):
        wanted = "ascend" + wanted
    for known, entry in _index()["ambiguous"].items():
        if wanted == known.lower():
            readings = "; or ".join(entry["readings"])
            return Resolution(
                get(entry["used"]),
                (
                    f"soc_version {known} is ambiguous: it can mean {readings}. {entry['used']} is used; a model built "
                    f"for one does not load on the other, so name the chip in full.",
                ),
            )
    for known, chip in _chips().items():
        if known.lower() == wanted:
            return Resolution(chip)
    raise AscError(_unknown(name))


def _unknown(name: str) -> Problem:
    lowered = {known.lower(): known for known in _chips()}
    wanted = name.strip().lower()
    wanted = wanted if wanted.startswith("ascend") else f"ascend{wanted}"
    near = difflib.get_close_matches(wanted, lowered, n=3, cutoff=0.6)
    return Problem(
        "E10001",
        f"Value [{name[:100]}] for parameter [soc_version] is invalid. Reason: no such chip is known.",
        cause="The name is misspelt, or the chip is newer than the data.",
        fix=(f"Did you mean {', '.join(lowered[n] for n in near)}? " if near else "")
        + "`asc soc list` shows all names.",
        nodes=("--soc_version",),
        seed_class="EE1001",
    )
