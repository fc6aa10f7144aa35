"""One CSV (or JSON) table: columns by the schema, cells formatted as the vendor does, sliced when it grows too long."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from asc_devkit.profiling.schema import file_spec

Cell = str | int | float
# The vendor begins a new file after this many rows (msprof repository, file_slice_helper: CSV_LIMIT).
MOST_ROWS: Final = 1_000_000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def time_us(ns: int) -> str:
    """A point in time as the vendor prints it: decimal microseconds and a tab, so that spreadsheets keep all digits."""
    return f"{ns // 1000}.{ns % 1000:03d}\t"


def plain_us(ns: int) -> str:
    """Nanoseconds as decimal microseconds with three digits."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def text(value: str) -> str:
    """A name from a model file, made harmless for spreadsheets (no cell starts like a formula)."""
    return f"'{value}" if value.startswith(_FORMULA) else value


def cell(value: Cell) -> Cell:
    """Numbers rounded to three digits after the point, as in the vendor's files."""
    return round(value, 3) if isinstance(value, float) else value


class Table:
    """Rows of one kind of file, written to ``folder`` while they come; ``close`` gives the files their names."""

    def __init__(
        self,
        folder: Path,
        name: str,
        stamp: str,
        *,
        layout: str | None = None,
        extra: Sequence[str] = (),
        as_json: bool = False,
        most_rows: int = MOST_ROWS,
    ) -> None:
        self.header = [*file_spec(name).header(layout), *extra]
        self.rows = 0
        self._folder, self._name, self._stamp = folder, name, stamp
        self._json, self._most = as_json, most_rows
        self._parts: list[Path] = []
        self._handle: io.TextIOWrapper | None = None

    def add(self, row: Sequence[Cell]) -> None:
        """Append one row, in the order of ``header``."""
        if self.rows % self._most == 0:
            self._next()
        handle = self._handle
        assert handle is not None
        cells = [cell(value) for value in row]
        if self._json:
            first = self.rows % self._most == 0
            handle.write(("[" if first else ",\n") + json.dumps(dict(zip(self.header, cells, strict=True))))
        else:
            self._csv.writerow(cells)
        self.rows += 1

    def close(self) -> list[Path]:
        """Finish; the files written (none when no row came)."""
        self._end()
        ending = "json" if self._json else "csv"
        found = []
        for index, part in enumerate(self._parts):
            piece = f"_slice_{index}" if len(self._parts) > 1 else ""
            found.append(part.rename(self._folder / f"{self._name}{piece}_{self._stamp}.{ending}"))
        return found

    def _next(self) -> None:
        self._end()
        part = self._folder / f".{self._name}.{len(self._parts)}.part"
        self._handle = part.open("w", encoding="utf-8", errors="backslashreplace", newline="")
        self._parts.append(part)
        if not self._json:
            self._csv = csv.writer(self._handle, lineterminator="\n")
            self._csv.writerow(self.header)

    def _end(self) -> None:
        if self._handle is not None:
            if self._json:
                self._handle.write("]\n")
            self._handle.close()
            self._handle = None
