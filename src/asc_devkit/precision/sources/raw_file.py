"""Raw ``.bin`` files and safetensors: elements without, and with, a description of their own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.sources.tensor import TensorRef, checked_shape, problem_of, torn

MAX_HEADER: Final = 100 << 20
DTYPES: Final[dict[str, Any]] = {
    **{
        n: np.dtype(n)
        for n in [
            "float16",
            "float32",
            "float64",
            "int8",
            "uint8",
            "int16",
            "uint16",
            "int32",
            "uint32",
            "int64",
            "uint64",
            "bool",
        ]
    },
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
ALIASES: Final = {
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}
_SAFE: Final = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
}


def dtype_of(text: str) -> np.dtype[Any]:
    """The element type a user calls ``text`` (``fp16``, ``float32``, ``bf16``...). Raises ``AscError`` (ASC5104)."""
    key = text.strip().lower().removeprefix("torch.").removeprefix("dt_")
    key = ALIASES.get(key, key)
    if key not in DTYPES:
        raise AscError(
            Problem("ASC5104", f"Unknown element type {text!r}.", fix="Use one of " + ", ".join(DTYPES) + ".")
        )
    found: np.dtype[Any] = DTYPES[key]
    return found


def open_bin(path: Path, name: str, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> list[TensorRef]:
    """A raw file: type and shape from a ``.json`` beside it, else as given, else float32 in one axis.

    A size that does not fit is an error, never a shorter tensor.
    """
    size = path.stat().st_size
    sidecar = path.with_name(path.name + ".json")
    if sidecar.is_file():
        dtype, shape = _sidecar(sidecar)
    kind = dtype if dtype is not None else np.dtype(np.float32)
    if shape is None:
        if size % kind.itemsize:
            raise _misfit(path, f"{size} bytes are no whole number of {kind.name} elements")
        shape = (size // kind.itemsize,)
    elif math.prod(shape) * kind.itemsize != size:
        wanted = math.prod(shape) * kind.itemsize
        raise _misfit(path, f"it has {size} bytes; {kind.name} {list(shape)} takes {wanted}")
    return [TensorRef(name, kind, shape, path)]


def _misfit(path: Path, why: str) -> AscError:
    return AscError(
        Problem(
            "ASC5105",
            f"{path}: {why}.",
            cause="The file was written with another type or shape, or it was cut.",
            fix="Give --dtype and --shape (or NAME.bin.json beside it with both).",
            nodes=(str(path),),
        )
    )


def _sidecar(path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        facts = json.loads(path.read_bytes()[:MAX_HEADER])
        return dtype_of(str(facts["dtype"])), checked_shape(path, facts["shape"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise torn(path, f"it should hold dtype and shape ({problem_of(error)})") from error


def open_safetensors(path: Path) -> list[TensorRef]:
    """The tensors of a safetensors file, each where its header says."""
    size = path.stat().st_size
    try:
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if length > min(size, MAX_HEADER):
                raise torn(path, "its header is longer than the file")
            facts = json.loads(handle.read(length))
        found = []
        for name, row in facts.items():
            if name == "__metadata__":
                continue
            begin, end = checked_shape(path, row["data_offsets"])
            ref = TensorRef(
                name, dtype_of(_SAFE[row["dtype"]]), checked_shape(path, row["shape"]), path, 8 + length + begin
            )
            if ref.nbytes != end - begin or 8 + length + end > size:
                raise torn(path, f"the elements of {name!r} do not fit their description")
            found.append(ref)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise torn(path, f"its header is damaged ({problem_of(error)})") from error
    return found
