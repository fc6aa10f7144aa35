"""Attributes of cube operators that fused kernels hide, from the shapes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Shape = tuple[int, ...]
MAX_STRIDE: Final = 16
MAX_KERNEL: Final = 64


@dataclass(frozen=True, slots=True)
class Window:
    """Stride and padding along one axis; ``certain`` when no other pair leads to the same size."""

    stride: int
    before: int
    after: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Product:
    """Which operand is the left one and which are transposed; ``certain`` when no other way gives the shape."""

    swapped: bool
    left: bool
    right: bool
    certain: bool


def window(size: int, kernel: int, made: int) -> Window | None:
    """How a kernel without dilation makes ``made`` of ``size`` elements; None when it cannot.

    Padding smaller than the kernel on each side. Among several ways: "same" padding first, then none, then the smallest.
    """
    if not (1 <= kernel <= MAX_KERNEL and made >= 1):
        return None
    found = []
    for stride in range(1, MAX_STRIDE + 1):
        for total in range(2 * kernel - 1):
            if size + total >= kernel and (size + total - kernel) // stride + 1 == made:
                found.append((total != kernel - 1, total != 0, total, stride))
    if not found:
        return None
    _, _, total, stride = min(found)
    strides = {row[3] for row in found}
    certain = kernel == 1 and len(strides) == 1
    return Window(stride, total // 2, total - total // 2, certain)


def product(a: Shape, b: Shape, made: Shape, *, prefer_right: bool, may_swap: bool) -> Product | None:
    """How ``made`` [..., M, N] comes from the matrices ``a`` and ``b``; None when it cannot.

    ``prefer_right``: with square matrices the second is the transposed one (layers store weights so).
    """
    ways = []
    for swapped in (False, True) if may_swap else (False,):
        first, second = (b, a) if swapped else (a, b)
        for left in (False, True):
            for right in (False, True):
                m, k = first[-2:][::-1] if left else first[-2:]
                k2, n = second[-2:][::-1] if right else second[-2:]
                if k == k2 and (m, n) == made[-2:]:
                    ways.append(Product(swapped, left, right, True))
    if not ways:
        return None
    best = min(ways, key=lambda w: (w.swapped, w.left, w.right != prefer_right))
    return Product(best.swapped, best.left, best.right, len(ways) == 1)
