"""Beginning a collection from inside a program (Python API and ``acl.prof``): settings checked, one at a time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from asc_devkit.errors import AscError, Problem
from asc_devkit.profiling.collect import options, watch
from asc_devkit.profiling.collect.collector import Plan


def plan(output: Path, settings: Mapping[str, str]) -> Plan:
    """A plan from settings by option name. Raises ``AscError`` for unknown names and values."""
    command = options.parse([f"--{name}={value}" for name, value in settings.items()])
    words = getattr(sys, "orig_argv", sys.argv)
    return Plan(output, command.settings, command=" ".join(words)[:1000])


def refuse_second() -> None:
    """Raise ``AscError`` when this process already collects."""
    if watch.current() is not None:
        raise AscError(
            Problem(
                "ASC6016",
                "A profile is already being collected in this process.",
                fix="Stop it first; a program started by msprof is collected as a whole.",
            )
        )
