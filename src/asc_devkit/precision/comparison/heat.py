"""Where in a tensor the errors are: a small picture of relative errors, rows by columns, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError
from asc_devkit.precision.comparison.judge import Finding, distance
from asc_devkit.precision.comparison.pairs import Row
from asc_devkit.precision.sources import TensorRef

Array = np.ndarray[Any, Any]
SIDE: Final = 48  # cells along an axis at most
PICTURES: Final = 24
MAX_ELEMENTS: Final = 32 << 20


def heat_maps(
    rows: Sequence[Row], found: Sequence[Finding], golden: Mapping[str, TensorRef], target: Mapping[str, TensorRef]
) -> dict[str, dict[str, Any]]:
    """Pictures by row name, for the operators to blame and the tensors that are furthest off."""
    failing = [row for row in rows if row.level == "error" and row.metrics is not None]
    blamed = {finding.name for finding in found}
    chosen = sorted(failing, key=lambda r: (r.name not in blamed, -distance(r)))[:PICTURES]
    pictures = {}
    for row in chosen:
        ours, theirs = target.get(row.target), golden.get(row.golden)
        if ours is None or theirs is None or ours.size != theirs.size or ours.size > MAX_ELEMENTS:
            continue
        try:
            made = picture(theirs.array(), ours.array())
        except (AscError, OSError):  # reported with the row
            continue
        if made is not None:
            pictures[row.name] = made
    return pictures


def picture(expected: Array, actual: Array) -> dict[str, Any] | None:
    """Largest error of each cell over the root mean square of the expected tensor, as 0 (below 0.001) to 1 (from 1 on).

    The last axis goes across, all others down; None for tensors of fewer than four elements.
    """
    if expected.size < 4 or expected.dtype.kind == "c":
        return None
    shape = expected.shape if expected.ndim > 1 else _folded(expected.size)
    wide = int(shape[-1])
    a = expected.reshape(-1, wide).astype(np.float64)
    b = actual.reshape(-1, wide).astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    rms = float(np.sqrt(np.mean(np.square(a[finite])))) if finite.any() else 1.0
    with np.errstate(all="ignore"):
        error = np.where(finite, np.abs(a - b) / (rms or 1.0), np.where(_same(a, b), 0.0, np.inf))
    cells = _pooled(_pooled(error, 0), 1)
    with np.errstate(divide="ignore"):
        level = np.clip(1 + np.log10(np.maximum(cells, 1e-300)) / 3, 0.0, 1.0)
    return {
        "values": [[round(float(v), 2) for v in line] for line in level],
        "rows": int(a.shape[0]),
        "columns": wide,
        "shape": [int(d) for d in expected.shape],
    }


def _same(a: Array, b: Array) -> Array:
    both: Array = (np.isnan(a) & np.isnan(b)) | (a == b)
    return both


def _folded(size: int) -> tuple[int, int]:
    wide = next((w for w in (64, 32, 16, 8) if size % w == 0 and size > w), size)
    return size // wide, wide


def _pooled(error: Array, axis: int) -> Array:
    """Cells along ``axis`` joined by their maximum until there are at most ``SIDE``."""
    length = error.shape[axis]
    edges = np.linspace(0, length, min(length, SIDE) + 1).astype(int)[:-1]
    joined: Array = np.maximum.reduceat(error, edges, axis=axis)
    return joined
