"""Tensor messages as IR tensors: checked against their dimensions, backed by the mapped file, never copied needlessly.

External data may only come from the model's own folder; all missing or wrong files are reported together.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes  # noqa: F401  (registers bfloat16 and the small floats with numpy)
import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.errors import Problem
from asc_devkit.frontends.onnx.findings import fault, text
from asc_devkit.frontends.onnx.wire import Span, Split

MAX_RANK: Final = 32
MAX_ELEMENTS: Final = 1 << 40
MAX_DENSE_BYTES: Final = 1 << 30  # of a sparse constant once written out
MAP_FROM_BYTES: Final = 16 << 20  # smaller files are read at once, so that rewriting them meanwhile does no harm

_KNOWN: Final = {int(t): t for t in ir.DataType if t.name != "UNDEFINED"}
# Which repeated field carries which type when raw_data is absent, values per element (onnx.proto, TensorProto); all
# other types are in int32_data.
_TYPED_FIELD: Final = {
    "FLOAT": ("float_data", 1),
    "COMPLEX64": ("float_data", 2),
    "DOUBLE": ("double_data", 1),
    "COMPLEX128": ("double_data", 2),
    "INT64": ("int64_data", 1),
    "UINT32": ("uint64_data", 1),
    "UINT64": ("uint64_data", 1),
    "STRING": ("string_data", 1),
}


class BadTensor(Exception):
    """A tensor message contradicts itself; the text says how."""


@dataclass
class TensorReader:
    """Turns TensorProto into IR tensors. ``missing_files`` collects what external data lacks."""

    data: bytes | mmap.mmap
    split: Split
    folders: tuple[Path, ...]  # where external data may lie: the model's folder, given and resolved
    missing_files: list[Problem] = field(default_factory=list)
    _maps: dict[str, bytes | mmap.mmap | None] = field(default_factory=dict)

    def read(self, proto: onnx.TensorProto, name: str) -> ir.TensorProtocol | None:
        """The tensor called ``name``; None when its external data cannot be had (then ``missing_files`` grows).

        Raises ``BadTensor`` when type, dimensions and data do not fit together.
        """
        dtype = _KNOWN.get(proto.data_type)
        if dtype is None:
            raise BadTensor(f"has the unknown element type {proto.data_type}")
        dims = tuple(proto.dims)
        count = element_count(dims)
        if proto.HasField("segment"):
            raise BadTensor("is split into segments, which ONNX runtimes do not support")
        span = self._span(proto)
        if span is not None:
            return self._from_span(span, dtype, dims, count, name)
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(proto, dtype, dims, count, name)
        if dtype == ir.DataType.STRING:
            if len(proto.string_data) != count:
                raise BadTensor(f"has {len(proto.string_data)} strings for dimensions {list(dims)}")
            return ir.StringTensor(list(proto.string_data), shape=ir.Shape(dims), name=name)
        if proto.HasField("raw_data"):
            return _packed(np.frombuffer(proto.raw_data, np.uint8), dtype, dims, count, name)
        return _typed(proto, dtype, dims, count, name)

    def read_sparse(self, proto: onnx.SparseTensorProto, name: str) -> ir.TensorProtocol | None:
        """A sparse constant as a dense tensor (at most 1 GiB)."""
        values, indices = self.read(proto.values, name), self.read(proto.indices, name)
        if values is None or indices is None:
            return None
        dims = tuple(proto.dims)
        count = element_count(dims)
        data, index = np.asarray(values.numpy()), np.asarray(indices.numpy())
        if values.dtype == ir.DataType.STRING or count * max(data.itemsize, 1) > MAX_DENSE_BYTES:
            raise BadTensor(f"is a sparse tensor of dimensions {list(dims)} that cannot be written out")
        if data.ndim != 1 or index.dtype != np.int64 or index.shape not in ((data.size,), (data.size, len(dims))):
            raise BadTensor("is a sparse tensor whose values and indices do not fit together")
        limits = np.array([count] if index.ndim == 1 else dims)
        if index.size and ((index < 0).any() or (index >= limits).any()):
            raise BadTensor("is a sparse tensor with indices outside its dimensions")
        dense = np.zeros(dims, data.dtype)
        if index.ndim == 1:
            dense.reshape(-1)[index] = data
        else:
            dense[tuple(index.T)] = data
        return ir.Tensor(dense, dtype=values.dtype, name=name)

    def _span(self, proto: onnx.TensorProto) -> Span | None:
        prefix = f"{self.split.token}:"
        for entry in reversed(proto.external_data):
            if entry.key == "location" and text(entry.value).startswith(prefix):
                return self.split.spans[int(entry.value[len(prefix) :])]
        return None

    def _from_span(
        self, span: Span, dtype: ir.DataType, dims: tuple[int, ...], count: int, name: str
    ) -> ir.TensorProtocol:
        if not span.is_raw:
            want = ("float_data", "double_data")[span.field == 10]
            if _TYPED_FIELD.get(dtype.name, ("",))[0] != want:
                raise BadTensor(f"is of type {dtype.name} but carries {want}")
        return _packed(np.frombuffer(self.data, np.uint8, span.length, span.offset), dtype, dims, count, name)

    def _external(
        self, proto: onnx.TensorProto, dtype: ir.DataType, dims: tuple[int, ...], count: int, name: str
    ) -> ir.TensorProtocol | None:
        entries = {text(entry.key): text(entry.value) for entry in proto.external_data}
        location = entries.get("location", "")
        numbers = {}
        for key in ("offset", "length"):
            number = entries.get(key) or "0"
            if not (number.isascii() and number.isdigit() and len(number) < 20):
                raise BadTensor(f"has an external data {key} that is no number: {number[:40]!r}")
            numbers[key] = int(number)
        size = byte_count(dtype, count)
        if entries.get("length") and numbers["length"] != size:
            raise BadTensor(f"announces {numbers['length']} bytes of external data, its dimensions need {size}")
        if dtype == ir.DataType.STRING:
            raise BadTensor("holds strings in external data, which ONNX does not allow")
        data = self._open(location)
        if data is None:
            return None
        if numbers["offset"] + size > len(data):
            self.missing_files.append(
                fault(
                    "E10041",
                    f"external data file {location!r} is too short for tensor {name!r}: bytes {numbers['offset']} to "
                    f"{numbers['offset'] + size} are needed, the file has {len(data)}",
                    "fetch the complete file again and put it beside the model",
                    name,
                    cause="an interrupted download or copy",
                )
            )
            return None
        return _packed(np.frombuffer(data, np.uint8, size, numbers["offset"]), dtype, dims, count, name)

    def _open(self, location: str) -> bytes | mmap.mmap | None:
        if location not in self._maps:
            path, reason, fix = _inside(location, self.folders)
            self._maps[location] = None
            if path is not None:
                try:
                    self._maps[location] = map_file(path)
                except OSError as error:
                    reason, fix = f"it cannot be read: {error.strerror or error}", "check the file and its permissions"
            if self._maps[location] is None:
                what = f"external data file {location[:300]!r} cannot be used"
                self.missing_files.append(fault("E10041", f"{what}: {reason}", fix, location))
        return self._maps[location]


def map_file(path: Path) -> bytes | mmap.mmap:
    """The bytes of a regular file; large files are mapped, not read. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(0, "not a regular file")
        if info.st_size >= MAP_FROM_BYTES:
            return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        chunks = []
        while chunk := os.read(fd, MAP_FROM_BYTES):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def element_count(dims: tuple[int, ...]) -> int:
    """Number of elements. Raises ``BadTensor`` for negative, too many or absurd dimensions."""
    if len(dims) > MAX_RANK:
        raise BadTensor(f"has {len(dims)} dimensions; at most {MAX_RANK} are possible")
    if any(d < 0 for d in dims):
        raise BadTensor(f"has a negative dimension: {list(dims)}")
    count = math.prod(dims)
    if count > MAX_ELEMENTS or max(dims, default=0) > MAX_ELEMENTS:
        raise BadTensor(f"has absurd dimensions: {list(dims)}")
    return count


def byte_count(dtype: ir.DataType, count: int) -> int:
    """Bytes of ``count`` elements, sub-byte types packed."""
    return math.ceil(count * dtype.itemsize) if dtype != ir.DataType.STRING else 0


def _packed(
    data: np.ndarray[Any, Any], dtype: ir.DataType, dims: tuple[int, ...], count: int, name: str
) -> ir.TensorProtocol:
    if dtype == ir.DataType.STRING:
        raise BadTensor("holds strings as raw bytes")
    size = byte_count(dtype, count)
    if data.size != size:
        raise BadTensor(f"has {data.size} bytes of data, its type {dtype.name} and dimensions {list(dims)} need {size}")
    shape = ir.Shape(dims)
    if dtype.itemsize < 1:
        return ir.PackedTensor(data, dtype, shape=shape, name=name)
    array = data.astype(np.bool_) if dtype == ir.DataType.BOOL else data.view(dtype.numpy())  # bool bytes may be 2
    return ir.Tensor(array.reshape(dims), dtype=dtype, shape=shape, name=name)


def _typed(
    proto: onnx.TensorProto, dtype: ir.DataType, dims: tuple[int, ...], count: int, name: str
) -> ir.TensorProtocol:
    field_name, per_element = _TYPED_FIELD.get(dtype.name, ("int32_data", 1))
    have = len(getattr(proto, field_name))
    packed = math.ceil(count * dtype.itemsize) if dtype.itemsize < 1 else count
    if have != packed * per_element:
        hint = ", its data is missing" if not have else ""
        raise BadTensor(f"has {have // per_element} values of type {dtype.name} for dimensions {list(dims)}{hint}")
    array: np.ndarray[Any, Any] = np.fromiter(getattr(proto, field_name), _CONTAINER.get(field_name, "i8"), have)
    if dtype.itemsize < 1:
        return ir.PackedTensor(array.astype(np.uint8), dtype, shape=ir.Shape(dims), name=name)
    target = dtype.numpy()
    if per_element == 2 or field_name in ("float_data", "double_data"):
        array = array.view(target)
    elif dtype.name.startswith(("FLOAT", "BFLOAT")):  # bit patterns kept in integers
        array = array.astype(f"u{target.itemsize}").view(target)
    else:
        array = array.astype(target)
    return ir.Tensor(array.reshape(dims), dtype=dtype, shape=ir.Shape(dims), name=name)


_CONTAINER: Final = {"float_data": "f4", "double_data": "f8", "uint64_data": "u8"}


def _inside(location: str, folders: tuple[Path, ...]) -> tuple[Path | None, str, str]:
    """The file named by ``location`` if it lies inside the model's folder, else why not and what to do."""
    beside = "keep external data files in the model's folder"
    if not location:
        return None, "the model names no file", "save the model again with its external data"
    if "\0" in location or len(location) > 1024:
        return None, "the name is not a file name", "save the model again with its external data"
    parts = location.replace("\\", "/").split("/")
    drive = len(parts[0]) > 1 and parts[0][0].isalpha() and parts[0][1] == ":"
    if Path(location).is_absolute() or location[:1] in "/\\" or drive or ".." in parts:
        return None, "its path leads out of the model's folder", beside
    candidate = folders[0].joinpath(*parts)
    try:
        resolved = candidate.resolve(strict=True)
    except (OSError, RuntimeError):
        return None, f"it is not there: {candidate}", "copy it beside the model (both files belong together)"
    if not any(resolved.is_relative_to(folder) for folder in folders):
        return None, f"it is a link that leads out of the model's folder: {resolved}", beside
    if not resolved.is_file():
        return None, "it is not a regular file", beside
    return resolved, "", ""
