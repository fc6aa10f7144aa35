"""Placing blocks whose lifetimes are known into one pool of device memory. Used by ``perf.memory``."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Wanted = tuple[int, int, int, str, str]  # first step, last step, aligned size, name, kind
Fit = Callable[[list[Wanted]], "tuple[list[Block], int]"]
# Beyond this many blocks the quadratic second method would cost more time than it saves memory.
MOST_BLOCKS: Final = 3000


@dataclass(frozen=True, slots=True)
class Block:
    """One value in device memory: byte ``offset`` and ``size``, alive from step ``first`` to ``last`` inclusive."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    kind: str = "feature"


def place(wanted: list[Wanted]) -> tuple[list[Block], int]:
    """Blocks and pool size: best fit in order of first use, or by size when that needs less."""
    blocks, top = _best_fit(wanted)
    if len(wanted) <= MOST_BLOCKS and top > _most_alive(wanted):
        others, smaller = _by_size(wanted)
        if smaller < top:
            return others, smaller
    return blocks, top


def side_by_side(wanted: list[Wanted]) -> tuple[list[Block], int]:
    """Every block in memory of its own."""
    blocks, top = [], 0
    for first, last, size, name, kind in wanted:
        blocks.append(Block(name, top, size, first, last, kind))
        top += size
    return blocks, top


def _most_alive(wanted: list[Wanted]) -> int:
    """Bytes alive at the worst step: no placement needs less."""
    events = sorted(
        [(first, 1, size) for first, _, size, _, _ in wanted] + [(last + 1, 0, -size) for _, last, size, _, _ in wanted]
    )
    alive = most = 0
    for _, _, size in events:
        alive += size
        most = max(most, alive)
    return most


def _by_size(wanted: list[Wanted]) -> tuple[list[Block], int]:
    """Largest first, each into the smallest gap among the blocks that live at the same time."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), by offset
    offsets: dict[int, int] = {}
    top = 0
    for index in sorted(range(len(wanted)), key=lambda i: -wanted[i][2]):
        first, last, size, _, _ = wanted[index]
        at, best, cursor = -1, None, 0
        for offset, end, born, dead in placed:
            if dead < first or last < born:
                continue
            gap = offset - cursor
            if gap >= size and (best is None or gap < best):
                at, best = cursor, gap
            cursor = max(cursor, end)
        offsets[index] = at = cursor if best is None else at
        insort(placed, (at, at + size, first, last))
        top = max(top, at + size)
    return [Block(n, offsets[i], s, f, e, k) for i, (f, e, s, n, k) in enumerate(wanted)], top


def _best_fit(wanted: list[Wanted]) -> tuple[list[Block], int]:
    free: list[tuple[int, int]] = []  # (offset, size), sorted by offset, never adjacent
    ending: list[tuple[int, int, int]] = []  # heap of (last step, offset, size)
    top = 0
    blocks: list[Block] = []
    for first, last, size, name, kind in wanted:
        while ending and ending[0][0] < first:
            _, offset, freed = heapq.heappop(ending)
            _release(free, offset, freed)
        fitting = [(gap - size, offset) for offset, gap in free if gap >= size]
        if fitting:
            _, offset = min(fitting)
            _take(free, offset, size)
        elif free and free[-1][0] + free[-1][1] == top:
            offset = free.pop()[0]
            top = offset + size
        else:
            offset, top = top, top + size
        heapq.heappush(ending, (last, offset, size))
        blocks.append(Block(name, offset, size, first, last, kind))
    return blocks, top


def _take(free: list[tuple[int, int]], offset: int, size: int) -> None:
    for index, (start, gap) in enumerate(free):
        if start == offset:
            free[index : index + 1] = [(start + size, gap - size)] if gap > size else []
            return


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    free.append((offset, size))
    free.sort()
    merged: list[tuple[int, int]] = []
    for start, gap in free:
        if merged and merged[-1][0] + merged[-1][1] == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + gap)
        else:
            merged.append((start, gap))
    free[:] = merged
