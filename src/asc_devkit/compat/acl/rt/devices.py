"""Devices and contexts."""

from __future__ import annotations

from typing import Any

from asc_devkit.compat.acl.calls import call, last_status
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault

__all__ = [
    "create_context",
    "ctx_get_current_default_stream",
    "destroy_context",
    "device_can_access_peer",
    "get_context",
    "get_device",
    "get_device_count",
    "get_device_sat_mode",
    "get_device_utilization_rate",
    "get_last_error",
    "get_run_mode",
    "get_soc_name",
    "get_version",
    "peek_at_last_error",
    "query_device_status",
    "reset_device",
    "reset_device_force",
    "set_context",
    "set_device",
    "set_device_sat_mode",
    "set_ts_device",
    "synchronize_device",
    "synchronize_device_with_timeout",
]
VERSION = (1, 0, 0)
DEVICE, HOST = 0, 1
SATURATE, INFNAN = 0, 1


@call("aclrtSetDevice")
def set_device(device_id: int, /) -> None:
    device.current().set_device(device_id)


@call("aclrtResetDevice")
def reset_device(device_id: int, /) -> None:
    device.current().reset_device(device_id)


@call("aclrtResetDeviceForce")
def reset_device_force(device_id: int, /) -> None:
    device.current().reset_device(device_id, force=True)


@call("aclrtGetDevice", 0)
def get_device() -> int:
    return device.current().device


@call("aclrtGetDeviceCount", 0)
def get_device_count() -> int:
    return device.current().device_count


@call("aclrtGetRunMode", 0)
def get_run_mode() -> int:
    """0: the program runs on the device's own processor, 1: on a host beside it."""
    return DEVICE if device.current().run_on_device else HOST


@call("aclrtSetTsDevice")
def set_ts_device(ts_id: int, /) -> None:
    if ts_id not in (0, 1):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"There is no task scheduler {ts_id}.")


@call("aclrtSetDeviceSatMode")
def set_device_sat_mode(mode: int, /) -> None:
    """Models carry their overflow mode themselves; only the chip's own mode can be set."""
    if mode != _sat_mode():
        raise DeviceFault(
            "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
            f"The overflow mode of {device.current().soc.name} cannot be changed at run time.",
            fix="Load the model with another overflow mode (npu.load, asc run --overflow).",
        )


@call("aclrtGetDeviceSatMode", 0)
def get_device_sat_mode() -> int:
    return _sat_mode()


def _sat_mode() -> int:
    return SATURATE if device.current().soc.overflow_mode == "saturate" else INFNAN


@call("aclrtQueryDeviceStatus", 0)
def query_device_status(device_id: int, /) -> int:
    runtime = device.current()
    if not 0 <= device_id < runtime.device_count:
        raise DeviceFault("ACL_ERROR_RT_INVALID_DEVICEID", f"There is no device {device_id}.")
    return 0


@call("aclrtGetDeviceUtilizationRate", {})
def get_device_utilization_rate(device_id: int, /) -> dict[str, Any]:
    """Shares in percent; -1 (not supported) for everything but memory."""
    memory = device.current().memory
    if device_id not in memory.capacity:
        raise DeviceFault("ACL_ERROR_RT_INVALID_DEVICEID", f"There is no device {device_id}.")
    share = 100 * memory.used[device_id] // memory.capacity[device_id]
    unknown = dict.fromkeys(("cubeUtilization", "vectorUtilization", "aicpuUtilization"), -1)
    return {**unknown, "memoryUtilization": share, "utilizationExtend": 0}


@call("aclrtDeviceCanAccessPeer", 0)
def device_can_access_peer(device_id: int, peer_device_id: int, /) -> int:
    return int(device_id != peer_device_id and max(device_id, peer_device_id) < device.current().device_count)


@call("aclrtSynchronizeDevice")
def synchronize_device() -> None:
    _synchronize(None)


@call("aclrtSynchronizeDeviceWithTimeout")
def synchronize_device_with_timeout(timeout: int, /) -> None:
    """``timeout`` in milliseconds, -1 for none."""
    _synchronize(None if timeout < 0 else timeout / 1e3)


def _synchronize(timeout_s: float | None) -> None:
    runtime = device.current()
    for stream in runtime.streams(runtime.device):
        stream.synchronize(timeout_s)


@call("aclrtCreateContext", 0)
def create_context(device_id: int, /) -> int:
    return device.current().create_context(device_id)


@call("aclrtDestroyContext")
def destroy_context(context: int, /) -> None:
    device.current().destroy_context(context)


@call("aclrtSetCurrentContext")
def set_context(context: int, /) -> None:
    device.current().set_context(context)


@call("aclrtGetCurrentContext", 0)
def get_context() -> int:
    return device.current().context_handle()


@call("aclrtCtxGetCurrentDefaultStream", 0)
def ctx_get_current_default_stream() -> int:
    """The default stream goes by 0 in all calls."""
    device.current().context()
    return 0


@call("aclrtGetVersion", 0, 0, 0)
def get_version() -> tuple[int, int, int]:
    """Version of the interface: (major, minor, patch, ret)."""
    return VERSION


@call("aclrtGetSocName", bare=True)
def get_soc_name() -> str:
    return device.current().soc.name


def peek_at_last_error(level: int, /) -> int:
    """Code of this thread's last failed call."""
    return last_status(clear=False)


def get_last_error(level: int, /) -> int:
    """Code of this thread's last failed call, which is then forgotten."""
    return last_status(clear=True)
