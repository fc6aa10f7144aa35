"""Weights of an `.om` as .npy files with an index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit import files
from asc_devkit.ge.desc import DESC, TensorDesc
from asc_devkit.ge.layout import to_storage
from asc_devkit.om.reader import read


def extract(model: str | PathLike[str], folder: str | PathLike[str], *, raw: bool = False) -> list[dict[str, Any]]:
    """Write each constant (also of bodies) to ``folder`` in its original layout, or as the device has it with ``raw``.

    Types that .npy files have no name for (bfloat16, fp8, int4) are stored as unsigned integers of the same width;
    the index (also in ``index.json``) has the true type. Returns its rows: name, file, shape, dtype, format.
    Raises ``AscError`` when the model is damaged.
    """
    target = Path(folder)
    rows: list[dict[str, Any]] = []
    taken: set[str] = set()
    for name, value in _constants(read(model).as_stored().graph):
        assert value.const_value is not None
        array = np.asarray(value.const_value.numpy())
        desc = value.meta.get(DESC)
        fmt = desc.format if isinstance(desc, TensorDesc) else "ND"
        if raw and isinstance(desc, TensorDesc):
            array = to_storage(array, desc.format, desc.origin_format, desc.groups)
        if array.dtype.kind == "V":
            array = array.view(np.dtype(f"u{array.dtype.itemsize}"))
        elif array.dtype.kind == "O":
            array = np.char.decode(array.astype(np.bytes_), "utf-8", "replace")
        file = _file_name(name, taken)
        with files.atomic_writer(target / file) as handle:
            np.save(handle, array, allow_pickle=False)
        rows.append(
            {
                "name": name,
                "file": file,
                "shape": [int(d) for d in array.shape],
                "dtype": value.const_value.dtype.name,
                "format": fmt if raw else "origin",
            }
        )
    files.write_text(target / "index.json", json.dumps(rows, indent=1) + "\n")
    return rows


def _constants(graph: ir.Graph, inside: str = "") -> Iterator[tuple[str, ir.Value]]:
    """Constants of ``graph`` and of the bodies of its operators, these with the operator's name before theirs."""
    for name, value in graph.initializers.items():
        yield inside + name, value
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _constants(attribute.as_graph(), f"{inside}{node.name}/{attribute.name}/")


def _file_name(name: str, taken: set[str]) -> str:
    stem = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:120].lstrip(".") or "weight"
    file, number = f"{stem}.npy", 1
    while file.lower() in taken:
        number += 1
        file = f"{stem}_{number}.npy"
    taken.add(file.lower())
    return file
