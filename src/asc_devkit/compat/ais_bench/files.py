"""Input files put together into batches as the tool does, and outputs taken apart again into one file per input file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from asc_devkit.compat.ais_bench.tensors import TensorDesc
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.npu import tensor_files
from asc_devkit.npu.numerics import Array

SUFFIXES: Final = (".npy", ".bin")
PURE: Final = "pure_infer_data"
MAX_FILES: Final = 1_000_000


@dataclass(frozen=True)
class Batch:
    """One run: for each input the files it is made of; none for made-up data. ``full``: files of a whole batch."""

    files: tuple[tuple[Path, ...], ...]
    full: int = 1

    @property
    def count(self) -> int:
        """Input files of the first input, into which outputs are split."""
        return len(self.files[0]) if self.files else 1

    def name(self, index: int) -> str:
        """The name that output files of the ``index``-th piece begin with."""
        return self.files[0][index].stem if self.files else PURE


def listed(text: str, inputs: int) -> list[list[Path]]:
    """Files for each input from ``--input``: one folder, or one list of files, after the other, separated by commas.

    With more files than inputs the list is shared out evenly. Raises ``AscError`` for what is missing.
    """
    parts = [Path(p) for p in text.split(",") if p]
    problems = [
        Problem("E13001", f"--input {part} does not exist.", fix="Check the path.", nodes=(str(part),))
        for part in parts
        if not part.exists()
    ]
    if problems:
        raise AscError(problems)
    if all(part.is_dir() for part in parts):
        found = [_folder(part) for part in parts]
        if len(found) != inputs:
            raise AscError(
                Problem(
                    "ASC4520",
                    f"--input names {len(found)} folders for a model with {inputs} inputs.",
                    fix="Give one folder for each input, in the order of the inputs.",
                )
            )
    else:
        files = [f for part in parts for f in (_folder(part) if part.is_dir() else [part])]
        if not files or len(files) % inputs:
            raise AscError(
                Problem(
                    "ASC4520",
                    f"--input names {len(files)} files for a model with {inputs} inputs.",
                    fix="Give the same number of files for each input: all of the first, then all of the second, ...",
                )
            )
        each = len(files) // inputs
        found = [files[i * each : (i + 1) * each] for i in range(inputs)]
    counts = {len(files) for files in found}
    if len(counts) != 1:
        raise AscError(
            Problem(
                "ASC4520",
                "The inputs have different numbers of files: " + ", ".join(str(len(files)) for files in found) + ".",
                fix="Give each input the same number of files.",
            )
        )
    return found


def batches(found: Sequence[Sequence[Path]], descs: Sequence[TensorDesc], combine: bool) -> Iterator[Batch]:
    """As many files together as fill the first input; the last batch may have fewer."""
    per = 1
    if combine:
        size = _bytes(found[0][0])
        per = max(descs[0].realsize // size, 1) if size else 1
        if size * per != descs[0].realsize:
            raise AscError(
                Problem(
                    "ASC4021",
                    f"{found[0][0]} has {size} bytes; input {descs[0].name!r} takes {descs[0].realsize}, "
                    "which is no multiple of it.",
                    fix="Write the array in the input's dtype, for one sample or a whole batch.",
                    nodes=(str(found[0][0]),),
                )
            )
    for start in range(0, len(found[0]), per):
        yield Batch(tuple(tuple(files[start : start + per]) for files in found), per)


def load(files: Sequence[Path], desc: TensorDesc, combine: bool) -> Array:
    """One input: the files one behind the other, filled up with zeros to the size of the input."""
    if not combine:
        return _array(files[0])
    arrays = [_array(path) for path in files]
    missing = desc.realsize - sum(a.nbytes for a in arrays)
    if missing < 0:
        raise AscError(
            Problem(
                "ASC4021",
                f"{', '.join(map(str, files[:3]))}: {sum(a.nbytes for a in arrays)} bytes for input {desc.name!r}, "
                f"which takes {desc.realsize}.",
                fix="Give each input files of the same part of a batch.",
                nodes=tuple(map(str, files)),
            )
        )
    if len(arrays) == 1 and not missing:
        return arrays[0]
    pieces = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arrays]
    return np.concatenate([*pieces, np.zeros(missing, np.uint8)])


def made_up(descs: Sequence[TensorDesc], kind: str) -> list[Array]:
    """Inputs without files: zeros, or random numbers (integers 0 and 1, floats from 0 to 1)."""
    if sum(desc.realsize for desc in descs) > tensor_files.MAX_RANDOM_BYTES:
        raise AscError(Problem("ASC4024", "Made-up inputs would take too much memory.", fix="Give --input."))
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for desc in descs:
        row = dtypes.of_acl(int(desc.datatype))
        dtype = np.dtype(np.uint8) if row is None or row.numpy is None else np.dtype(row.numpy)
        count = desc.realsize // dtype.itemsize
        if kind == "zero":
            found.append(np.zeros(count, dtype))
        else:
            numbers = rng.integers(0, 2, count) if dtype.kind in "iub" else rng.random(count)
            found.append(numbers.astype(dtype))
    return found


def save(folder: Path, batch: Batch, outputs: Mapping[str, Array], fmt: str, axis: int) -> list[Path]:
    """Write the outputs of a run: one file for each input file and output, ``name_index.suffix``."""
    written: list[Path] = []
    for number, array in enumerate(outputs.values()):
        pieces = _split(array, batch, axis)
        for index, piece in enumerate(pieces):
            written.append(tensor_files.write(folder, f"{batch.name(index)}_{number}", piece, fmt))
    return written


def _split(array: Array, batch: Batch, axis: int) -> list[Array]:
    """One piece along ``axis`` for each file; what belongs to the filling of the last batch is dropped."""
    if batch.full == 1:
        return [array]
    if array.ndim <= axis or array.shape[axis] % batch.full:
        return [array] * batch.count  # an output without that axis belongs to all
    return np.split(array, batch.full, axis)[: batch.count]


def _folder(folder: Path) -> list[Path]:
    found = sorted((p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES), key=_natural)
    if not found:
        raise AscError(Problem("ASC4022", f"{folder} holds no .npy or .bin files.", nodes=(str(folder),)))
    if len(found) > MAX_FILES:
        raise AscError(Problem("ASC4022", f"{folder} holds more than {MAX_FILES} files.", nodes=(str(folder),)))
    return found


def _natural(path: Path) -> tuple[int, str]:
    return len(path.name), path.name


def _bytes(path: Path) -> int:
    if path.suffix.lower() != ".npy":
        return path.stat().st_size
    array = _array(path, mapped=True)
    return int(array.nbytes)


def _array(path: Path, mapped: bool = False) -> Array:
    if path.suffix.lower() != ".npy":
        return np.frombuffer(path.read_bytes(), np.uint8)
    try:
        array: Array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise AscError(
            Problem("ASC4020", f"{path} is not a readable .npy file.", cause=str(error)[:300], nodes=(str(path),))
        ) from error
    return array
