"""Memory formats: numbers, how ``format_for_int`` packs them, the storage shape of each. Transforms: ``layout.py``.

Source: facts on GE formats (C0 from the platform table: 32 bytes per block with a floor of 16 elements for floats).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import lcm
from typing import Final

import onnx_ir as ir

from asc_devkit.errors import AscError, Problem


class Format(IntEnum):
    """Numbers of the formats in files and calls."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    FRACTAL_Z_C04 = 13
    HWCN = 16
    C1HWNCoC0 = 25
    NDHWC = 27
    FRACTAL_ZZ = 28
    FRACTAL_NZ = 29
    NCDHW = 30
    DHWCN = 31
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    RESERVED = 40
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51


PLAIN: Final = frozenset({"NCHW", "NHWC", "ND", "HWCN", "NDHWC", "NCDHW", "DHWCN"})
BLOCK: Final = 16  # M0 and N0 of the cube
_C0_BY_BITS: Final = {8: 32, 4: 64, 2: 128, 1: 256}


def c0(dtype: ir.DataType) -> int:
    """Elements of the innermost block: 32 for 8-bit types, 64 for 4-bit, else 16."""
    return BLOCK if dtype == ir.DataType.STRING else _C0_BY_BITS.get(dtype.bitwidth, BLOCK)


def pack(fmt: Format, groups: int = 0, c0_size: int = 0) -> int:
    """``format_for_int``: bits 0-7 format, 8-23 groups, 24-27 log2(C0) + 1."""
    code = int(fmt) | (groups & 0xFFFF) << 8
    return code | (c0_size.bit_length() << 24 if c0_size else 0)


def unpack(code: int) -> tuple[Format, int, int]:
    """(format, groups, C0) of a packed number; C0 is 0 when not given. Raises ``ValueError`` for unknown formats."""
    exponent = code >> 24 & 0xF
    return Format(code & 0xFF), code >> 8 & 0xFFFF, 1 << exponent - 1 if exponent else 0


def grouping(groups: int, cin: int, cout: int, c0_size: int) -> int:
    """E: how many convolution groups share one block diagonal (``cin``, ``cout`` per group)."""
    by_input = lcm(cin, c0_size) // cin
    by_output = lcm(cout, BLOCK) // cout
    return min(lcm(by_input, by_output), groups)


def to_axes(shape: Sequence[int], origin: str, order: str) -> tuple[int, ...]:
    """Dimensions of ``shape`` (laid out as ``origin``) in the order of the letters ``order``."""
    if origin == "ND":
        origin = order
    if len(shape) != len(origin) or sorted(origin) != sorted(order):
        raise AscError(
            Problem("E10001", f"A tensor of shape {list(shape)} in format {origin} cannot be laid out as {order}.")
        )
    return tuple(shape[origin.index(letter)] for letter in order)


def storage_shape(
    shape: Sequence[int], origin_format: str, fmt: str, dtype: ir.DataType, groups: int = 1
) -> tuple[int, ...]:
    """Padded shape of a tensor of origin ``shape`` when stored in ``fmt``.

    ``groups`` matters for convolution weights only (shape = [Cout, Cin/groups, ...]). Raises ``AscError`` (E10001)
    when rank and format do not fit.
    """
    dims = tuple(int(d) for d in shape)
    block = c0(dtype)
    up = _ceil
    if fmt in PLAIN:
        return dims
    if fmt == "NC1HWC0" and len(dims) == 1:  # a bias: its elements are channels
        dims, origin_format = (1, *dims, 1, 1), "NCHW"
    if fmt in ("NC1HWC0", "NC1HWC0_C04"):
        block = 4 if fmt.endswith("C04") else block
        n, c, h, w = to_axes(dims, origin_format, "NCHW")
        return (n, up(c, block), h, w, block)
    if fmt == "NDC1HWC0":
        n, c, d, h, w = to_axes(dims, origin_format, "NCDHW")
        return (n, d, up(c, block), h, w, block)
    if fmt in ("FRACTAL_NZ", "FRACTAL_ZZ"):
        rows, columns = ((1, *dims) if len(dims) == 1 else dims or (1, 1))[-2:]
        head = dims[:-2]
        inner = (up(columns, block), up(rows, BLOCK)) if fmt == "FRACTAL_NZ" else (up(rows, BLOCK), up(columns, block))
        return (*head, *inner, BLOCK, block)
    if fmt == "FRACTAL_Z" and len(dims) == 2:
        return (up(dims[0], block), up(dims[1], BLOCK), BLOCK, block)
    if fmt in ("FRACTAL_Z", "FRACTAL_Z_3D"):
        letters = "NCHW" if fmt == "FRACTAL_Z" else "NCDHW"
        n, c, *spatial = to_axes(dims, origin_format, letters)
        blocks, c1, n1 = _weight_blocks(n, c, groups, block)
        first = blocks * c1
        for extent in spatial:
            first *= extent
        return (first, n1, BLOCK, block)
    if fmt == "FRACTAL_Z_C04":
        n, c, h, w = to_axes(dims, origin_format, "NCHW")
        if c > 4:
            raise AscError(Problem("E10001", f"FRACTAL_Z_C04 holds up to 4 input channels, the tensor has {c}."))
        return (up(4 * h * w, BLOCK), up(n, BLOCK), BLOCK, BLOCK)
    if fmt == "C1HWNCoC0":
        n, c, h, w = to_axes(dims, origin_format, "NCHW")
        return (up(c, block), h, w, n, block, block)
    raise AscError(
        Problem("E10001", f"The memory format {fmt} is not known.", fix="Formats: " + ", ".join(Format.__members__))
    )


def _weight_blocks(n: int, c: int, groups: int, block: int) -> tuple[int, int, int]:
    """(diagonal blocks, C1, N1) of a convolution weight with ``n`` outputs in all and ``c`` inputs per group."""
    if groups <= 1:
        return 1, _ceil(c, block), _ceil(n, BLOCK)
    each = n // groups
    if not each or n % groups or not c:
        raise AscError(Problem("E10001", f"A weight with {n} outputs and {c} inputs cannot have {groups} groups."))
    merged = grouping(groups, c, each, block)
    return _ceil(groups, merged), _ceil(merged * c, block), _ceil(merged * each, BLOCK)


def _ceil(value: int, block: int) -> int:
    return -(-value // block)
