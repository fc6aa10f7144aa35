"""Element types and layouts of NPU dump files as arrays: packed and small types are widened, device layouts undone.

Numbers of both enumerations: public facts about the dump format (DumpData). HiFloat8 is decoded as published (sign, prefix
code that says how long the exponent is, sign-magnitude exponent with a hidden leading one, mantissa).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DumpType:
    """``bits`` in the file; ``numpy`` the type of the array that is made; ``table`` (small types) the value of each code."""

    name: str
    bits: int
    numpy: np.dtype[Any]
    table: str = ""


def _t(name: str, numpy: Any, bits: int = 0, table: str = "") -> DumpType:
    dtype = np.dtype(numpy)
    return DumpType(name, bits or dtype.itemsize * 8, dtype, table)


TYPES: Final[dict[int, DumpType]] = {
    1: _t("FLOAT", np.float32),
    2: _t("FLOAT16", np.float16),
    3: _t("INT8", np.int8),
    4: _t("UINT8", np.uint8),
    5: _t("INT16", np.int16),
    6: _t("UINT16", np.uint16),
    7: _t("INT32", np.int32),
    8: _t("INT64", np.int64),
    9: _t("UINT32", np.uint32),
    10: _t("UINT64", np.uint64),
    11: _t("BOOL", np.bool_),
    12: _t("DOUBLE", np.float64),
    16: _t("COMPLEX64", np.complex64),
    17: _t("COMPLEX128", np.complex128),
    27: _t("BF16", ml_dtypes.bfloat16),
    28: _t("INT4", np.int8, 4, "int4"),
    29: _t("UINT1", np.uint8, 1, "uint1"),
    32: _t("COMPLEX32", np.complex64, 32, "complex32"),
    33: _t("HIFLOAT8", np.float32, 8, "hifloat8"),
    34: _t("FLOAT8_E5M2", ml_dtypes.float8_e5m2),
    35: _t("FLOAT8_E4M3FN", ml_dtypes.float8_e4m3fn),
    36: _t("FLOAT8_E8M0", np.float32, 8, "float8_e8m0fnu"),
    37: _t("FLOAT6_E3M2", np.float32, 6, "float6_e3m2fn"),
    38: _t("FLOAT6_E2M3", np.float32, 6, "float6_e2m3fn"),
    39: _t("FLOAT4_E2M1", np.float32, 4, "float4_e2m1fn"),
    40: _t("FLOAT4_E1M2", np.float32, 4, "float4_e1m2"),
}
FORMATS: Final[dict[int, str]] = {
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    16: "HWCN",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
}
DEVICE: Final = frozenset({"NC1HWC0", "NDC1HWC0", "FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_NZ"})


@functools.lru_cache(maxsize=16)
def table(name: str) -> Array:
    """Value of each code of a small type, float32."""
    if name == "int4":
        return np.array([c if c < 8 else c - 16 for c in range(16)], np.float32)
    if name == "uint1":
        return np.arange(2, dtype=np.float32)
    if name == "hifloat8":
        return np.array([_hifloat8(code) for code in range(256)], np.float32)
    if name == "float4_e1m2":
        positive = [m / 4 for m in range(4)] + [1 + m / 4 for m in range(4)]
        return np.array(positive + [-v for v in positive], np.float32)
    kind = np.dtype(getattr(ml_dtypes, name))
    bits = {"float8_e8m0fnu": 8, "float6_e3m2fn": 6, "float6_e2m3fn": 6, "float4_e2m1fn": 4}[name]
    values: Array = np.arange(1 << bits, dtype=np.uint8).view(kind).astype(np.float32)
    return values


def _hifloat8(code: int) -> float:
    """Value of one HiFloat8 code: 0x80 is NaN, 0x6F and 0xEF are the infinities, prefix 0000 the subnormals."""
    if code in (0x00, 0x80):
        return 0.0 if code == 0 else math.nan
    sign, rest = -1.0 if code & 0x80 else 1.0, code & 0x7F
    if rest == 0x6F:
        return sign * math.inf
    if rest >> 5:  # prefix of two bits: exponent of 4, 3 or 2 bits
        length = {3: 4, 2: 3, 1: 2}[rest >> 5]
        used = 2
    elif rest >> 4:
        length, used = 1, 3
    elif rest >> 3:
        length, used = 0, 4
    else:
        return sign * 2.0 ** ((rest & 7) - 23)
    width = 7 - used - length
    mantissa = rest & ((1 << width) - 1)
    exponent = (rest >> width) & ((1 << length) - 1)
    power = 0
    if length:
        size = (1 << (length - 1)) | (exponent & ((1 << (length - 1)) - 1))
        power = -size if exponent >> (length - 1) else size
    return float(sign * 2.0**power * (1 + mantissa / (1 << width)))


def unpack(raw: Array, kind: DumpType, count: int) -> Array:
    """``count`` elements from the bytes of a dump; small types may be packed or one to a byte, as their size tells."""
    if not kind.table:
        whole: Array = raw[: count * kind.numpy.itemsize].view(kind.numpy)
        return whole
    if kind.table == "complex32":
        parts = raw[: count * 4].view(np.float16).astype(np.float32)
        return parts.view(np.complex64)
    codes = (
        raw if raw.size >= count and kind.bits < 8 and raw.size * 8 // max(count, 1) >= 8 else _codes(raw, kind.bits)
    )
    values = table(kind.table)[codes[:count] & ((1 << kind.bits) - 1)]
    widened: Array = values.astype(kind.numpy)
    return widened


def _codes(raw: Array, bits: int) -> Array:
    """Codes of ``bits`` bits each, the lowest bits of a byte first."""
    if bits == 8:
        return raw
    stream = np.unpackbits(raw, bitorder="little")
    usable = stream.size // bits * bits
    weights = (1 << np.arange(bits)).astype(np.uint8)
    codes: Array = stream[:usable].reshape(-1, bits) @ weights
    return codes


def pack(array: Array, kind: DumpType) -> bytes:
    """The bytes of ``array`` in a dump: the inverse of ``unpack`` (nearest code for small floats)."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not kind.table:
        return flat.astype(kind.numpy).tobytes()
    if kind.table == "complex32":
        return flat.astype(np.complex64).view(np.float32).astype(np.float16).tobytes()
    values = table(kind.table)
    codes = np.array([_nearest(values, float(v)) for v in flat], np.uint8)
    if kind.bits == 8:
        return codes.tobytes()
    spread = (codes[:, None] >> np.arange(kind.bits)) & 1
    return np.packbits(spread.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def _nearest(values: Array, wanted: float) -> int:
    if math.isnan(wanted):
        return int(np.flatnonzero(np.isnan(values))[0])
    same = np.flatnonzero(values == wanted)
    if same.size:
        return int(same[0])
    distance = np.abs(np.where(np.isfinite(values), values, np.inf) - wanted)
    return int(np.argmin(distance))


def stored_bytes(kind: DumpType, count: int) -> int:
    """Bytes ``count`` elements take, packed."""
    return -(-count * kind.bits // 8)


def to_origin(stored: Array, fmt: str, shape: Sequence[int]) -> Array:
    """A device layout back in NCHW (NCDHW, rows and columns), its padding cut off to the origin ``shape``.

    ``stored`` has the device shape; its last axis is C0, whatever the chip's. Without ``shape`` the padding stays.
    """
    if fmt in ("NC1HWC0", "NDC1HWC0"):
        if fmt == "NC1HWC0":
            n, c1, h, w, c0 = stored.shape
            plain = stored.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)
        else:
            n, d, c1, h, w, c0 = stored.shape
            plain = stored.transpose(0, 2, 5, 1, 3, 4).reshape(n, c1 * c0, d, h, w)
        return _crop(plain, shape)
    if fmt == "FRACTAL_NZ":
        *head, columns, rows, n0, c0 = stored.shape
        lead = range(len(head))
        k = len(head)
        plain = stored.transpose(*lead, k + 1, k + 2, k, k + 3).reshape(*head, rows * n0, columns * c0)
        return _crop(plain, shape)
    blocks, no, ni, c0 = stored.shape[-4:]
    if len(shape) not in (4, 5):
        plain = stored.transpose(1, 2, 0, 3).reshape(no * ni, blocks * c0)
        return _crop(plain, shape)
    spatial = shape[2:]
    depth = spatial[0] if len(shape) == 5 else 1
    h, w = spatial[-2:]
    c1 = blocks // max(depth * h * w, 1)
    split = stored.reshape(depth, c1, h, w, no, ni, c0)
    plain = split.transpose(4, 5, 1, 6, 0, 2, 3).reshape(no * ni, c1 * c0, depth, h, w)
    return _crop(plain if len(shape) == 5 else plain[:, :, 0], shape)


def _crop(plain: Array, shape: Sequence[int]) -> Array:
    if not shape:
        return np.ascontiguousarray(plain)
    if len(shape) < plain.ndim:
        shape = (*(1,) * (plain.ndim - len(shape)), *shape)
    cut = plain[tuple(slice(0, d) for d in shape)]
    return np.ascontiguousarray(cut).reshape(tuple(shape))
