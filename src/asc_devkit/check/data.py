"""Inputs of a check: the user's files (.npy, .npz, one folder or file per sample) or random values.

Files are mapped and cut into batches as the run goes on, so the data may be larger than memory; every file that does not
fit is named at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.atc import stages as atc_stages
from asc_devkit.check.arrays import FAILURES, natural, npz_entries, read_npy, read_npz
from asc_devkit.errors import AscError, Problem

Array = np.ndarray[Any, Any]
MAX_PROBLEMS: Final = 50


@dataclass(frozen=True)
class InputSpec:
    """Name, static shape and numpy type of one model input, and the largest index an integer input may hold."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    limit: int = 2

    @property
    def size(self) -> int:
        """Rows of one batch: the first axis, 1 for a scalar."""
        return self.shape[0] if self.shape else 1


@dataclass(frozen=True)
class Samples:
    """Stacks of rows per input, cut into model-sized batches. ``rows`` counts those of the first input."""

    inputs: Sequence[InputSpec]
    stacks: Mapping[str, Sequence[Array]]
    rows: int
    source: str

    def __len__(self) -> int:
        size = self.inputs[0].size if self.inputs else 0
        return -(-self.rows // size) if size else 1

    def batch(self, number: int) -> dict[str, Array]:
        """Feeds of one run; the last batch repeats its last row to be full."""
        made: dict[str, Array] = {}
        for spec in self.inputs:
            first = number * spec.size
            rows = _cut(self.stacks[spec.name], first, first + spec.size)
            if len(rows) < spec.size:
                rows = np.concatenate([rows, np.repeat(rows[-1:], spec.size - len(rows), axis=0)])
            made[spec.name] = np.ascontiguousarray(rows, spec.dtype).reshape(spec.shape)
        return made

    def valid(self, number: int) -> int:
        """How many rows of a batch are no padding."""
        size = self.inputs[0].size if self.inputs else 1
        return min(size, self.rows - number * size)


def _cut(parts: Sequence[Array], start: int, stop: int) -> Array:
    """Rows ``start`` to ``stop`` of the parts laid end to end."""
    pieces, at = [], 0
    for part in parts:
        piece = part[max(start - at, 0) : max(stop - at, 0)]
        if len(piece):
            pieces.append(piece)
        at += len(part)
    if not pieces:
        return parts[0][:0]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def specs(inputs: Sequence[atc_stages.InputSpec]) -> list[InputSpec]:
    """Input descriptions with numpy types, from those of a conversion."""
    return [InputSpec(i.name, i.shape, np.dtype(i.dtype.numpy()), i.index_limit) for i in inputs]


def random_samples(inputs: list[InputSpec], seed: int) -> Samples:
    """One batch of values every model can take: normal floats, indices inside the tables they pick from, true flags."""
    rng = np.random.default_rng(seed)
    stacks: dict[str, list[Array]] = {}
    for spec in inputs:
        if spec.dtype == np.bool_ or "mask" in spec.name.lower():
            values = np.ones(spec.shape, spec.dtype)
        elif spec.dtype.kind in "iu":
            values = rng.integers(0, spec.limit, spec.shape).astype(spec.dtype)
        else:
            values = rng.standard_normal(spec.shape).astype(spec.dtype)
        stacks[spec.name] = [np.atleast_1d(values)]
    return Samples(inputs, stacks, inputs[0].size if inputs else 1, f"random values (seed {seed})")


def load(folder: Path, inputs: list[InputSpec], most: int) -> Samples:
    """Find the inputs in ``folder`` (or one .npz/.npy file), at most ``most`` rows of the first input.

    Accepted: ``<input>.npy`` files with any number of rows, .npz files with an entry per input, sub-folders with one
    .npy per input, or (single-input models) any number of .npy files; numbers in names count as numbers. Raises
    ``AscError`` naming every file that does not fit.
    """
    if not folder.exists():
        raise AscError(Problem("E13001", f"There is no data at {folder}.", fix="Check --data.", nodes=(str(folder),)))
    if not inputs:
        return Samples(inputs, {}, 1, "nothing: the model has no inputs")
    problems: list[Problem] = []
    stacks: dict[str, list[Array]] = {spec.name: [] for spec in inputs}
    rows = 0
    for entry in _entries(folder, inputs):
        for spec in inputs:
            path, key = entry[spec.name]
            if path is None:
                problems.append(_misfit(str(folder), f"no file for the input {spec.name!r}", inputs))
                continue
            try:
                stacks[spec.name].append(_rows(_read(path, key), spec))
            except FAILURES as error:
                problems.append(_misfit(str(path), str(error), inputs))
        rows = sum(map(len, stacks[inputs[0].name]))
        if rows >= most or len(problems) >= MAX_PROBLEMS:
            break
    if not rows and not problems:
        problems.append(_misfit(str(folder), "no usable .npy or .npz file in it", inputs))
    if problems:
        raise AscError(problems[:MAX_PROBLEMS])
    _check_counts(stacks, inputs, folder)
    return Samples(inputs, stacks, min(rows, most), str(folder))


_Entry = Mapping[str, tuple[Path | None, str | None]]


def _entries(folder: Path, inputs: list[InputSpec]) -> Iterator[_Entry]:
    """One mapping input -> (file, entry of an .npz) per stack of samples."""
    if folder.is_file():
        key = "" if folder.suffix == ".npz" else None
        yield {spec.name: (folder, spec.name if key == "" else None) for spec in inputs}
        return
    for path in sorted(folder.glob("*.npz"), key=natural):
        yield {spec.name: (path, spec.name) for spec in inputs}
    named = _named(folder, inputs)
    if any(path for path, _ in named.values()):
        yield named
    elif len(inputs) == 1:
        for path in sorted(folder.glob("*.npy"), key=natural):
            if path.stem != "labels":
                yield {inputs[0].name: (path, None)}
    for sub in sorted((p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()), key=natural):
        named = _named(sub, inputs)
        if any(path for path, _ in named.values()):
            yield named


def _named(folder: Path, inputs: list[InputSpec]) -> dict[str, tuple[Path | None, str | None]]:
    paths = {spec.name: folder / f"{_file_stem(spec.name)}.npy" for spec in inputs}
    return {name: (path if path.exists() else None, None) for name, path in paths.items()}


def _file_stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def _read(path: Path, entry: str | None) -> Array:
    if entry is None:
        return read_npy(path)
    names = npz_entries(path)
    if entry in names:
        return read_npz(path, entry)
    if len(names) == 1:
        return read_npz(path, names[0])
    raise ValueError(f"it has the entries {names[:10]}, not {entry!r}")


def _rows(array: Array, spec: InputSpec) -> Array:
    """``array`` as rows of the input: its shape, or without the batch axis, or with any number of rows."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"element type {array.dtype} cannot be fed")
    if array.dtype.kind == "f" and spec.dtype.kind in "iub":
        raise ValueError(f"it holds {array.dtype} but the input {spec.name!r} takes {spec.dtype}")
    if not spec.shape and array.ndim <= 1:
        return array.reshape(-1)
    if array.ndim and array.shape[1:] == spec.shape[1:] and array.ndim == len(spec.shape):
        return array
    if array.shape == spec.shape[1:] and spec.shape:
        return array[None]
    raise ValueError(f"shape {list(array.shape)} does not fit the input {spec.name!r} {list(spec.shape)}")


def _check_counts(stacks: Mapping[str, Sequence[Array]], inputs: list[InputSpec], folder: Path) -> None:
    """Every input must give the same number of batches."""
    counts = {s.name: -(-sum(map(len, stacks[s.name])) // s.size) for s in inputs if s.size}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise AscError(
            Problem(
                "ASC5002",
                f"The inputs have data for different numbers of runs: {text}.",
                cause="One run takes as many rows of each input as its first axis is long.",
                nodes=(str(folder),),
            )
        )


def _misfit(file: str, why: str, inputs: list[InputSpec]) -> Problem:
    wanted = ", ".join(f"{_file_stem(s.name)}.npy {s.dtype.name}{list(s.shape)}" for s in inputs)
    return Problem(
        "ASC5002",
        f"{file} cannot be used as input data: {why.strip(chr(39))}.",
        cause="File names must be input names, shapes the model's (the first axis may differ).",
        fix=f"The model wants {wanted}.",
        nodes=(file,),
    )
