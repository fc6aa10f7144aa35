"""Where in the user's program a call came from: what leak and misuse reports name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_OWN: Final = str(Path(__file__).resolve().parents[2]) + "/"


def call_site() -> str:
    """``file:line in function`` of the innermost frame outside the toolkit."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "asc_devkit"
