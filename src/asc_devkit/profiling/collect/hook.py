"""Collection in the program that ``msprof`` started: switched on by an environment variable when the runtime is imported.

Child processes inherit the variable; forked ones begin a collection of their own.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.util
import os
import sys
from pathlib import Path
from typing import Any, Final

from asc_devkit.profiling.collect import watch
from asc_devkit.profiling.collect.collector import Collector, Plan

VARIABLE: Final = "ASC_PROFILING"
SOC: Final = "ASC_SOC"
_installed: int = 0


def variable(plan: Plan) -> str:
    """The value of the environment variable that asks for ``plan``."""
    return json.dumps({"output": str(plan.output), "settings": dict(plan.settings), "launch": plan.launch})


def install() -> Collector | None:
    """Begin the collection that the environment asks for, once in a process; None when it asks for none."""
    global _installed
    text = os.environ.get(VARIABLE, "")
    if not text or _installed == os.getpid():
        return watch.current()
    first = _installed == 0
    _installed = os.getpid()
    try:
        given = json.loads(text)
        settings = {str(k): str(v) for k, v in given["settings"].items()}
        command = " ".join(sys.orig_argv)[:1000]
        plan = Plan(Path(given["output"]), settings, str(given.get("launch", "")), command)
    except (ValueError, KeyError, TypeError, AttributeError):
        print(f"{VARIABLE} is not understood; nothing is collected.", file=sys.stderr)
        return None
    collector = begin(plan)
    if first:
        os.register_at_fork(after_in_child=_forked)
        atexit.register(end)
    # Children of multiprocessing leave without atexit.
    multiprocessing.util.Finalize(None, end, exitpriority=0)
    return collector


def begin(plan: Plan, *, always: bool = False) -> Collector:
    """Start a collection in this process and make it hear everything."""
    collector = Collector(plan, always=always)
    collector.start()
    watch.set_current(collector)
    listen(collector, on=True)
    return collector


def end() -> Path | None:
    """Stop the collection of this process; its tree, None when nothing was collected."""
    collector = watch.current()
    if collector is None:
        return None
    watch.set_current(None)
    listen(collector, on=False)
    try:
        return collector.stop()
    except OSError as error:
        print(f"The profile could not be written: {error}", file=sys.stderr)
        return None


def _forked() -> None:
    """A forked child knows the parent's collection but not its thread: it begins anew."""
    collector = watch.current()
    if collector is not None:
        watch.set_current(None)
        listen(collector, on=False)
        install()


def listen(observer: Any, *, on: bool) -> None:
    """Hear what the device runtime publishes, or no longer."""
    from asc_devkit.npu.device import observe

    (observe.subscribe if on else observe.unsubscribe)(observer)
