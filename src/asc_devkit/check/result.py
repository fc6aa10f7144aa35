"""The outcome of a check: the report as plain JSON data, where the files are, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = "asc-devkit/check/1"


@dataclass
class CheckResult:
    """``exit_code``: 0 accepted, 1 the accuracy check failed, 2 the model cannot be converted."""

    report: dict[str, Any]
    exit_code: int
    html: Path | None = None
    json: Path | None = None
    om: Path | None = None
