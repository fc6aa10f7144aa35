"""Loading and unloading models; executing them."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from asc_devkit import npu, om, soc
from asc_devkit.compat.acl import state
from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.mdl.datasets import dataset
from asc_devkit.compat.acl.mdl.model import Model
from asc_devkit.errors import AscError
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.sites import call_site

__all__ = [
    "create_config_handle",
    "create_exec_config_handle",
    "destroy_config_handle",
    "destroy_exec_config_handle",
    "execute",
    "execute_async",
    "execute_v2",
    "load_from_file",
    "load_from_file_with_mem",
    "load_from_mem",
    "load_from_mem_with_mem",
    "load_with_config",
    "query_size",
    "query_size_from_mem",
    "set_config_opt",
    "set_exec_config_opt",
    "unload",
]
MAX_MODEL: Final = 1 << 40
#: Options of a configuration handle, in the order of the public enumeration aclmdlConfigAttr.
OPTIONS: Final = (
    "priority", "load_type", "path", "memory", "memory_bytes", "weights", "weight_bytes", "workspace",
    "workspace_bytes", "input_queues", "input_queue_count", "output_queues", "output_queue_count", "reuse_workspace",
    "weight_path",
)  # fmt: skip
FROM_FILE, FROM_FILE_WITH_MEMORY, FROM_MEMORY, FROM_MEMORY_WITH_MEMORY = 1, 2, 3, 4

_models: dict[int, Model] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


@dataclass(eq=False)
class ConfigHandle:
    """How ``load_with_config`` is to load."""

    site: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class ExecConfigHandle:
    """How ``execute_v2`` is to run."""

    site: str
    options: dict[int, int] = field(default_factory=dict)


def model(number: int) -> Model:
    """A loaded model. Raises ``DeviceFault`` (100011) for unknown numbers."""
    found = _models.get(number)
    if found is None:
        raise DeviceFault(
            "ACL_ERROR_GE_EXEC_MODEL_ID_INVALID", f"No model {number} is loaded.", cause="It was unloaded before."
        )
    return found


def loaded() -> list[Model]:
    """All models, for the report of what is left over."""
    return list(_models.values())


def forget() -> None:
    """After finalize or a fork."""
    _models.clear()


def _open(path: str) -> om.OmFile:
    if not isinstance(path, str):
        raise TypeError("the model path is not a string")
    return om.read(path)


def _view(pointer: int, size: int) -> om.OmFile:
    if not 0 < size < MAX_MODEL:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A model of {size} bytes is not possible.")
    data = device.current().memory.array(pointer, size, "model").tobytes()
    return om.parse(memoryview(data), "model in memory")


def _load(file: om.OmFile, own_memory: tuple[int, int, int, int] | None = None) -> int:
    runtime = device.current()
    if not state.initialised():
        raise DeviceFault("ACL_ERROR_GE_EXEC_NOT_INIT", "acl.init was not called.")
    place = runtime.device
    _check_chip(file, runtime)
    work, weights = _sizes(file)
    reserved = work + weights
    if own_memory is not None:
        reserved = 0
        for pointer, size, needed, what in (
            (*own_memory[:2], work, "work memory"),
            (*own_memory[2:], weights, "weight memory"),
        ):
            if not pointer and not size:
                reserved += needed
                continue
            if size < needed:
                raise DeviceFault("ACL_ERROR_GE_PARAM_INVALID", f"The {what} has {size} bytes, {needed} are needed.")
            runtime.memory.check(pointer, size, what)
    try:
        runtime.memory.reserve(reserved, place)
    except DeviceFault as fault:
        raise DeviceFault(
            "ACL_ERROR_GE_MEMORY_ALLOCATION", fault.problems[0].what, fix=fault.problems[0].fix
        ) from fault
    try:
        session = npu.load(file)
        with _lock:
            number = next(_numbers)
        made = Model(number, str(file.path), file, place, reserved, session, call_site())
    except BaseException:
        runtime.memory.give_back(reserved, place)
        raise
    _models[number] = made
    return number


def _check_chip(file: om.OmFile, runtime: device.Runtime) -> None:
    """On a card, models of another family do not load; here they do unless the user chose the chip."""
    name = str(file.attrs.get("soc_version", ""))
    if not runtime.chip_given or not name:
        return
    try:
        generation = soc.resolve(name).soc.generation
    except AscError:
        return
    if generation != runtime.soc.generation:
        raise DeviceFault(
            "ACL_ERROR_RT_SOC_VERSION",
            f"The model was converted for {name}; the device is {runtime.soc.name}.",
            fix=f"Convert it with --soc_version={runtime.soc.name}, or set ASC_SOC={name}.",
        )


def _sizes(file: om.OmFile) -> tuple[int, int]:
    """(work bytes, weight bytes) on the device."""
    attrs = file.attrs
    work, weights = (int(attrs.get(name) or 0) for name in ("memory_size", "weight_size"))
    return max(work, 0), max(weights, len(file.weights))


@call("aclmdlLoadFromFile", 0)
def load_from_file(model_path: str, /) -> int:
    """(model id, ret)"""
    return _load(_open(model_path))


@call("aclmdlLoadFromMem", 0)
def load_from_mem(model_ptr: int, model_size: int, /) -> int:
    return _load(_view(model_ptr, model_size))


@call("aclmdlLoadFromFileWithMem", 0)
def load_from_file_with_mem(
    model_path: str, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> int:
    """Work and weight memory are the program's (sizes from ``query_size``); 0 leaves them to the runtime."""
    return _load(_open(model_path), (work_ptr, work_size, weight_ptr, weight_size))


@call("aclmdlLoadFromMemWithMem", 0)
def load_from_mem_with_mem(
    model_ptr: int, model_size: int, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> int:
    return _load(_view(model_ptr, model_size), (work_ptr, work_size, weight_ptr, weight_size))


@call("aclmdlUnload")
def unload(model_id: int, /) -> None:
    gone = model(model_id)
    if gone.running:
        raise DeviceFault(
            "ACL_ERROR_RT_MODEL_RUNNING",
            f"Model {model_id} still has {gone.running} executions queued.",
            fix="Synchronise its streams first.",
        )
    del _models[model_id]
    device.current().memory.give_back(gone.reserved, gone.device)


@call("aclmdlQuerySize", 0, 0)
def query_size(file_name: str, /) -> tuple[int, int]:
    """(work bytes, weight bytes, ret)"""
    return _sizes(_open(file_name))


@call("aclmdlQuerySizeFromMem", 0, 0)
def query_size_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int]:
    return _sizes(_view(model_ptr, model_size))


@call("aclmdlExecute")
def execute(model_id: int, input_dataset: int, output_dataset: int, /) -> None:
    """Run and wait."""
    model(model_id).execute(dataset(input_dataset), dataset(output_dataset))


@call("aclmdlExecuteAsync")
def execute_async(model_id: int, input_dataset: int, output_dataset: int, stream: int, /) -> None:
    """Run in the order of the stream; failures are reported when the stream is synchronised."""
    queue = device.current().stream(stream)
    model(model_id).submit(dataset(input_dataset), dataset(output_dataset), queue)


@call("aclmdlExecuteV2")
def execute_v2(model_id: int, input_dataset: int, output_dataset: int, stream: int, handle: int, /) -> None:
    """As ``execute``; the limits of the handle change nothing on the virtual device."""
    device.current().handles.get(handle, ExecConfigHandle)
    device.current().stream(stream).synchronize()
    model(model_id).execute(dataset(input_dataset), dataset(output_dataset))


@call("aclmdlCreateExecConfigHandle", 0, bare=True)
def create_exec_config_handle() -> int:
    return device.current().handles.add(ExecConfigHandle(call_site()))


@call("aclmdlDestroyExecConfigHandle")
def destroy_exec_config_handle(handle: int, /) -> None:
    device.current().handles.remove(handle, ExecConfigHandle)


@call("aclmdlSetExecConfigOpt")
def set_exec_config_opt(handle: int, attr: int, value: int, /) -> None:
    if attr not in (0, 1, 2):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Execution option {attr} is unknown.")
    device.current().handles.get(handle, ExecConfigHandle).options[attr] = value


@call("aclmdlCreateConfigHandle", 0, bare=True)
def create_config_handle() -> int:
    return device.current().handles.add(ConfigHandle(call_site()))


@call("aclmdlDestroyConfigHandle")
def destroy_config_handle(handle: int, /) -> None:
    device.current().handles.remove(handle, ConfigHandle)


@call("aclmdlSetConfigOpt")
def set_config_opt(handle: int, attr: int, value: Any, /) -> None:
    """One option of the public enumeration aclmdlConfigAttr."""
    if not 0 <= attr < len(OPTIONS):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Load option {attr} is unknown.")
    device.current().handles.get(handle, ConfigHandle).options[OPTIONS[attr]] = value


@call("aclmdlLoadWithConfig", 0)
def load_with_config(handle: int, /) -> int:
    given = device.current().handles.get(handle, ConfigHandle).options
    kind = given.get("load_type")
    if kind in (FROM_FILE, FROM_FILE_WITH_MEMORY):
        file = _open(str(_need(given, "path")))
    elif kind in (FROM_MEMORY, FROM_MEMORY_WITH_MEMORY):
        file = _view(int(_need(given, "memory")), int(_need(given, "memory_bytes")))
    else:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Load type {kind} is unknown or not possible here.")
    if kind in (FROM_FILE, FROM_MEMORY):
        return _load(file)
    names = ("workspace", "workspace_bytes", "weights", "weight_bytes")
    first, second, third, fourth = (int(given.get(name) or 0) for name in names)
    return _load(file, (first, second, third, fourth))


def _need(given: dict[str, Any], name: str) -> Any:
    if name not in given:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The load option {name} is not set.")
    return given[name]
