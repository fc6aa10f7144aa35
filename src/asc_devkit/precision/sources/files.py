"""One file of any kind -> its tensors. The kind is told by suffix, then by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.sources import npu_dump
from asc_devkit.precision.sources.names import key_of
from asc_devkit.precision.sources.numpy_file import open_npy, open_npz
from asc_devkit.precision.sources.raw_file import open_bin, open_safetensors
from asc_devkit.precision.sources.tensor import TensorRef
from asc_devkit.precision.sources.torch_file import open_pt

SUFFIXES: Final = (".npy", ".npz", ".bin", ".pt", ".pth", ".safetensors")


def open_file(
    path: Path, *, dtype: np.dtype[Any] | None = None, shape: tuple[int, ...] | None = None, name: str = ""
) -> list[TensorRef]:
    """All tensors in ``path``; ``dtype`` and ``shape`` describe raw files. Raises ``AscError`` for what cannot be read."""
    try:
        if not path.is_file():
            raise AscError(Problem("ASC5101", f"There is no file {path}.", fix="Check the path.", nodes=(str(path),)))
        suffix = path.suffix.lower()
        key = name or key_of(path.name).name
        if suffix == ".npy":
            return open_npy(path, key)
        if suffix == ".npz":
            return open_npz(path)
        if suffix in (".pt", ".pth"):
            return open_pt(path, key)
        if suffix == ".safetensors":
            return open_safetensors(path)
        if suffix == ".bin":
            return open_bin(path, key, dtype, shape)
        if npu_dump.looks_like(path):
            return npu_dump.open_dump(path)
    except OSError as error:
        raise AscError(
            Problem("ASC5101", f"{path} cannot be read: {error.strerror or error}.", nodes=(str(path),))
        ) from error
    raise AscError(
        Problem(
            "ASC5107",
            f"{path.name} is of no kind that is read.",
            fix=f"Use {', '.join(SUFFIXES)} or a dump file of the NPU ({{op_type}}.{{op_name}}.{{task}}.{{stream}}.{{time}}).",
            nodes=(str(path),),
        )
    )
