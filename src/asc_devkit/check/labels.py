"""Labels of a check's inputs, and the task accuracy they allow: answers right before and after the conversion."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.check.arrays import FAILURES, npz_entries, read_npy, read_npz
from asc_devkit.errors import AscError, Problem

Array = np.ndarray[Any, Any]
MAX_LABEL_BYTES: Final = 64 << 20


def load_labels(path: Path) -> Array:
    """Class numbers int64 (N,) from .npy, .npz (its only entry or the one called labels), or text or CSV with one per
    line (last column, header allowed). Raises ``AscError``."""
    try:
        if path.stat().st_size > MAX_LABEL_BYTES:
            raise ValueError("the file is too large for labels")
        found = _read(path)
        if found.dtype.kind not in "iu" and not np.array_equal(found, np.round(found)):
            raise ValueError("labels are whole numbers")
        if found.size != found.shape[0] if found.ndim else True:
            raise ValueError(f"the shape is {list(found.shape)}; one number per sample is needed")
        return found.astype(np.int64).ravel()
    except (*FAILURES, TypeError) as error:
        raise AscError(
            Problem(
                "ASC5003",
                f"Labels cannot be read from {path}: {_reason(error)}.",
                fix="Give .npy, or text with one class number per line.",
                nodes=(str(path),),
            )
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _read(path: Path) -> Array:
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix == ".npz":
        names = npz_entries(path)
        if len(names) != 1 and "labels" not in names:
            raise ValueError(f"it has the entries {names[:10]}, none called labels")
        return read_npz(path, "labels" if "labels" in names else names[0])
    with path.open(newline="", encoding="utf-8-sig") as handle:
        cells = [row[-1].strip() for row in csv.reader(handle) if row]
    if cells and not cells[0].lstrip("-").isdecimal():
        cells = cells[1:]  # a header
    wrong = next((cell for cell in cells if not cell.lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise ValueError(f"{wrong[:40]!r} is not a class number")
    return np.array([int(cell) for cell in cells], np.int64)


class TopOne:
    """Counts right answers of the original and the converted model, batch by batch."""

    def __init__(self, output: str, labels: Array) -> None:
        self.output, self.labels = output, labels
        self.samples = self.before = self.after = self.changed = 0
        self.scores = 0

    @staticmethod
    def fits(expected: Array) -> bool:
        """Whether an output holds one row of scores (or one score) per sample."""
        return expected.ndim >= 2 and expected.size == expected.shape[0] * expected.shape[1]

    def add(self, expected: Array, actual: Array) -> None:
        """Take one batch of scores (N, C) in; rows beyond the labels are left out."""
        count = min(len(expected), len(self.labels) - self.samples)
        truth = self.labels[self.samples : self.samples + count]
        first, second = self._answers(expected[:count]), self._answers(actual[:count])
        self.samples += count
        self.before += int((first == truth).sum())
        self.after += int((second == truth).sum())
        self.changed += int((first != second).sum())

    def _answers(self, scores: Array) -> Array:
        flat = scores.reshape(len(scores), scores.shape[1])
        self.scores = flat.shape[1]
        if self.scores == 1:
            return np.asarray(flat[:, 0] > 0.5).astype(np.int64)  # one probability: yes or no
        return np.asarray(flat.argmax(1))

    def result(self) -> dict[str, Any] | None:
        """The report's ``task``; None without samples."""
        if not self.samples:
            return None
        return {
            "metric": "top-1 accuracy" if self.scores > 1 else "accuracy at 0.5",
            "output": self.output,
            "samples": self.samples,
            "before": self.before / self.samples,
            "after": self.after / self.samples,
            "changed": self.changed,
        }
