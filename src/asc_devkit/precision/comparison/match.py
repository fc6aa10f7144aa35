"""Which tensor of one collection is which of the other.

In this order, each only for what is left: a mapping the user gave; equal names; names equal up to what tools replace in them;
operators fused on one side (the group's result is its last member's); equal values (fingerprints) in the same order of
execution. What stays is listed on both sides, never dropped.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.sources import Collection, TensorRef
from asc_devkit.precision.sources.names import plain

FINGERPRINT: Final = 512  # elements looked at
LIKE: Final = 0.98  # cosine of fingerprints that are taken for the same tensor
APART: Final = 0.01  # by which the best must lead the second
MIN_ELEMENTS: Final = 16
MAX_CANDIDATES: Final = 4096
_SIDES: Final = (".output.", ".input.")


@dataclass(frozen=True)
class Pair:
    """Two tensors that are taken for the same, and ``how`` that was found."""

    name: str
    golden: TensorRef
    target: TensorRef
    how: str = "name"


@dataclass
class Matching:
    """All pairs in the target's order, and the names that found no partner."""

    pairs: list[Pair] = field(default_factory=list)
    only_golden: list[str] = field(default_factory=list)
    only_target: list[str] = field(default_factory=list)


def load_mapping(path: Path) -> dict[str, str]:
    """Target name -> golden name, from JSON (an object) or CSV (two columns). Raises ``AscError`` (ASC5112)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            rows = json.loads(text)
            if not isinstance(rows, dict):
                raise ValueError("it should be an object from target to golden names")
            return {str(k): str(v) for k, v in rows.items()}
        return {row[0].strip(): row[1].strip() for row in csv.reader(text.splitlines()) if len(row) >= 2}
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        raise AscError(
            Problem("ASC5112", f"The mapping {path} cannot be read: {error}."[:300], nodes=(str(path),))
        ) from error


def match(
    golden: Collection, target: Collection, mapping: Mapping[str, str] | None = None, *, by_value: bool = True
) -> Matching:
    """Pair the tensors of two collections."""
    left = dict(golden.tensors)
    right = dict(target.tensors)
    pairs: dict[str, Pair] = {}

    def take(names: Iterable[tuple[str, str]], how: str) -> None:
        for ours, theirs in names:
            if ours in right and theirs in left:
                pairs[ours] = Pair(ours, left.pop(theirs), right.pop(ours), how)

    if len(left) == 1 and len(right) == 1:
        take([(next(iter(right)), next(iter(left)))], "only one")
    take((mapping or {}).items(), "mapping")
    take([(name, name) for name in list(right) if name in left], "name")
    take(_by(left, right, lambda ref: plain(ref.name)), "similar name")
    take(_by(left, right, _operator), "operator")
    take(_fused(left, right), "fused")
    if by_value and left and right:
        take(_by_value(left, right, golden, target), "values")
    order = {name: place for place, name in enumerate(target.tensors)}
    found = sorted(pairs.values(), key=lambda pair: order[pair.target.name])
    return Matching(found, list(left), list(right))


def _by(
    left: Mapping[str, TensorRef], right: Mapping[str, TensorRef], key: Callable[[TensorRef], str]
) -> list[tuple[str, str]]:
    """Names whose ``key`` is the same on both sides and stands for one tensor only."""
    ours, theirs = _unique(right, key), _unique(left, key)
    return [(name, theirs[k]) for k, name in ours.items() if k in theirs]


def _unique(refs: Mapping[str, TensorRef], key: Callable[[TensorRef], str]) -> dict[str, str]:
    seen: dict[str, str | None] = {}
    for name, ref in refs.items():
        text = key(ref)
        seen[text] = None if text in seen else name
    return {k: v for k, v in seen.items() if v is not None and k}


def _operator(ref: TensorRef) -> str:
    op = str(ref.facts.get("op", ""))
    return f"{plain(op)}|{ref.facts.get('side', 'output')}|{ref.facts.get('index', 0)}" if op else ""


def _fused(left: Mapping[str, TensorRef], right: Mapping[str, TensorRef]) -> list[tuple[str, str]]:
    """A fused operator's result against that of its last member (or of the last of the user's nodes it stands for)."""
    by_op = {k.split("|")[0]: v for k, v in _unique(left, _operator).items() if "|output|0" in k}
    found = []
    for name, ref in right.items():
        if ref.facts.get("side", "output") != "output" or ref.facts.get("index", 0) != 0:
            continue
        for row in (*reversed(ref.facts.get("origin_ops", ())), *reversed(ref.facts.get("members", ()))):
            op = plain(str(row[0] if isinstance(row, (list, tuple)) and row else row))
            if op in by_op:
                found.append((name, by_op.pop(op)))
                break
    return found


def _by_value(
    left: Mapping[str, TensorRef], right: Mapping[str, TensorRef], golden: Collection, target: Collection
) -> list[tuple[str, str]]:
    """Tensors of equal size whose sampled values point the same way, best and clearly best on both sides.

    Where several are equally alike (a value that is passed on), the place in the order of execution decides.
    """
    sizes: dict[int, tuple[list[TensorRef], list[TensorRef]]] = {}
    for side, refs in enumerate((left, right)):
        for ref in list(refs.values())[:MAX_CANDIDATES]:
            if ref.size >= MIN_ELEMENTS and ref.dtype.kind not in "b":
                sizes.setdefault(ref.size, ([], []))[side].append(ref)
    places = tuple({n: i / max(len(c.tensors), 1) for i, n in enumerate(c.tensors)} for c in (golden, target))
    found = []
    for theirs, ours in sizes.values():
        if theirs and ours:
            found += _alike(theirs, ours, places)
    return found


def _alike(
    theirs: list[TensorRef], ours: list[TensorRef], places: tuple[dict[str, float], ...]
) -> list[tuple[str, str]]:
    a = np.stack([_fingerprint(ref) for ref in theirs])
    b = np.stack([_fingerprint(ref) for ref in ours])
    likeness = b @ a.T
    found = []
    for row, ref in enumerate(ours):
        best = int(np.argmax(likeness[row]))
        top = likeness[row, best]
        if top < LIKE or int(np.argmax(likeness[:, best])) != row:
            continue
        rivals = np.flatnonzero(likeness[row] > top - APART)
        if rivals.size > 1:
            best = int(min(rivals, key=lambda i: abs(places[0][theirs[i].name] - places[1][ref.name])))
            if np.max(likeness[:, best]) > likeness[row, best] + APART:
                continue
        found.append((ref.name, theirs[best].name))
    return found


def _fingerprint(ref: TensorRef) -> np.ndarray[Any, Any]:
    """Evenly spaced elements, centred and scaled to length 1 (zeros when there is nothing to see)."""
    try:
        flat = ref.array().reshape(-1)
    except AscError:
        return np.zeros(FINGERPRINT)
    picked = flat[np.linspace(0, flat.size - 1, FINGERPRINT).astype(np.int64)]
    values = np.nan_to_num(picked.real.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    values -= values.mean()
    length = float(np.linalg.norm(values))
    found: np.ndarray[Any, Any] = values / length if length > 0 else values
    return found
