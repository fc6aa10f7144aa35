"""The conversion log: what each stage did, kept whole for the log file and filtered by level for the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

LEVELS: Final = ("debug", "info", "warning", "error", "null")


@dataclass
class ConversionLog:
    """Lines of (level, stage, text); ``echo`` receives those at or above ``level`` as they come."""

    level: str = "null"
    echo: IO[str] | None = None
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    timings_s: dict[str, float] = field(default_factory=dict)
    stage: str = "start"

    def add(self, level: str, text: str, *, quiet: bool = False) -> None:
        """Keep a line; ``quiet`` keeps it from the terminal, where it is shown in another form."""
        self.lines.append((level, self.stage, text))
        if not quiet and self.echo is not None and LEVELS.index(level) >= LEVELS.index(self.level):
            print(f"[{level.upper()}] {self.stage}: {text}", file=self.echo)

    def debug(self, text: str) -> None:
        self.add("debug", text)

    def info(self, text: str) -> None:
        self.add("info", text)

    def warning(self, text: str) -> None:
        self.add("warning", text)

    @property
    def warnings(self) -> list[str]:
        return [text for level, _, text in self.lines if level == "warning"]

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Name the stage of all lines added inside and record its wall time in seconds."""
        self.stage = stage
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings_s[stage] = time.perf_counter() - start

    def text(self) -> str:
        """The log file's content."""
        return "".join(f"[{level.upper():7}] {stage}: {text}\n" for level, stage, text in self.lines)
