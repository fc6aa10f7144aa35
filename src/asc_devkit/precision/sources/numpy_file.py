""".npy and .npz without pickle. The header is a literal, never evaluated; stored members of an archive are streamed."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import IO, Any, Final

import ml_dtypes
import numpy as np

from asc_devkit.precision.sources.tensor import Array, TensorRef, bounded, checked_shape, problem_of, torn

MAGIC: Final = b"\x93NUMPY"
MAX_HEADER: Final = 1 << 16
MAX_MEMBERS: Final = 100_000
_BY_BYTES: Final = {"V2": np.dtype(ml_dtypes.bfloat16)}  # how numpy stores bfloat16


def header(handle: IO[bytes], path: Path) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape, Fortran order and length of the header that starts at the handle's position."""
    start = handle.tell()
    try:
        version = np.lib.format.read_magic(handle)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(handle, max_header_size=MAX_HEADER)
    except Exception as error:  # a hostile header fails in many ways
        raise torn(path, f"no readable .npy header ({problem_of(error)})") from error
    if dtype.hasobject:
        raise torn(path, "it holds Python objects (pickle), which are never loaded")
    dtype = _BY_BYTES.get(dtype.str.lstrip("|<>="), dtype)
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise torn(path, f"its element type {dtype} is not numeric")
    return dtype, checked_shape(path, shape), fortran, handle.tell() - start


def open_npy(path: Path, name: str) -> list[TensorRef]:
    """The one tensor of a ``.npy`` file. Raises ``AscError`` when the file has not exactly the elements it declares."""
    with open(path, "rb") as handle:
        dtype, shape, fortran, offset = header(handle, path)
        handle.seek(0, 2)
        size = handle.tell()
    return [_tensor(path, name, dtype, shape, fortran, offset, size - offset)]


def _tensor(
    path: Path, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool, offset: int, stored: int
) -> TensorRef:
    ref = TensorRef(name, dtype.newbyteorder("=") if dtype.kind != "V" else dtype, shape, path, offset)
    if ref.nbytes != stored:
        raise torn(path, f"its header declares {ref.nbytes} bytes of elements, {stored} are there")
    swapped = dtype.byteorder == ">"
    if (fortran and len(shape) > 1) or swapped:
        bounded(path, ref.nbytes)
        plain = TensorRef(name, dtype, shape[::-1] if fortran else shape, path, offset)

        def load() -> Array:
            array = plain.array()
            array = array.transpose() if fortran else array
            return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")) if swapped else array)

        return TensorRef(name, ref.dtype, shape, path, offset, load)
    return ref


def open_npz(path: Path) -> list[TensorRef]:
    """The arrays of a ``.npz`` archive; compressed members are bounded before they are unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise torn(path, f"it has {len(members)} members")
            return [_member(path, archive, info) for info in members if info.filename.endswith(".npy")]
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise torn(path, problem_of(error)) from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> TensorRef:
    name = info.filename[: -len(".npy")]
    with archive.open(info) as handle:
        dtype, shape, fortran, length = header(handle, path)
    stored = info.file_size - length
    if info.compress_type == zipfile.ZIP_STORED:
        return _tensor(path, name, dtype, shape, fortran, member_offset(path, info) + length, stored)
    ref = _tensor(path, name, dtype, shape, False, 0, stored)
    bounded(path, ref.nbytes)

    def load() -> Array:
        with zipfile.ZipFile(path) as again, again.open(info) as handle:
            handle.read(length)
            raw = handle.read(ref.nbytes + 1)
        if len(raw) != ref.nbytes:
            raise torn(path, f"member {info.filename} has not the size it declares")
        array = np.frombuffer(raw, dtype)
        return array.reshape(shape[::-1]).transpose() if fortran else array.reshape(shape)

    return TensorRef(name, ref.dtype, shape, path, 0, load)


def member_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin (its local header may be longer than the directory says)."""
    with open(path, "rb") as handle:
        handle.seek(info.header_offset)
        local = handle.read(30)
    if len(local) != 30 or local[:4] != b"PK\x03\x04":
        raise torn(path, f"member {info.filename} has no header")
    name_length, extra_length = struct.unpack("<HH", local[26:30])
    return int(info.header_offset + 30 + name_length + extra_length)
