"""Input and output tensors as files: ``.npy``, raw ``.bin`` (device dtype, C order) and text. Used by `asc run`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.feeds import Tensor
from asc_devkit.npu.numerics import Array

OUT_FORMATS: Final = ("NPY", "BIN", "TXT")
IN_SUFFIXES: Final = (".npy", ".bin")
MAX_SAMPLES: Final = 1_000_000
MAX_RANDOM_BYTES: Final = 4 << 30


def safe_name(name: str) -> str:
    """``name`` as a file name."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name).strip(".") or "tensor"


@dataclass(frozen=True)
class Sample:
    """Inputs of one run as files; read when the run starts, as a folder may hold more than fits in memory."""

    name: str
    files: Mapping[str, Path]

    def load(self, tensors: Iterable[Tensor]) -> dict[str, Array]:
        """The arrays by input name. Raises ``AscError`` naming every file that does not fit."""
        problems: list[Problem] = []
        feed: dict[str, Array] = {}
        for tensor in tensors:
            if tensor.name in self.files:
                try:
                    feed[tensor.name] = read(self.files[tensor.name], tensor)
                except AscError as error:
                    problems += error.problems
        if problems:
            raise AscError(problems)
        return feed


def samples(given: Sequence[str], tensors: Sequence[Tensor]) -> list[Sample]:
    """Runs to make from ``--input`` texts.

    Each text is ``name=file``, files in the order of the model's inputs separated by commas, or a folder: with one file
    per input (named after it), or, for a model with one input, with any number of files, each a run of its own. Raises
    ``AscError`` naming every problem.
    """
    chosen: dict[str, Path] = {}
    problems: list[Problem] = []
    for text in given:
        name, equals, path = text.partition("=")
        if equals and any(t.name == name for t in tensors):
            chosen[name] = Path(path)
        elif Path(text).is_dir():
            if len(given) == 1 and len(tensors) == 1:
                return _folder_runs(Path(text), tensors[0])
            chosen.update(_folder(Path(text), tensors, problems))
        else:
            free = [t.name for t in tensors if t.name not in chosen]
            paths = text.split(",")
            if (equals and not Path(text).exists()) or len(paths) > len(free):
                problems.append(_stray(text, tensors))
            else:
                chosen.update(zip(free, map(Path, paths), strict=False))
    if problems:
        raise AscError(problems)
    return [Sample("", chosen)]


def fitting(sample: Sample, choices: Mapping[int, Sequence[Tensor]]) -> list[int]:
    """Which of ``choices`` (the inputs of each gear) the files can be: by shape (``.npy``) or by bytes (``.bin``)."""
    return [
        number
        for number, tensors in choices.items()
        if all(t.name not in sample.files or _fits(sample.files[t.name], t) for t in tensors)
    ]


def _fits(path: Path, tensor: Tensor) -> bool:
    try:
        if path.suffix == ".npy":
            return tuple(np.load(path, mmap_mode="r", allow_pickle=False).shape) == tensor.shape
        size = path.stat().st_size
    except (OSError, ValueError, EOFError):
        return False
    count = math.prod(d or 0 for d in tensor.shape)
    return any(size == count * dtype.itemsize for dtype in _stored_as(tensor.dtype))


def read(path: Path, tensor: Tensor) -> Array:
    """The tensor stored in ``path``; raw files must have exactly the bytes of the input."""
    try:
        if path.suffix == ".npy":
            return _read_npy(path)
        raw = path.read_bytes()
    except OSError as error:
        raise AscError(
            Problem(
                "E13001", f"Cannot read {path}: {error.strerror or error}.", fix="Check --input.", nodes=(str(path),)
            )
        ) from error
    shape = tuple(d or 0 for d in tensor.shape)
    for dtype in _stored_as(tensor.dtype):
        if len(raw) == math.prod(shape) * dtype.itemsize:
            return np.frombuffer(raw, dtype).reshape(shape)
    raise AscError(
        Problem(
            "ASC4021",
            f"{path} has {len(raw)} bytes; input {tensor.name!r} ({tensor.dtype.name} {list(shape)}) has "
            f"{math.prod(shape) * tensor.dtype.itemsize}.",
            fix="Write the array in the input's dtype and C order, or use .npy.",
            nodes=(str(path),),
        )
    )


def write(folder: Path, name: str, array: Array, fmt: str) -> Path:
    """Write one output as ``name`` + suffix of ``fmt`` (one of ``OUT_FORMATS``); bfloat16 goes to text files as float32."""
    path = folder / f"{safe_name(name)}.{fmt.lower()}"
    plain = array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array
    with files.atomic_writer(path) as handle:
        if fmt == "NPY":
            np.save(handle, plain, allow_pickle=False)
        elif fmt == "BIN":
            handle.write(np.ascontiguousarray(array).tobytes())
        else:
            rows = plain.reshape(-1, plain.shape[-1]) if plain.ndim else plain.reshape(1, 1)
            np.savetxt(handle, rows, fmt="%.9g" if plain.dtype.kind == "f" else "%d")
    return path


def random_inputs(tensors: Iterable[Tensor], seed: int = 0) -> dict[str, Array]:
    """Inputs to try a model with: normal floats, zeros and ones for integers (valid as indices and masks), bytes
    for pictures (4-D uint8), True."""
    tensors = list(tensors)
    total = sum(math.prod(d or 1 for d in t.shape) * max(t.dtype.itemsize, 4) for t in tensors)
    if total > MAX_RANDOM_BYTES:
        raise AscError(
            Problem("ASC4024", f"Random inputs would take {total >> 20} MiB.", fix="Give inputs with --input.")
        )
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for tensor in tensors:
        shape = tuple(d or 1 for d in tensor.shape)
        if tensor.dtype.kind == "b":
            made[tensor.name] = np.ones(shape, np.bool_)
        elif tensor.dtype.kind in "iu":
            picture = tensor.dtype == np.uint8 and len(shape) == 4
            made[tensor.name] = rng.integers(0, 256 if picture else 2, shape).astype(tensor.dtype)
        else:
            made[tensor.name] = rng.standard_normal(shape, np.float32).astype(tensor.dtype)
    return made


def statistics(array: Array) -> Mapping[str, Any]:
    """Shape, dtype, minimum and maximum of the finite elements, count of the others."""
    facts: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape), "min": None, "max": None}
    values = array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        facts["non_finite"] = int(values.size - np.count_nonzero(finite))
        values = values if not facts["non_finite"] else values[finite]
    if values.size:
        facts["min"], facts["max"] = values.min().item(), values.max().item()
    return facts


def _read_npy(path: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise AscError(
            Problem("ASC4020", f"{path} is not a readable .npy file.", cause=str(error)[:300], nodes=(str(path),))
        ) from error
    return array


def _stored_as(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Element types a raw file may hold: the input's own, and float32 for 16-bit floats."""
    return [dtype, np.dtype(np.float32)] if dtype.itemsize == 2 and dtype.kind not in "iu" else [dtype]


def _folder(folder: Path, tensors: Sequence[Tensor], problems: list[Problem]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for tensor in tensors:
        paths = [folder / f"{safe_name(tensor.name)}{suffix}" for suffix in IN_SUFFIXES]
        path = next((p for p in paths if p.is_file()), None)
        if path is None:
            problems.append(
                Problem(
                    "ASC4022",
                    f"{folder} has no file for input {tensor.name!r}.",
                    fix=f"Name it {paths[0].name} or {paths[1].name}.",
                    nodes=(tensor.name,),
                )
            )
        else:
            found[tensor.name] = path
    return found


def _folder_runs(folder: Path, tensor: Tensor) -> list[Sample]:
    paths = sorted(p for p in folder.iterdir() if p.suffix in IN_SUFFIXES)[:MAX_SAMPLES]
    if not paths:
        raise AscError(Problem("ASC4022", f"{folder} holds no .npy or .bin files.", nodes=(str(folder),)))
    return [Sample(path.stem, {tensor.name: path}) for path in paths]


def _stray(text: str, tensors: Sequence[Tensor]) -> Problem:
    return Problem(
        "ASC4023",
        f"--input {text} names no input and no file.",
        fix="Use name=file, a file, or a folder; inputs are " + ", ".join(t.name for t in tensors) + ".",
        nodes=(text,),
    )
