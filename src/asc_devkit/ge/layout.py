"""Moving data into a device format and back, exactly (numpy). Padding is zero on the way in and dropped on the way out.

Element positions are those of ``formats.storage_shape``; the two functions are inverses for every shape and type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.formats import BLOCK, PLAIN, c0, grouping, storage_shape

Array = np.ndarray[Any, Any]


def to_storage(array: Array, fmt: str, origin_format: str = "NCHW", groups: int = 1) -> Array:
    """``array`` (origin layout) as it lies in device memory in ``fmt``; the result is contiguous."""
    if fmt in PLAIN:
        return np.ascontiguousarray(array)
    if fmt == "NC1HWC0" and array.ndim == 1:  # a bias: its elements are channels
        array, origin_format = array.reshape(1, -1, 1, 1), "NCHW"
    kind = dtypes.of_numpy(array.dtype).ir
    assert kind is not None
    stored = storage_shape(array.shape, origin_format, fmt, kind, groups)
    view = _View(fmt, origin_format, array.shape, stored, groups, c0(kind))
    if view.is_grouped:
        return np.ascontiguousarray(view.order(_spread(array, view)).reshape(stored))
    moved = view.plain(array)
    padded = _pad(moved, view.padded)
    return np.ascontiguousarray(view.order(padded.reshape(view.split))).reshape(stored)


def from_storage(
    stored: Array, fmt: str, origin_shape: Sequence[int], origin_format: str = "NCHW", groups: int = 1
) -> Array:
    """The inverse of ``to_storage``. Raises ``AscError`` (E10001) when ``stored`` has not the size ``fmt`` asks for."""
    shape = tuple(int(d) for d in origin_shape)
    if fmt in PLAIN:
        return stored.reshape(shape)
    if fmt == "NC1HWC0" and len(shape) == 1:
        return from_storage(stored, fmt, (1, *shape, 1, 1)).reshape(shape)
    kind = dtypes.of_numpy(stored.dtype).ir
    assert kind is not None
    expected = storage_shape(shape, origin_format, fmt, kind, groups)
    if stored.size != int(np.prod(expected, dtype=np.int64)):
        raise AscError(
            Problem("E10001", f"{stored.size} elements are stored, {fmt} of shape {list(shape)} has {list(expected)}.")
        )
    view = _View(fmt, origin_format, shape, expected, groups, c0(kind))
    blocks = view.unorder(stored)
    if view.is_grouped:
        return _gather(np.ascontiguousarray(blocks), view, stored.dtype)
    plain = blocks.reshape(view.padded)[tuple(slice(0, d) for d in view.moved_shape)]
    return np.ascontiguousarray(view.unplain(plain)).reshape(shape)


class _View:
    """The steps of one format as shapes and axis orders: origin -> plain letters -> padded -> split -> ordered."""

    def __init__(
        self, fmt: str, origin: str, shape: Sequence[int], stored: Sequence[int], groups: int, block: int
    ) -> None:
        self.groups = groups
        self.diagonal = False
        self.c04: tuple[int, int, int] | None = None
        self.is_grouped = groups > 1 and fmt in ("FRACTAL_Z", "FRACTAL_Z_3D") and len(shape) > 2
        self.permutation: tuple[int, ...] | None = None
        self.moved_shape = tuple(shape)
        self.block = block
        if fmt in ("FRACTAL_NZ", "FRACTAL_ZZ"):
            self._matrix(fmt, shape, stored, block)
        elif fmt == "FRACTAL_Z" and len(shape) == 2:
            rows, columns = stored[0] * block, stored[1] * BLOCK
            self._steps((rows, columns), (stored[0], block, stored[1], BLOCK), (0, 2, 3, 1))
        else:
            letters = "NCDHW" if len(shape) == 5 else "NCHW"
            if origin not in ("ND", letters):
                self.permutation = tuple(origin.index(letter) for letter in letters)
                self.moved_shape = tuple(shape[axis] for axis in self.permutation)
            self._image(fmt, stored, block)

    def _steps(self, padded: Sequence[int], split: Sequence[int], axes: Sequence[int]) -> None:
        self.padded, self.split, self.axes = tuple(padded), tuple(split), tuple(axes)
        self.ordered = tuple(split[a] for a in axes)

    def _matrix(self, fmt: str, shape: Sequence[int], stored: Sequence[int], block: int) -> None:
        head = tuple(shape[:-2])
        if len(shape) < 2:
            self.moved_shape = (1, *shape) if shape else (1, 1)
        a, b = stored[-4], stored[-3]
        rows, columns = (b, a) if fmt == "FRACTAL_NZ" else (a, b)
        lead = tuple(range(len(head)))
        k = len(head)  # split axes: head, rows1, 16, columns1, C0
        axes = (*lead, k + 2, k, k + 1, k + 3) if fmt == "FRACTAL_NZ" else (*lead, k, k + 2, k + 1, k + 3)
        self._steps((*head, rows * BLOCK, columns * block), (*head, rows, BLOCK, columns, block), axes)

    def _image(self, fmt: str, stored: Sequence[int], block: int) -> None:
        n, c, *spatial = self.moved_shape
        if fmt in ("NC1HWC0", "NC1HWC0_C04"):
            block = 4 if fmt.endswith("C04") else block
            self._steps((n, stored[1] * block, *spatial), (n, stored[1], block, *spatial), (0, 1, 3, 4, 2))
        elif fmt == "NDC1HWC0":
            self._steps((n, stored[2] * block, *spatial), (n, stored[2], block, *spatial), (0, 3, 1, 4, 5, 2))
        elif fmt == "FRACTAL_Z_C04":
            self._c04(n, spatial, stored)
        elif fmt == "C1HWNCoC0":
            self._depthwise(n, spatial, stored, block)
        elif self.is_grouped:
            each = n // self.groups
            merged = grouping(self.groups, c, each, block)
            blocks = -(-self.groups // merged)
            c1 = -(-merged * c // block)
            self.merged, self.each, self.cin = merged, each, c
            split = (blocks, stored[1], BLOCK, c1, block, *spatial)
            self._steps((blocks, stored[1] * BLOCK, c1 * block, *spatial), split, self._weight_axes(len(spatial), 1))
        else:
            c1 = -(-c // block)
            split = (stored[1], BLOCK, c1, block, *spatial)
            self._steps((stored[1] * BLOCK, c1 * block, *spatial), split, self._weight_axes(len(spatial), 0))

    @staticmethod
    def _weight_axes(spatial: int, lead: int) -> tuple[int, ...]:
        """(blocks) (D) C1 H W N1 N0 C0 from split axes (blocks) N1 N0 C1 C0 (D) H W."""
        n1, n0, c1, block = lead, lead + 1, lead + 2, lead + 3
        rest = list(range(lead + 4, lead + 4 + spatial))
        depth = rest[:-2]
        return (*range(lead), *depth, c1, *rest[-2:], n1, n0, block)

    def _c04(self, n: int, spatial: Sequence[int], stored: Sequence[int]) -> None:
        """[N, C<=4, H, W] -> rows of H*W*4 elements per output channel, cut into 16 x 16 blocks."""
        self._steps((stored[1] * BLOCK, 4, *spatial), (stored[1], BLOCK, 4, *spatial), (3, 4, 2, 0, 1))
        self.c04 = (stored[0], 4 * spatial[0] * spatial[1], stored[1])

    def _depthwise(self, n: int, spatial: Sequence[int], stored: Sequence[int], block: int) -> None:
        self._steps((n, stored[0] * block, *spatial), (n, stored[0], block, *spatial), (1, 3, 4, 0, 2))
        self.diagonal = True

    def plain(self, array: Array) -> Array:
        moved: Array = array if self.permutation is None else array.transpose(self.permutation)
        return moved.reshape(self.moved_shape)

    def unplain(self, array: Array) -> Array:
        if self.permutation is None:
            return array
        back: Array = array.transpose(np.argsort(self.permutation))
        return back

    def order(self, split: Array) -> Array:
        moved: Array = split.transpose(self.axes)
        if self.diagonal:
            spread = np.zeros((*moved.shape, moved.shape[-1]), moved.dtype)
            index = np.arange(moved.shape[-1])
            spread[..., index, index] = moved
            return spread
        if self.c04 is not None:
            first, used, n1 = self.c04
            rows = np.zeros((first * BLOCK, n1, BLOCK), moved.dtype)
            rows[:used] = moved.reshape(used, n1, BLOCK)
            moved = rows.reshape(first, BLOCK, n1, BLOCK).transpose(0, 2, 3, 1)
        return moved

    def unorder(self, ordered: Array) -> Array:
        if self.c04 is not None:
            first, used, n1 = self.c04
            rows = ordered.reshape(first, n1, BLOCK, BLOCK).transpose(0, 3, 1, 2).reshape(first * BLOCK, n1, BLOCK)
            ordered = rows[:used]
        elif self.diagonal:
            square = ordered.reshape(*self.ordered, self.ordered[-1])
            ordered = np.diagonal(square, axis1=-2, axis2=-1)
        blocks: Array = ordered.reshape(self.ordered).transpose(np.argsort(self.axes))
        return blocks


def _pad(array: Array, shape: Sequence[int]) -> Array:
    if tuple(array.shape) == tuple(shape):
        return array
    padded = np.zeros(shape, array.dtype)
    padded[tuple(slice(0, d) for d in array.shape)] = array
    return padded


def _spread(array: Array, view: _View) -> Array:
    """Grouped weight -> (blocks, N1, N0, C1, C0, ...) with the groups on the block diagonal."""
    plain = view.plain(array)
    padded = np.zeros(view.padded, array.dtype)
    for group in range(view.groups):
        block, slot = divmod(group, view.merged)
        rows = slice(slot * view.each, (slot + 1) * view.each)
        columns = slice(slot * view.cin, (slot + 1) * view.cin)
        padded[block, rows, columns] = plain[group * view.each : (group + 1) * view.each]
    return padded.reshape(view.split)


def _gather(blocks: Array, view: _View, dtype: np.dtype[Any]) -> Array:
    padded = blocks.reshape(view.padded)
    plain = np.empty(view.moved_shape, dtype)
    for group in range(view.groups):
        block, slot = divmod(group, view.merged)
        rows = slice(slot * view.each, (slot + 1) * view.each)
        columns = slice(slot * view.cin, (slot + 1) * view.cin)
        plain[group * view.each : (group + 1) * view.each] = padded[block, rows, columns]
    return np.ascontiguousarray(view.unplain(plain))
