"""Whether the process has called ``acl.init``; starting afresh after ``acl.finalize`` and in forked children."""

from __future__ import annotations

import os


class _State:
    initialised = False
    finalised = False


def initialised() -> bool:
    return _State.initialised


def finalised() -> bool:
    return _State.finalised


def begin() -> None:
    _State.initialised, _State.finalised = True, False


def end() -> None:
    _State.initialised, _State.finalised = False, True


def _child() -> None:
    _State.initialised, _State.finalised = False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)
