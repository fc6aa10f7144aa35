"""Inputs of a check: the user's files (.npy, .npz, one folder or file per sample), labels, or random values.

Files are read without pickles and with bounds on their size; every file that does not fit is named at once.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.atc import stages as atc_stages
from asc_devkit.errors import AscError, Problem

Array = np.ndarray[Any, Any]
MAX_FILE_BYTES: Final = 8 << 30
MAX_LABEL_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class InputSpec:
    """Name, static shape and numpy type of one model input, and the largest index an integer input may hold."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    limit: int = 2


@dataclass(frozen=True)
class Samples:
    """Model-sized batches of inputs. ``valid`` says how many rows of each batch are real (the last may be padded)."""

    batches: list[dict[str, Array]]
    valid: list[int]
    source: str

    @property
    def rows(self) -> int:
        return sum(self.valid)


def specs(inputs: Sequence[atc_stages.InputSpec]) -> list[InputSpec]:
    """Input descriptions with numpy types, from those of a conversion."""
    return [InputSpec(i.name, i.shape, np.dtype(i.dtype.numpy()), i.index_limit) for i in inputs]


def random_samples(inputs: list[InputSpec], seed: int) -> Samples:
    """One batch of values every model can take: normal floats, indices inside the tables they pick from, true flags."""
    rng = np.random.default_rng(seed)
    batch: dict[str, Array] = {}
    for spec in inputs:
        if spec.dtype == np.bool_ or "mask" in spec.name.lower():
            batch[spec.name] = np.ones(spec.shape, spec.dtype)
        elif spec.dtype.kind in "iu":
            batch[spec.name] = rng.integers(0, spec.limit, spec.shape).astype(spec.dtype)
        else:
            batch[spec.name] = rng.standard_normal(spec.shape).astype(spec.dtype)
    return Samples([batch], [inputs[0].shape[0] if inputs and inputs[0].shape else 1], f"random values (seed {seed})")


def load(folder: Path, inputs: list[InputSpec], most: int) -> Samples:
    """Read ``folder`` (or one .npz/.npy file) and cut it into batches of the model's size, at most ``most`` rows.

    Accepted: ``<input>.npy`` files with any number of rows, one .npz with an entry per input, sub-folders with one .npy
    per input, or (single-input models) any number of .npy files. Raises ``AscError`` naming every file that does not
    fit.
    """
    if not folder.exists():
        raise AscError(Problem("E13001", f"There is no data at {folder}.", fix="Check --data.", nodes=(str(folder),)))
    problems: list[Problem] = []
    rows: dict[str, list[Array]] = {spec.name: [] for spec in inputs}
    for entry in _entries(folder, inputs):
        for spec in inputs:
            path, key = entry.get(spec.name, (None, None))
            if path is None:
                problems.append(_misfit(str(folder), f"no file for the input {spec.name!r}", inputs))
                continue
            try:
                array = _read(path, key)
                rows[spec.name].append(_fit(array, spec))
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
                problems.append(_misfit(str(path), str(error), inputs))
    if not any(rows.values()) and not problems:
        problems.append(_misfit(str(folder), "no .npy or .npz file in it", inputs))
    if problems:
        raise AscError(problems[:50])
    return _batches({name: np.concatenate(parts) for name, parts in rows.items()}, inputs, most, str(folder))


_Entry = Mapping[str, tuple[Path | None, str | None]]


def _entries(folder: Path, inputs: list[InputSpec]) -> Iterator[_Entry]:
    """One mapping input -> (file, key in .npz) per stack of samples."""
    if folder.is_file():
        key = None if folder.suffix == ".npy" else ""
        yield {spec.name: (folder, spec.name if key == "" else None) for spec in inputs}
        return
    archives = sorted(folder.glob("*.npz"))
    for path in archives:
        yield {spec.name: (path, spec.name) for spec in inputs}
    named = {spec.name: folder / f"{_file_stem(spec.name)}.npy" for spec in inputs}
    if any(path.exists() for path in named.values()):
        yield {name: (path if path.exists() else None, None) for name, path in named.items()}
    elif len(inputs) == 1:
        for path in sorted(folder.glob("*.npy")):
            yield {inputs[0].name: (path, None)}
    for sub in sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()):
        files = {spec.name: sub / f"{_file_stem(spec.name)}.npy" for spec in inputs}
        if any(path.exists() for path in files.values()):
            yield {name: (path if path.exists() else None, None) for name, path in files.items()}


def _file_stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def _read(path: Path, key: str | None) -> Array:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_BYTES >> 30} GiB")
    if key is None and path.suffix != ".npz":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.asarray(array)
    with np.load(path, allow_pickle=False) as archive:
        names = list(archive.files)
        wanted = key if key in names else names[0] if len(names) == 1 else None
        if wanted is None:
            raise KeyError(f"it has the entries {names[:10]}, not {key!r}")
        return np.asarray(archive[wanted])


def _fit(array: Array, spec: InputSpec) -> Array:
    """``array`` as rows of the input: its shape, or without the batch axis, or with any number of rows."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"element type {array.dtype} cannot be fed")
    row = spec.shape[1:]
    if array.shape == spec.shape or (array.ndim == len(spec.shape) and array.shape[1:] == row):
        fitted = array
    elif array.shape == row:
        fitted = array[None]
    else:
        raise ValueError(f"shape {list(array.shape)} does not fit the input {spec.name!r} {list(spec.shape)}")
    return fitted.astype(spec.dtype, copy=False)


def _batches(rows: dict[str, Array], inputs: list[InputSpec], most: int, source: str) -> Samples:
    counts = {name: len(array) if array.ndim else 1 for name, array in rows.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise AscError(Problem("ASC5002", f"The inputs have different numbers of samples: {text}.", nodes=(source,)))
    total = min(next(iter(counts.values())), most)
    size = inputs[0].shape[0] if inputs[0].shape else 1
    batches, valid = [], []
    for start in range(0, total, max(size, 1)):
        stop = min(start + size, total)
        batch = {}
        for spec in inputs:
            part = rows[spec.name][start:stop]
            if len(part) < size:
                part = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            batch[spec.name] = np.ascontiguousarray(part)
        batches.append(batch)
        valid.append(stop - start)
    return Samples(batches, valid, source)


def _misfit(file: str, why: str, inputs: list[InputSpec]) -> Problem:
    wanted = ", ".join(f"{_file_stem(s.name)}.npy {s.dtype.name}{list(s.shape)}" for s in inputs)
    return Problem(
        "ASC5002",
        f"{file} cannot be used as input data: {why.strip(chr(39))}.",
        cause="File names must be input names, shapes the model's (the first axis may differ).",
        fix=f"The model wants {wanted}.",
        nodes=(file,),
    )


def load_labels(path: Path) -> Array:
    """Class numbers from .npy, from an .npz (its only entry or the one called labels), or from text or CSV with one per
    line (last column). Raises ``AscError``."""
    try:
        if path.stat().st_size > MAX_LABEL_BYTES:
            raise ValueError("the file is too large for labels")
        if path.suffix == ".npy":
            labels = np.load(path, allow_pickle=False)
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                names = list(archive.files)
                labels = archive["labels" if "labels" in names or len(names) != 1 else names[0]]
        else:
            with path.open(newline="", encoding="utf-8-sig") as handle:
                cells = [row[-1].strip() for row in csv.reader(handle) if row]
            if cells and not cells[0].lstrip("-").isdigit():
                cells = cells[1:]
            labels = np.array([int(cell) for cell in cells])
        return np.asarray(labels).astype(np.int64).ravel()
    except (OSError, ValueError, IndexError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise AscError(
            Problem(
                "ASC5003",
                f"Labels cannot be read from {path}: {error}.",
                fix="Give .npy, or text with one class number per line.",
                nodes=(str(path),),
            )
        ) from error
