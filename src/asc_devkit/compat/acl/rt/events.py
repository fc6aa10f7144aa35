"""Events. Their times are device times: simulated by the performance model, not measured on this CPU."""

from __future__ import annotations

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Event
from asc_devkit.npu.device.streams import elapsed_ms

__all__ = [
    "create_event",
    "create_event_ex_with_flag",
    "create_event_with_flag",
    "destroy_event",
    "event_elapsed_time",
    "event_get_timestamp",
    "query_event",
    "query_event_status",
    "query_event_wait_status",
    "record_event",
    "reset_event",
    "set_op_execute_timeout",
    "set_op_wait_timeout",
    "stream_wait_event",
    "synchronize_event",
    "synchronize_event_with_timeout",
]
_INVALID = "ACL_ERROR_RT_INVALID_HANDLE"


@call("aclrtCreateEvent", 0)
def create_event() -> int:
    return _create(0)


@call("aclrtCreateEventWithFlag", 0)
def create_event_with_flag(flag: int, /) -> int:
    return _create(flag)


@call("aclrtCreateEventExWithFlag", 0)
def create_event_ex_with_flag(flag: int, /) -> int:
    return _create(flag)


def _create(flag: int) -> int:
    runtime = device.current()
    runtime.context()
    return runtime.handles.add(Event(flag))


@call("aclrtDestroyEvent")
def destroy_event(event: int, /) -> None:
    device.current().handles.remove(event, Event, _INVALID)


@call("aclrtRecordEvent")
def record_event(event: int, stream: int, /) -> None:
    runtime = device.current()
    runtime.event(event).record(runtime.stream(stream))


@call("aclrtResetEvent")
def reset_event(event: int, stream: int, /) -> None:
    runtime = device.current()
    runtime.event(event).reset(runtime.stream(stream))


@call("aclrtQueryEvent", 2)
def query_event(event: int, /) -> int:
    """0: reached, 1: not yet."""
    return 0 if device.current().event(event).recorded else 1


@call("aclrtQueryEventStatus", 0)
def query_event_status(event: int, /) -> int:
    """1: reached, 0: not yet."""
    return 1 if device.current().event(event).recorded else 0


@call("aclrtQueryEventWaitStatus", 0xFFFF)
def query_event_wait_status(event: int, /) -> int:
    """0: every stream has passed it, 1: not yet."""
    return 1 if device.current().event(event).awaited else 0


@call("aclrtSynchronizeEvent")
def synchronize_event(event: int, /) -> None:
    device.current().event(event).synchronize()


@call("aclrtSynchronizeEventWithTimeout")
def synchronize_event_with_timeout(event: int, timeout: int, /) -> None:
    """``timeout`` in milliseconds, -1 for none."""
    device.current().event(event).synchronize(None if timeout < 0 else timeout / 1e3)


@call("aclrtEventElapsedTime", 0.0)
def event_elapsed_time(start: int, end: int, /) -> float:
    """Simulated device time between two recordings, in milliseconds."""
    runtime = device.current()
    return elapsed_ms(runtime.event(start), runtime.event(end))


@call("aclrtEventGetTimestamp", 0)
def event_get_timestamp(event: int, /) -> int:
    """Simulated device time of the recording, in microseconds."""
    return device.current().event(event).timestamp_ns() // 1000


@call("aclrtStreamWaitEvent")
def stream_wait_event(stream: int, event: int, /) -> None:
    runtime = device.current()
    runtime.event(event).hold_back(runtime.stream(stream))


@call("aclrtSetOpWaitTimeout")
def set_op_wait_timeout(timeout: int, /) -> None:
    """Nothing on the virtual device hangs, so the limit is only checked."""
    _limit(timeout)


@call("aclrtSetOpExecuteTimeOut")
def set_op_execute_timeout(timeout: int, /) -> None:
    """Nothing on the virtual device hangs, so the limit is only checked."""
    _limit(timeout)


def _limit(timeout: int) -> None:
    if timeout < 0:
        raise DeviceFault("ACL_ERROR_RT_PARAM_INVALID", f"A limit of {timeout} s is not possible.")
