"""Device float types in numpy: limits, rounding, conversion. What the rewritten graphs do is proved against this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]

#: Largest finite value of the 16-bit float types (IEEE binary16; bfloat16 = upper half of binary32).
LIMITS: Final[dict[ir.DataType, float]] = {
    ir.DataType.FLOAT16: 65504.0,
    ir.DataType.BFLOAT16: 3.3895313892515355e38,
}
#: Integer types all of whose values a 16-bit float holds exactly (11 and 8 significant bits).
EXACT_INTEGERS: Final[dict[ir.DataType, frozenset[ir.DataType]]] = {
    kind: frozenset({ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4})
    for kind in LIMITS
}
HALVES: Final = frozenset(LIMITS)
#: Types that ONNX Runtime neither takes from nor gives to numpy.
UNFEEDABLE: Final = frozenset(
    kind for kind in ir.DataType if kind.name.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
)


@dataclass(frozen=True, slots=True)
class Rounding:
    """A value of the fp32 graph that the device stores in 16 bits.

    ``value`` is its ONNX name; ``saturate`` clamps to the largest finite number before rounding (otherwise IEEE inf).
    """

    value: str
    dtype: ir.DataType
    saturate: bool


def numpy_dtype(dtype: ir.DataType) -> np.dtype[Any]:
    """The numpy element type that holds ``dtype`` (``ml_dtypes`` for bfloat16)."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == ir.DataType.BFLOAT16 else np.dtype(dtype.numpy())


def to_device(array: Array, dtype: ir.DataType, saturate: bool) -> Array:
    """``array`` (any real type) rounded to the nearest even number of ``dtype``, NaN kept."""
    with np.errstate(over="ignore", invalid="ignore"):
        if saturate:
            array = np.clip(array, -LIMITS[dtype], LIMITS[dtype])
        return array.astype(numpy_dtype(dtype))


def rounded(array: Array, dtype: ir.DataType, saturate: bool) -> Array:
    """fp32 ``array`` with its values rounded to ``dtype``, kept in fp32."""
    result: Array = to_device(array, dtype, saturate).astype(np.float32)
    return result


def hf32(array: Array) -> Array:
    """fp32 ``array`` rounded to HF32 (8 exponent and 11 mantissa bits), to nearest, ties to even; inf and NaN kept."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    up = bits + np.uint32(0x7FF) + ((bits >> np.uint32(12)) & np.uint32(1))
    result: Array = np.where(np.isfinite(array), up & np.uint32(0xFFFFF000), bits).astype(np.uint32).view(np.float32)
    return result
