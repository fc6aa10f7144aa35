"""pyACL on the virtual device: what ``import acl`` gives where CANN's own module is not installed.

Functions have the documented names, positional arguments and return conventions (``ret`` codes, ``(value, ret)`` tuples).
"""

from __future__ import annotations

import os
import sys

from asc_devkit.compat.acl import mdl, media, op, prof, rt, state, util
from asc_devkit.compat.acl.calls import call, take_message
from asc_devkit.compat.acl.mdl import dump, loading
from asc_devkit.compat.acl.objects import (
    create_data_buffer,
    create_tensor_desc,
    data_type_size,
    destroy_data_buffer,
    destroy_tensor_desc,
    get_data_buffer_addr,
    get_data_buffer_size,
    get_data_buffer_size_v2,
    get_tensor_desc_address,
    get_tensor_desc_dim,
    get_tensor_desc_dim_range,
    get_tensor_desc_dim_v2,
    get_tensor_desc_element_count,
    get_tensor_desc_format,
    get_tensor_desc_name,
    get_tensor_desc_num_dims,
    get_tensor_desc_size,
    get_tensor_desc_type,
    set_tensor_const,
    set_tensor_desc_name,
    set_tensor_dynamic_input,
    set_tensor_format,
    set_tensor_origin_format,
    set_tensor_origin_shape,
    set_tensor_place_ment,
    set_tensor_shape,
    set_tensor_shape_range,
    set_tensor_storage_format,
    set_tensor_storage_shape,
    update_data_buffer,
)
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault

__all__ = [
    "app_log",
    "create_data_buffer",
    "create_tensor_desc",
    "data_type_size",
    "destroy_data_buffer",
    "destroy_tensor_desc",
    "finalize",
    "get_data_buffer_addr",
    "get_data_buffer_size",
    "get_data_buffer_size_v2",
    "get_recent_err_msg",
    "get_soc_name",
    "get_tensor_desc_address",
    "get_tensor_desc_dim",
    "get_tensor_desc_dim_range",
    "get_tensor_desc_dim_v2",
    "get_tensor_desc_element_count",
    "get_tensor_desc_format",
    "get_tensor_desc_name",
    "get_tensor_desc_num_dims",
    "get_tensor_desc_size",
    "get_tensor_desc_type",
    "get_version",
    "init",
    "mdl",
    "media",
    "op",
    "prof",
    "rt",
    "set_tensor_const",
    "set_tensor_desc_name",
    "set_tensor_dynamic_input",
    "set_tensor_format",
    "set_tensor_origin_format",
    "set_tensor_origin_shape",
    "set_tensor_place_ment",
    "set_tensor_shape",
    "set_tensor_shape_range",
    "set_tensor_storage_format",
    "set_tensor_storage_shape",
    "update_data_buffer",
    "util",
]
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@call("aclInit")
def init(config_path: str | None = None, /) -> None:
    """Before everything else. ``config_path``: a JSON file whose ``dump`` section asks for dumps."""
    if state.initialised():
        raise DeviceFault("ACL_ERROR_REPEAT_INITIALIZE", "acl.init was called twice.", fix="Call acl.finalize first.")
    if config_path:
        dump.use(dump.read_config(config_path).get("dump"))
    state.begin()


@call("aclFinalize")
def finalize() -> None:
    """After everything else; what the program left behind is listed when ``ASC_LEAK_CHECK`` is set."""
    if not state.initialised():
        name = "ACL_ERROR_REPEAT_FINALIZE" if state.finalised() else "ACL_ERROR_UNINITIALIZE"
        raise DeviceFault(name, "acl.finalize without acl.init.", fix="Call acl.init first.")
    dump.stop()
    runtime = device.current()
    left = runtime.leftovers()
    if left and os.environ.get("ASC_LEAK_CHECK", "0") not in ("", "0", "off"):
        print(f"asc-devkit: {len(left)} objects were not released:", file=sys.stderr)
        for leak in left[:50]:
            print(f"  {leak}", file=sys.stderr)
    loading.forget()
    for number in range(runtime.device_count):
        runtime.reset_device(number, force=True)
    device.renew()
    state.end()


@call("aclrtGetSocName", "", bare=True)
def get_soc_name() -> str:
    """Name of the chip (``ASC_SOC``)."""
    return device.current().soc.name


@call("aclrtGetVersion", 0, 0, 0)
def get_version() -> tuple[int, int, int]:
    """Major, minor and patch version of the interface."""
    return (1, 0, 0)


@call("aclAppLog")
def app_log(log_level: int, func: str, file: str, line: int, string: str, /) -> None:
    """A line of the program in the log (stderr when ``ASCEND_SLOG_PRINT_TO_STDOUT`` is 1)."""
    if not 0 <= log_level < len(_LEVELS):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"There is no log level {log_level}.", fix="Use 0 to 3.")
    least = os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "3")
    if os.environ.get("ASCEND_SLOG_PRINT_TO_STDOUT") == "1" and log_level >= (int(least) if least.isdigit() else 3):
        print(f"[{_LEVELS[log_level]}] APP {file}:{line} {func}: {string}", file=sys.stderr)


def get_recent_err_msg() -> str:
    """Text of this thread's last failed call, once; empty when there was none since."""
    return take_message() or ""
