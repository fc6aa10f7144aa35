"""Profiles: collecting them from programs on the virtual NPU, and writing them as ``msprof`` does.

``collecting`` profiles a block of Python; ``export`` turns raw data into files; ``schema`` says what files look like.
The command is ``msprof`` (``cli/msprof.py``), the library of the vendor's API is ``acl.prof`` (``compat/acl``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Profile", "collecting", "export"]


@dataclass
class Profile:
    """What ``collecting`` leaves: the tree (None when nothing ran) and the files in it."""

    tree: Path | None = None
    files: list[Path] = field(default_factory=list)


@contextmanager
def collecting(output: str | Path, settings: Mapping[str, str] | None = None) -> Iterator[Profile]:
    """Collect while the block runs, then export.

    ``settings``: options of ``msprof`` by name (``{"aic-metrics": "Memory"}``). Raises ``AscError`` for unknown ones and
    when a collection is already running in this process.
    """
    from asc_devkit.profiling.collect import hook, session

    plan = session.plan(Path(output), settings or {})
    session.refuse_second()
    profile = Profile()
    hook.begin(plan, always=True)
    try:
        yield profile
    finally:
        profile.tree = hook.end()
    if profile.tree is not None:
        profile.files = export(profile.tree)


def export(tree: str | Path) -> list[Path]:
    """Write tables, timeline and database from the raw data in ``tree``; the files written."""
    from asc_devkit.profiling.collect import after
    from asc_devkit.profiling.writers.context import ExportOptions

    return after.export_tree(Path(tree), ExportOptions())
