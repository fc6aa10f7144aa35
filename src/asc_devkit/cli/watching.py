"""`asc run` under a profile: tells the collection of this process about the model it executes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asc_devkit.npu import Session
    from asc_devkit.npu.numerics import Array
    from asc_devkit.om import OmFile
    from asc_devkit.profiling.collect.watch import Watched


class RunWatch:
    """One profile: of ``--profile FOLDER``, or what ``msprof`` asked for in the environment; else does nothing."""

    def __init__(self, folder: Path | None, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings or {}
        self._model: Watched | None = None
        self._active = folder is not None or bool(os.environ.get("ASC_PROFILING"))

    def begin(self) -> None:
        """Start to collect. Raises ``AscError`` when a profile is being collected already, or the folder cannot be made."""
        if self._folder is not None:
            from asc_devkit.profiling.collect import hook, session

            session.refuse_second()
            hook.begin(session.plan(self._folder, self._settings), always=True)
        elif self._active:
            from asc_devkit.profiling.collect import hook

            hook.install()

    def loaded(self, file: OmFile, path: Path, started_ns: int) -> None:
        """The model is loaded. Its chip is ``ASC_SOC``, else the one it was converted for."""
        if not self._active:
            return
        from asc_devkit.profiling.collect import watch

        if watch.current() is not None:
            self._model = watch.model(file, str(path), os.environ.get("ASC_SOC", ""))
            self._model.called("aclmdlLoadFromFile", started_ns, time.monotonic_ns())

    def executed(self, session: Session, feed: Mapping[str, Array], started_ns: int, ended_ns: int) -> None:
        """One execution is over."""
        if self._model is not None:
            self._model.executed(started_ns, ended_ns, _gear(session, feed))

    def end(self) -> dict[str, Any] | None:
        """Write the profile of ``--profile``: its folder, and what its times are."""
        if self._folder is None:
            return None
        from asc_devkit import profiling
        from asc_devkit.profiling.collect import hook

        tree = hook.end()
        if tree is None:
            return None
        profiling.export(tree)
        return {"folder": str(tree), "host_times": "measured", "device_times": "simulated"}


def _gear(session: Session, feed: Mapping[str, Array]) -> int | None:
    """Number of the gear that the shapes ask for; None for static models."""
    for index, gear in enumerate(getattr(session, "gears", ())):
        if all(name in feed and feed[name].shape == shape for name, shape in gear.items()):
            return index
    return None
