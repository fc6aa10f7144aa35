"""The main job: convert a model, compare it with the original, predict time and memory, say what to do next.

``run`` is the API behind `asc check`; the report it returns is the JSON described in docs/report_schema.md. Names are
imported when they are used, so that reading the options costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asc_devkit.check.options import CheckOptions
    from asc_devkit.check.pipeline import run
    from asc_devkit.check.result import CheckResult

__all__ = ["CheckOptions", "CheckResult", "run"]
_HOMES = {"CheckOptions": "options", "CheckResult": "result", "run": "pipeline"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
