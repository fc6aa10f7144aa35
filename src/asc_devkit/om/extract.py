"""Weights of an `.om` as .npy files with an index."""

from __future__ import annotations

import io
import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from asc_devkit import files
from asc_devkit.ge.desc import DESC, TensorDesc
from asc_devkit.ge.layout import to_storage
from asc_devkit.om.reader import read


def extract(model: str | PathLike[str], folder: str | PathLike[str], *, raw: bool = False) -> list[dict[str, Any]]:
    """Write each constant of the root graph to ``folder`` (original layout, or device layout with ``raw``).

    bfloat16 and other types numpy files cannot name are stored as unsigned integers of the same width, noted in
    index.json. Returns the index rows: name, file, shape, dtype, format.
    """
    target = Path(folder)
    rows: list[dict[str, Any]] = []
    taken: set[str] = set()
    for name, value in read(model).to_ir().graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        array = np.asarray(tensor.numpy())
        desc = value.meta.get(DESC)
        fmt = desc.format if isinstance(desc, TensorDesc) else "ND"
        if raw and isinstance(desc, TensorDesc):
            array = to_storage(array, desc.format, desc.origin_format, desc.groups)
        if array.dtype.kind not in "biufc":
            array = array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype.kind == "V" else array
        if array.dtype.kind == "O":
            array = array.astype(np.str_)
        file = _file_name(name, taken)
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        files.write_bytes(target / file, buffer.getvalue())
        rows.append(
            {
                "name": name,
                "file": file,
                "shape": [int(d) for d in array.shape],
                "dtype": value.dtype.name if value.dtype is not None else "",
                "format": fmt if raw else "origin",
            }
        )
    files.write_text(target / "index.json", json.dumps(rows, indent=1) + "\n")
    return rows


def _file_name(name: str, taken: set[str]) -> str:
    stem = re.sub(r"[^\w.-]", "_", name)[:120].lstrip(".") or "weight"
    file, number = f"{stem}.npy", 1
    while file.lower() in taken:
        number += 1
        file = f"{stem}_{number}.npy"
    taken.add(file.lower())
    return file
