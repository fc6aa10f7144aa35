"""Conversion: options, the five stages parse -> optimise -> select -> allocate -> emit, the log and side outputs.

``compile`` is the API; ``command_line.parse`` + ``options.from_flags`` turn an ATC command line into its argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asc_devkit.atc.options import Options as Options
    from asc_devkit.atc.pipeline import Result as Result
    from asc_devkit.atc.pipeline import compile as compile

_HOMES = {"Options": "options", "Result": "pipeline", "compile": "pipeline"}


def __getattr__(name: str) -> Any:
    """Import on first use: the option table alone must not load the compiler."""
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"asc_devkit.atc.{_HOMES[name]}"), name)
    raise AttributeError(name)
