"""Arrays from .npy and .npz files that may be hostile: no pickles, sizes checked against the file before allocating."""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
MAX_ENTRY_BYTES: Final = 4 << 30  # of one .npz entry, which is read whole; .npy files are mapped
# what reading a damaged or foreign file can raise
FAILURES: Final = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, SyntaxError)


def read_npy(path: Path) -> Array:
    """The array of a .npy file, mapped read-only. Raises one of ``FAILURES``."""
    with path.open("rb") as handle:
        shape, dtype = _header(handle)
        _check(shape, dtype, path.stat().st_size)
    if math.prod(shape) == 0 or not shape:
        return np.asarray(np.load(path, allow_pickle=False))  # nothing to map
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def npz_entries(path: Path) -> list[str]:
    """Names of the arrays in a .npz file. Raises one of ``FAILURES``."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_npz(path: Path, entry: str) -> Array:
    """One array of a .npz file. Raises one of ``FAILURES``."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{entry}.npy")
        if info.file_size > MAX_ENTRY_BYTES:
            raise ValueError(f"the entry {entry!r} has more than {MAX_ENTRY_BYTES >> 30} GiB; use .npy files")
        with archive.open(info) as handle:
            _check(*_header(handle), info.file_size)
        with archive.open(info) as handle:
            return np.asarray(np.lib.format.read_array(handle, allow_pickle=False))


def _header(handle: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(handle)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(handle)
    return shape, dtype


def _check(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if any(d < 0 for d in shape) or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header promises {list(shape)} {dtype}, more than the file holds")


def natural(path: Path) -> list[tuple[int, str | int]]:
    """Sort key under which 2 comes before 10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", path.name)]
