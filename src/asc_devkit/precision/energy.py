"""Where in a tensor the squared error sits: its share by row and column of the tensor folded to two axes.

The tensor is seen as rows of its innermost axes (folded until a row has at least ``MIN_ROW`` elements). Row sums fold back
to any outer axis at the end, column sums to the inner ones, so one pass tells channels, blocks and positions
apart. Used by the accumulator and by the cause classes.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
MIN_ROW: Final = 32
MAX_ROWS: Final = 1 << 21
MAX_COLUMNS: Final = 1 << 20


def fold(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many leading axes make the rows, and how many elements a row has."""
    inner, axis = 1, len(shape)
    while axis > 0 and inner < MIN_ROW:
        axis -= 1
        inner *= shape[axis]
    return axis, inner


class Energy:
    """Sums of squared errors by row and by column; ``active`` is False where they would take too much memory."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.outer, self.inner = fold(shape)
        self.row_count = math.prod(shape[: self.outer])
        self.active = 0 < self.inner <= MAX_COLUMNS and 0 < self.row_count <= MAX_ROWS
        if self.active:
            self.rows = np.zeros(self.row_count)
            self.columns = np.zeros(self.inner)
            self._ones = np.ones(1, np.float32)

    def add(self, squares: Array, start: int) -> None:
        """Take the squared errors of the flat elements from ``start`` in."""
        first, offset = divmod(start, self.inner)
        position = 0
        if offset or squares.size < self.inner:
            position = min(self.inner - offset, squares.size)
            self._part(squares[:position], first, offset)
            first += 1
        whole = (squares.size - position) // self.inner
        if whole:
            block = squares[position : position + whole * self.inner].reshape(whole, self.inner)
            self.rows[first : first + whole] += block.sum(axis=1)
            self.columns += self._weights(whole, block.dtype) @ block
            position += whole * self.inner
        if position < squares.size:
            self._part(squares[position:], first + whole, 0)

    def _weights(self, count: int, dtype: np.dtype[Any]) -> Array:
        if self._ones.size < count or self._ones.dtype != dtype:
            self._ones = np.ones(count, dtype)
        return self._ones[:count]

    def _part(self, squares: Array, row: int, offset: int) -> None:
        self.rows[row] += float(squares.sum())
        self.columns[offset : offset + squares.size] += squares

    def by_axis(self) -> list[Array]:
        """Sums of squared errors along each axis of the shape."""
        found: list[Array] = []
        if not self.active:
            return found
        outer, inner = self.shape[: self.outer], self.shape[self.outer :]
        rows, columns = self.rows.reshape(outer), self.columns.reshape(inner)
        for axis in range(len(outer)):
            found.append(rows.sum(axis=tuple(i for i in range(len(outer)) if i != axis)))
        for axis in range(len(inner)):
            found.append(columns.sum(axis=tuple(i for i in range(len(inner)) if i != axis)))
        return found

    def concentration(self) -> dict[str, float]:
        """For each axis longer than 1: the share of the squared error in its worst index, ``axis<i>`` and the index
        itself, ``axis<i>_index``."""
        found: dict[str, float] = {}
        for axis, sums in enumerate(self.by_axis()):
            total = float(sums.sum())
            if sums.size > 1 and total > 0:
                worst = int(np.argmax(sums))
                found[f"axis{axis}"] = float(sums[worst]) / total
                found[f"axis{axis}_index"] = worst
        return found
