"""Dumps: every operator output of a run in a folder, written by the run itself into mapped files.

``.npy``: ``{op_type}.{op_name}.{task_id}.{stream_id}.{timestamp_us}.output.{i}.npy``; ``.bin``: raw elements under
``{op_name}.{i}.{timestamp_us}.bin``. ``index.json`` says which file is which tensor, what it equals in the user's
model and which operators are fused in it. bfloat16, which ``.npy`` cannot name, is stored as float32 (exactly).
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.lower import Output
from asc_devkit.npu.numerics import Array, numpy_dtype

INDEX: Final = "index.json"
SCHEMA: Final = "asc-devkit/dump/1"
FORMATS: Final = ("npy", "bin")
MAPPING: Final = "mapping.csv"
IN_MEMORY: Final = 256 << 20
_MAX_NAME: Final = 255
_STREAM: Final = 0


class DumpFolder:
    """A sink (``executor.Sink``) that writes into a folder of its own and moves it to ``target`` at the end.

    Up to ``IN_MEMORY`` bytes the values are handed over and written after the run (faster); beyond that the run writes
    them straight into mapped files, so that memory stays bounded.
    """

    def __init__(self, target: Path, outputs: Sequence[Output], fmt: str) -> None:
        if fmt not in FORMATS:
            raise AscError(Problem("ASC4004", f"Unknown dump format {fmt}.", fix=f"Use {' or '.join(FORMATS)}."))
        self.target, self.format = target, fmt
        self.stamp = time.time_ns() // 1000
        self.by_name: dict[str, list[Output]] = {}
        for output in outputs:
            self.by_name.setdefault(output.onnx, []).append(output)
        self.names = self._file_names(outputs)
        self.mapped = sum(_nbytes(group[0]) for group in self.by_name.values()) > IN_MEMORY
        self.written: dict[str, dict[str, Any]] = {}
        self.placed: dict[str, np.memmap[Any, Any]] = {}
        try:
            self.fresh = not target.exists() or (target.is_dir() and not any(target.iterdir()))
            home = target.parent if self.fresh else target
            home.mkdir(parents=True, exist_ok=True)
            self.work = Path(tempfile.mkdtemp(prefix=".dump-", dir=home))
        except OSError as error:
            raise _unwritable(target, error) from error

    def place(self, name: str) -> Array | None:
        """Map the file of a value whose shape is known, in the dtype ONNX Runtime delivers."""
        output = self.by_name[name][0]
        if not self.mapped or not _nbytes(output) or (self.format == "bin" and output.dtype == "BFLOAT16"):
            return None
        path, dtype = self.work / self.names[output.value], _delivered(output)
        assert dtype is not None
        shape = tuple(d for d in output.shape if d is not None)
        array: np.memmap[Any, Any]
        try:
            if self.format == "npy":
                array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
            else:
                array = np.memmap(path, mode="w+", dtype=dtype, shape=shape)
            _reserve(path)
        except (OSError, ValueError, OverflowError) as error:
            raise _unwritable(self.target, error) from error
        self.placed[name] = array
        self._note(self.by_name[name], dtype, shape)
        return array

    def take(self, name: str, array: Array) -> None:
        """Write a value that has no place; strings are left out."""
        if name in self.placed or array.dtype.hasobject:
            return
        output = self.by_name[name][0]
        array = np.ascontiguousarray(array).reshape(array.shape)
        if self.format == "bin" and output.dtype == "BFLOAT16":
            array = array.astype(numpy_dtype(ir.DataType.BFLOAT16))
        try:
            with open(self.work / self.names[output.value], "wb", buffering=0) as handle:
                if self.format == "npy":
                    handle.write(_header(array.dtype, array.shape))
                view = memoryview(array.reshape(-1).view(np.uint8).data)
                while len(view):  # an unbuffered write may stop early
                    view = view[handle.write(view) :]
        except OSError as error:
            raise _unwritable(self.target, error) from error
        self._note(self.by_name[name], array.dtype, array.shape)

    def finish(self, facts: dict[str, Any]) -> Path:
        """Move the files to the target, replacing those of an earlier dump there; returns the path of the index."""
        self.placed.clear()
        rows = [self.written[o.value] for group in self.by_name.values() for o in group if o.value in self.written]
        head = {"schema": SCHEMA, "timestamp_us": self.stamp, "format": self.format, **facts}
        lines = ",\n".join(map(json.dumps, rows))
        text = f'{json.dumps(head)[:-1]}, "tensors": [\n{lines}\n]}}\n'
        hashed = {row["file"]: row["long_name"] for row in rows if row["long_name"]}
        try:
            (self.work / INDEX).write_text(text, encoding="utf-8")
            if hashed:
                (self.work / MAPPING).write_text("".join(f"{a},{b}\n" for a, b in hashed.items()), encoding="utf-8")
            self._move()
        except OSError as error:
            raise _unwritable(self.target, error) from error
        finally:
            self.abandon()
        return self.target / INDEX

    def _move(self) -> None:
        self.work.chmod(0o755)
        if self.fresh:
            self.work.replace(self.target)
            return
        old = _listed(self.target)
        for item in self.work.iterdir():
            if item.name != INDEX:
                item.replace(self.target / item.name)
        (self.work / INDEX).replace(self.target / INDEX)
        for name in old - set(self.names.values()):
            (self.target / name).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Remove what a failed run left."""
        self.placed.clear()
        shutil.rmtree(self.work, ignore_errors=True)

    def _note(self, group: Sequence[Output], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        file = self.names[group[0].value]
        for output in group:
            self.written[output.value] = {
                "file": file,
                "long_name": self.long_names.get(file, ""),
                "node": output.node,
                "op_type": output.op_type,
                "output": output.index,
                "tensor": output.value,
                "origin_tensor": output.origin,
                "device_dtype": output.dtype,
                "dtype": dtype.name,
                "shape": list(shape),
                "engine": output.engine,
                "members": [list(m) for m in output.members],
                "origin_ops": [list(o) for o in output.origin_ops],
            }

    def _plain_name(self, output: Output) -> str:
        safe = re.sub(r"[^A-Za-z0-9_\-]", "_", output.node)
        if self.format == "bin":
            return f"{safe}.{output.index}.{self.stamp}.bin"
        kind = re.sub(r"[^A-Za-z0-9_]", "_", output.op_type)
        task = max(output.task, 0)
        return f"{kind}.{safe}.{task}.{_STREAM}.{self.stamp}.output.{output.index}.npy"

    def _file_names(self, outputs: Sequence[Output]) -> dict[str, str]:
        names: dict[str, str] = {}
        self.long_names: dict[str, str] = {}
        taken: set[str] = set()
        for output in outputs:
            name = self._plain_name(output)
            if len(name) > _MAX_NAME or name in taken:
                digest = hashlib.blake2b(output.value.encode(), digest_size=16).hexdigest()
                long, name = name, f"{digest}.{self.stamp}.output.{output.index}.{self.format}"
                self.long_names[name] = long
            taken.add(name)
            names[output.value] = name
        return names


def _delivered(output: Output) -> np.dtype[Any] | None:
    """Element type in which ONNX Runtime hands the value over."""
    if output.dtype == "BFLOAT16":
        return np.dtype(np.float32)
    try:
        return np.dtype(ir.DataType[output.dtype].numpy())
    except (KeyError, TypeError):
        return None


def _nbytes(output: Output) -> int:
    """Bytes of the value as delivered, 0 when its shape or type is not known."""
    dtype = _delivered(output)
    if dtype is None or dtype.hasobject or None in output.shape:
        return 0
    return math.prod(d or 0 for d in output.shape) * dtype.itemsize


@functools.lru_cache(maxsize=4096)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Magic and header of an ``.npy`` file."""
    buffer = io.BytesIO()
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, facts)
    return buffer.getvalue()


def _listed(folder: Path) -> set[str]:
    """Names of the files an earlier dump left in ``folder``."""
    try:
        index = json.loads((folder / INDEX).read_bytes())
        names = [row["file"] for row in index["tensors"]] if index["schema"] == SCHEMA else []
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {name for name in names if isinstance(name, str) and name == Path(name).name and name not in ("", ".", "..")}


def _reserve(path: Path) -> None:
    """Take the space of a mapped file now: a disk that fills up later would kill the process."""
    if not hasattr(os, "posix_fallocate"):
        return
    with open(path, "rb+") as handle:
        os.posix_fallocate(handle.fileno(), 0, max(os.fstat(handle.fileno()).st_size, 1))


def _unwritable(target: Path, error: Exception) -> AscError:
    why = getattr(error, "strerror", None) or error
    return AscError(Problem("ASC4005", f"Cannot write the dump to {target}: {why}.", fix="Choose another folder."))
