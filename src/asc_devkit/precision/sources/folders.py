"""A folder (or file) of tensors of any known layout as one collection, in execution order where that is known.

Layouts: dumps of this toolkit (``index.json``), msprobe trees (``step*/rank*/dump.json`` + ``dump_tensor_data``), folders
of NPU dump files, folders of tensor files. The first found wins at each level.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.sources import npu_dump
from asc_devkit.precision.sources.files import SUFFIXES, open_file
from asc_devkit.precision.sources.names import key_of
from asc_devkit.precision.sources.tensor import TensorRef, problem_of, torn

MAX_FILES: Final = 1_000_000
MAX_JSON: Final = 2 << 30
MAX_PROBLEMS: Final = 50
_INDEX: Final = "index.json"
_DUMP: Final = "dump.json"
_LEVEL: Final = re.compile(r"^(step|rank|proc)\d*$")


@dataclass(frozen=True)
class Statistics:
    """A tensor of which only statistics were written: Max, Min, Mean, Norm."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: dict[str, float | None]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Collection:
    """Everything found under ``path``: tensors by name in order, tensors known by statistics only, and what could not be
    read (``problems``)."""

    path: Path
    kind: str
    tensors: dict[str, TensorRef] = field(default_factory=dict)
    statistics: dict[str, Statistics] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, ref: TensorRef) -> None:
        name, number = ref.name, 2
        while name in self.tensors:
            name = f"{ref.name}#{number}"
            number += 1
        self.tensors[name] = ref if name == ref.name else dataclasses.replace(ref, name=name)


def scan(path: Path, *, dtype: np.dtype[Any] | None = None, shape: tuple[int, ...] | None = None) -> Collection:
    """All tensors under ``path``. Files that cannot be read become ``problems``; raises ``AscError`` (ASC5101) when
    there is nothing at all."""
    if not path.exists():
        raise AscError(Problem("ASC5101", f"There is no {path}.", fix="Check the path.", nodes=(str(path),)))
    if path.is_file() and path.name != _DUMP:
        found = Collection(path, "file")
        for ref in open_file(path, dtype=dtype, shape=shape):
            found.add(ref)
        return found
    folder = path.parent if path.is_file() else path
    found = Collection(folder, "files")
    if (folder / _INDEX).is_file():
        _own_dump(folder, found)
    elif (folder / _DUMP).is_file() or any(_LEVEL.match(p.name) for p in _children(folder)):
        found.kind = "msprobe"
        for prefix, place in _msprobe_folders(folder, ""):
            _msprobe(place, prefix, found)
    else:
        _files(folder, found, dtype, shape)
    if not found.tensors and not found.statistics:
        if found.problems:
            raise AscError(found.problems)
        raise AscError(
            Problem(
                "ASC5101",
                f"{path} holds no tensors.",
                fix=f"Give a folder with {', '.join(SUFFIXES)} files, a dump, or dump.json.",
                nodes=(str(path),),
            )
        )
    return found


def _children(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_dir()]


def _files(folder: Path, found: Collection, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> None:
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    if len(paths) > MAX_FILES:
        raise AscError(Problem("ASC5103", f"{folder} holds {len(paths)} files.", fix="Compare it in parts."))
    mapping = _mapping_csv(folder)
    keyed = []
    for path in paths:
        known = path.suffix.lower() in SUFFIXES or npu_dump.looks_like(path)
        if known:
            keyed.append((key_of(mapping.get(path.name, path.name)), path))
    keyed.sort(key=lambda row: (row[0].time, row[0].name, row[1].name))
    for key, path in keyed:
        try:
            refs = open_file(path, dtype=dtype, shape=shape, name=key.name)
        except AscError as error:
            found.problems += error.problems[: MAX_PROBLEMS - len(found.problems)]
            continue
        relative = path.parent.relative_to(folder).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        for ref in refs:
            facts = dict(ref.facts)
            if key.op and "op" not in facts:
                facts |= {"op": key.op, "op_type": key.op_type, "side": key.side, "index": key.index}
            found.add(dataclasses.replace(ref, name=prefix + ref.name, facts=facts))
        if npu_dump.looks_like(path):
            found.kind = "npu"


def _mapping_csv(folder: Path) -> dict[str, str]:
    """Long names of files whose own name is a hash (``mapping.csv``: hash, name)."""
    path = folder / "mapping.csv"
    if not path.is_file():
        return {}
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            return {row[0]: row[1] for row in csv.reader(handle) if len(row) >= 2}
    except (OSError, ValueError, csv.Error):
        return {}


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON:
            raise torn(path, "it is absurdly large")
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise torn(path, problem_of(error)) from error


def _inside(folder: Path, name: Any) -> Path | None:
    """``folder/name``, None when that would leave the folder."""
    if not isinstance(name, str) or not name or name != Path(name).name or name in (".", ".."):
        return None
    return folder / name


def _own_dump(folder: Path, found: Collection) -> None:
    index = _read_json(folder / _INDEX)
    rows = index.get("tensors") if isinstance(index, dict) else None
    if not isinstance(rows, list):
        raise torn(folder / _INDEX, "it is no index of a dump")
    found.kind = "asc"
    for row in rows:
        path = _inside(folder, row.get("file")) if isinstance(row, dict) else None
        if path is None:
            raise torn(folder / _INDEX, "it names a file outside its folder")
        dtype = None
        if path.suffix == ".bin":
            from asc_devkit.precision.sources.raw_file import dtype_of

            device = str(row.get("device_dtype", "")).lower()
            dtype = dtype_of(device if device in ("bfloat16",) else str(row.get("dtype")))
        name = str(row.get("origin_tensor") or row.get("tensor"))
        try:
            ref = open_file(path, dtype=dtype, shape=tuple(row["shape"]) if dtype is not None else None, name=name)[0]
        except AscError as error:
            found.problems += error.problems
            continue
        facts = {
            "op": row.get("node", ""),
            "op_type": row.get("op_type", ""),
            "side": "output",
            "index": row.get("output", 0),
            "value": row.get("tensor", ""),
            "device_dtype": row.get("device_dtype", ""),
            "members": row.get("members", []),
            "origin_ops": row.get("origin_ops", []),
        }
        found.add(dataclasses.replace(ref, facts=facts))


def _msprobe_folders(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    if (folder / _DUMP).is_file():
        yield prefix, folder
        return
    for child in sorted(
        _children(folder), key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", p.name)]
    ):
        if _LEVEL.match(child.name):
            part = re.sub(r"^proc\d*$|^rank$", "rank0", child.name)  # a run that is not distributed
            yield from _msprobe_folders(child, f"{prefix}{part}/")


def _msprobe(folder: Path, prefix: str, found: Collection) -> None:
    """One ``dump.json``: real tensors where they were written, else their statistics."""
    facts = _read_json(folder / _DUMP)
    data = facts.get("data") if isinstance(facts, dict) else None
    if not isinstance(data, dict):
        raise torn(folder / _DUMP, "it has no data section")
    tensors = folder / "dump_tensor_data"
    for api, entry in data.items():
        if not isinstance(entry, dict):
            continue
        for section, value in entry.items():
            side = "output" if section.startswith("output") else "input"
            for label, row in _entries(value, side if section in ("output", "input", "input_args") else section):
                _msprobe_tensor(found, folder, tensors, prefix, str(api), side, label, row)


def _entries(value: Any, label: str, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    if depth > 32:
        return
    if isinstance(value, dict):
        if "dtype" in value and "shape" in value:
            yield label, value
        elif "type" not in value or not isinstance(value.get("type"), str):
            for key, item in value.items():
                yield from _entries(item, f"{label}.{key}", depth + 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _entries(item, f"{label}.{place}", depth + 1)


def _msprobe_tensor(
    found: Collection, folder: Path, tensors: Path, prefix: str, api: str, side: str, label: str, row: dict[str, Any]
) -> None:
    stored = row.get("data_name")
    name = f"{prefix}{api}.{label}"
    facts = {
        "op": prefix + api,
        "op_type": _api_type(api),
        "side": side,
        "index": _last_number(label),
        "dtype": row["dtype"],
    }
    path = _inside(tensors, stored) if stored not in (None, -1, "-1") else None
    if path is not None and path.is_file():
        try:
            ref = open_file(path, name=name)[0]
            found.add(dataclasses.replace(ref, name=name, facts=facts))
        except (AscError, IndexError) as error:
            found.problems += (
                error.problems if isinstance(error, AscError) else torn(path, "it holds no tensor").problems
            )
        return
    if stored not in (None, -1, "-1"):
        found.problems += torn(tensors / str(stored), "the file dump.json names is missing").problems
    values = {key: _number(row.get(key)) for key in ("Max", "Min", "Mean", "Norm")}
    shape = row["shape"] if isinstance(row["shape"], list) else []
    found.statistics[name] = Statistics(
        name, str(row["dtype"]), tuple(d for d in shape if isinstance(d, int)), values, facts
    )


def _api_type(api: str) -> str:
    parts = api.split(".")
    if parts[0] in ("Module", "Cell"):
        places = [i for i, p in enumerate(parts) if p in ("forward", "backward", "parameters_grad")]
        return parts[places[0] - 1] if places and places[0] else parts[-1]
    return parts[1] if len(parts) > 1 else api


def _last_number(label: str) -> int:
    numbers = [part for part in label.split(".") if part.isdigit()]
    return int(numbers[-1]) if numbers else 0


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
