"""Files given with the precision options: bounded reading, and the problem every one of them reports in the same form."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from asc_devkit.errors import Problem

MAX_BYTES: Final = 1 << 20


def read(path: str, option: str, problems: list[Problem]) -> str | None:
    """Text of the file; what is wrong with it goes to ``problems``, then None."""
    try:
        with Path(path).open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        problems.append(bad(option, path, f"it cannot be read ({error.strerror})"))
    except ValueError as error:
        problems.append(bad(option, path, str(error)))
    return None


def bad(option: str, where: str, reason: str, fix: str = "") -> Problem:
    """E10001 for ``where`` (a file, or a place in one)."""
    return Problem(
        "E10001",
        f"Value [{where}] for parameter [{option}] is invalid. Reason: {reason}.",
        cause=f"The file given with --{option} does not have the documented form.",
        fix=fix or "See docs/precision_control.md for an example.",
        nodes=(where,),
        seed_class="EE1001",
    )
