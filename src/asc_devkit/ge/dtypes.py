"""Element types: one table with the two enumerations Ascend files use, numpy's and the IR's names.

``proto`` numbers stand in tensor descriptions of the graph, ``acl`` numbers in the in/out description and in runtime
calls (facts: the two DataType enums of GE and of the runtime).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem


@dataclass(frozen=True, slots=True)
class DType:
    """One element type. ``bits`` per element; ``numpy`` is None where no array type exists (strings)."""

    name: str
    proto: int
    acl: int
    bits: int
    numpy: Any
    ir: ir.DataType | None


_D: Final = ir.DataType
TABLE: Final[tuple[DType, ...]] = (
    DType("DT_FLOAT", 1, 0, 32, np.float32, _D.FLOAT),
    DType("DT_FLOAT16", 2, 1, 16, np.float16, _D.FLOAT16),
    DType("DT_INT8", 3, 2, 8, np.int8, _D.INT8),
    DType("DT_UINT8", 4, 4, 8, np.uint8, _D.UINT8),
    DType("DT_INT16", 5, 6, 16, np.int16, _D.INT16),
    DType("DT_UINT16", 6, 7, 16, np.uint16, _D.UINT16),
    DType("DT_INT32", 7, 3, 32, np.int32, _D.INT32),
    DType("DT_INT64", 8, 9, 64, np.int64, _D.INT64),
    DType("DT_UINT32", 9, 8, 32, np.uint32, _D.UINT32),
    DType("DT_UINT64", 10, 10, 64, np.uint64, _D.UINT64),
    DType("DT_BOOL", 11, 12, 8, np.bool_, _D.BOOL),
    DType("DT_DOUBLE", 12, 11, 64, np.float64, _D.DOUBLE),
    DType("DT_STRING", 13, 13, 0, None, _D.STRING),
    DType("DT_COMPLEX64", 16, 16, 64, np.complex64, _D.COMPLEX64),
    DType("DT_COMPLEX128", 17, 17, 128, np.complex128, _D.COMPLEX128),
    DType("DT_BF16", 27, 27, 16, ml_dtypes.bfloat16, _D.BFLOAT16),
    DType("DT_INT4", 28, 29, 4, ml_dtypes.int4, _D.INT4),
    DType("DT_HIFLOAT8", 33, 34, 8, None, None),
    DType("DT_FLOAT8_E5M2", 34, 35, 8, ml_dtypes.float8_e5m2, _D.FLOAT8E5M2),
    DType("DT_FLOAT8_E4M3FN", 35, 36, 8, ml_dtypes.float8_e4m3fn, _D.FLOAT8E4M3FN),
)
UNDEFINED_PROTO: Final = 0
UNDEFINED_ACL: Final = 28

_BY_IR: Final = {d.ir: d for d in TABLE if d.ir is not None}
_BY_PROTO: Final = {d.proto: d for d in TABLE}
_BY_ACL: Final = {d.acl: d for d in TABLE}


def find(dtype: ir.DataType) -> DType | None:
    """The row of an IR type, None for types that only ONNX knows."""
    return _BY_IR.get(dtype)


def of_ir(dtype: ir.DataType) -> DType:
    """The row of an IR type. Raises ``AscError`` (E10055) for types Ascend files cannot hold."""
    if dtype not in _BY_IR:
        raise AscError(
            Problem("E10055", f"Ascend has no element type for {dtype.name}.", fix="Cast the tensor to another type.")
        )
    return _BY_IR[dtype]


def of_proto(number: int) -> DType | None:
    """The row of a graph enumeration number, None when undefined or unknown."""
    return _BY_PROTO.get(number)


def of_acl(number: int) -> DType | None:
    """The row of a runtime enumeration number, None when undefined or unknown."""
    return _BY_ACL.get(number)


@lru_cache(maxsize=64)
def of_numpy(dtype: np.dtype[Any]) -> DType:
    """The row of a numpy type. Raises ``AscError`` (E10055) when there is none."""
    for row in TABLE:
        if row.numpy is not None and np.dtype(row.numpy) == dtype:
            return row
    raise AscError(Problem("E10055", f"Ascend has no element type for {dtype}.", fix="Cast the tensor."))


def nbytes(elements: int, dtype: ir.DataType) -> int:
    """Bytes of ``elements`` values, half bytes rounded up."""
    row = _BY_IR.get(dtype)
    return -(-elements * (dtype.bitwidth if row is None else row.bits) // 8)
