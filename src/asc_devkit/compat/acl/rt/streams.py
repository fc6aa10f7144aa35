"""Streams and the callbacks they run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.reports import launch

__all__ = [
    "create_stream",
    "create_stream_with_config",
    "destroy_stream",
    "destroy_stream_force",
    "get_stream_attribute",
    "get_stream_available_num",
    "get_stream_overflow_switch",
    "launch_callback",
    "process_report",
    "set_stream_attribute",
    "set_stream_failure_mode",
    "set_stream_overflow_switch",
    "stream_abort",
    "stream_get_id",
    "stream_query",
    "subscribe_report",
    "synchronize_stream",
    "synchronize_stream_with_timeout",
    "unsubscribe_report",
]
MAX_STREAMS = 1984
_FAILURE_MODE, _OVERFLOW = 1, 2
_NAMES = {_FAILURE_MODE: "failureMode", _OVERFLOW: "overflowSwitch", 3: "userCustomTag"}


@call("aclrtCreateStream", 0)
def create_stream() -> int:
    return device.current().create_stream()


@call("aclrtCreateStreamWithConfig", 0)
def create_stream_with_config(priority: int, flag: int, /) -> int:
    """Priorities and fast launch change nothing on the virtual device."""
    if not 0 <= priority <= 7:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Priority {priority} is not between 0 and 7.")
    return device.current().create_stream()


@call("aclrtDestroyStream")
def destroy_stream(stream: int, /) -> None:
    """Finishes what is queued first."""
    device.current().destroy_stream(stream)


@call("aclrtDestroyStreamForce")
def destroy_stream_force(stream: int, /) -> None:
    """Drops what is queued."""
    device.current().destroy_stream(stream, force=True)


@call("aclrtSynchronizeStream")
def synchronize_stream(stream: int, /) -> None:
    """Wait for everything queued; the code of the first task that failed."""
    device.current().stream(stream).synchronize()


@call("aclrtSynchronizeStreamWithTimeout")
def synchronize_stream_with_timeout(stream: int, timeout: int, /) -> None:
    """``timeout`` in milliseconds, -1 for none."""
    device.current().stream(stream).synchronize(_seconds(timeout))


@call("aclrtStreamQuery", 0xFFFF)
def stream_query(stream: int, /) -> int:
    """0: everything is done, 1: not yet."""
    return 0 if device.current().stream(stream).complete else 1


@call("aclrtStreamAbort")
def stream_abort(stream: int, /) -> None:
    device.current().stream(stream).abort()


@call("aclrtStreamGetId", 0)
def stream_get_id(stream: int, /) -> int:
    return device.current().stream(stream).number


@call("aclrtGetStreamAvailableNum", 0)
def get_stream_available_num() -> int:
    runtime = device.current()
    return max(0, MAX_STREAMS - len(runtime.streams(runtime.device)))


@call("aclrtSetStreamFailureMode")
def set_stream_failure_mode(stream: int, mode: int, /) -> None:
    """0: go on after a failed task, 1: drop the tasks behind it."""
    if mode not in (0, 1):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Failure mode {mode} is unknown.")
    device.current().stream(stream).failure_mode = mode


@call("aclrtSetStreamOverflowSwitch")
def set_stream_overflow_switch(stream: int, flag: int, /) -> None:
    device.current().stream(stream).attributes[_OVERFLOW] = flag


@call("aclrtGetStreamOverflowSwitch", 0)
def get_stream_overflow_switch(stream: int, /) -> int:
    return int(device.current().stream(stream).attributes.get(_OVERFLOW, 0))


@call("aclrtSetStreamAttribute")
def set_stream_attribute(stream: int, attr_type: int, value: dict[str, Any], /) -> None:
    found = device.current().stream(stream)
    name = _NAMES.get(attr_type)
    if name is None or name not in value:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Stream attribute {attr_type} needs {name or 'a known number'}.")
    if attr_type == _FAILURE_MODE:
        found.failure_mode = int(value[name])
    found.attributes[attr_type] = value[name]


@call("aclrtGetStreamAttribute", {})
def get_stream_attribute(stream: int, attr_type: int, /) -> dict[str, Any]:
    found = device.current().stream(stream)
    name = _NAMES.get(attr_type)
    if name is None:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Stream attribute {attr_type} is unknown.")
    return {name: found.failure_mode if attr_type == _FAILURE_MODE else found.attributes.get(attr_type, 0)}


@call("aclrtSubscribeReport")
def subscribe_report(thread_id: int, stream: int, /) -> None:
    """Callbacks of ``stream`` run on the thread (a number from acl.util.start_thread)."""
    runtime = device.current()
    runtime.subscriptions.subscribe(thread_id, runtime.stream(stream))


@call("aclrtUnSubscribeReport")
def unsubscribe_report(thread_id: int, stream: int, /) -> None:
    runtime = device.current()
    runtime.subscriptions.unsubscribe(thread_id, runtime.stream(stream))


@call("aclrtProcessReport")
def process_report(timeout: int, /) -> None:
    """Run the callbacks waiting for this thread; wait up to ``timeout`` milliseconds (-1: without end) for one."""
    device.current().subscriptions.process(threading.get_ident(), _seconds(timeout))


@call("aclrtLaunchCallback")
def launch_callback(function: Callable[[Any], object], user_data: Any, block_type: int, stream: int, /) -> None:
    """Queue ``function(user_data)``. ``block_type`` 1: the stream waits until it has run."""
    if not callable(function):
        raise TypeError("parameter must be callable")
    if block_type not in (0, 1):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Block type {block_type} is neither 0 nor 1.")
    launch(function, user_data, bool(block_type), device.current().stream(stream))


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1e3
