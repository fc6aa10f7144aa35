"""What all pyACL functions share: return codes instead of exceptions, the recent error message, timing for observers.

A function raises ``DeviceFault`` (or any ``AscError``); ``call`` turns that into the return convention of pyACL.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from asc_devkit.errors import AscError
from asc_devkit.npu.device import DeviceFault, observe
from asc_devkit.npu.device.status import codes

F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("acl")
SUCCESS: Final = 0
_FAILURE: Final = "ACL_ERROR_GE_FAILURE"
#: What a caller that polls gets all the time.
_EXPECTED: Final = frozenset({"ACL_ERROR_RT_REPORT_TIMEOUT", "ACL_ERROR_RT_THREAD_SUBSCRIBE"})
#: Toolkit and converter codes that have a runtime code of their own.
_STATUS: Final = {
    "E13001": "ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID",
    "ASC4003": "ACL_ERROR_RT_MODEL_EXECUTE",
    "ASC4013": "ACL_ERROR_GE_PARAM_INVALID",
    "ASC4014": "ACL_ERROR_GE_AIPP_NOT_EXIST",
    "ASC4015": "ACL_ERROR_INVALID_PARAM",
}
_recent = threading.local()


def note(error: AscError) -> int:
    """Remember ``error`` as this thread's recent message, log it, and return its code."""
    if isinstance(error, DeviceFault):
        name, text = error.name, error.text()
    else:
        problem = error.problems[0]
        name = _STATUS.get(problem.code, _FAILURE)
        lines = (f"{p.code}: {p.what} {p.cause} {p.fix}".rstrip() for p in error.problems)
        text = f"{name} ({codes()[name]}): " + "\n  ".join(lines)
    _recent.message = text
    status = codes()[name]
    _recent.status = status
    if name not in _EXPECTED:
        log.error("%s", text)
    return status


def take_message() -> str | None:
    """The message of this thread's last failed call, once."""
    message: str | None = getattr(_recent, "message", None)
    _recent.message = None
    return message


def last_status(clear: bool) -> int:
    """Code of this thread's last failed call, 0 when there was none."""
    status: int = getattr(_recent, "status", 0)
    if clear:
        _recent.status = 0
    return status


def call(name: str, *failed: Any, bare: bool = False) -> Callable[[F], F]:
    """Make a pyACL function of one that raises.

    ``name``: the C function it stands for. The result of the Python function is followed by the return code: nothing
    else (a function without ``failed`` values), one value, or several (a tuple of as many as ``failed`` has). When it
    raises, the values are ``failed``. ``bare``: the single value alone, without a code.
    """

    def outcome(made: Any) -> Any:
        if bare:
            return made
        if not failed:
            return SUCCESS
        return (*made, SUCCESS) if len(failed) > 1 else (made, SUCCESS)

    def fault(error: AscError) -> Any:
        status = note(error)
        if bare:
            return failed[0] if failed else None
        return (*failed, status) if failed else status

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any) -> Any:
            if observe.active():
                return timed(args)
            try:
                return outcome(function(*args))
            except AscError as error:
                return fault(error)

        def timed(args: tuple[Any, ...]) -> Any:
            start = time.monotonic_ns()
            try:
                return outcome(function(*args))
            except AscError as error:
                return fault(error)
            finally:
                observe.publish_api(observe.ApiCall(name, threading.get_ident(), start, time.monotonic_ns()))

        return wrapped  # type: ignore[return-value]

    return decorate
