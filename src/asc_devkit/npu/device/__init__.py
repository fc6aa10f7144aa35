"""The virtual devices a program talks to: memory, contexts, streams, events, callbacks, and hooks to watch them.

``runtime.current()`` is the process's; ``observe.subscribe`` lets a profiler hear every call and task.
"""

from asc_devkit.npu.device import observe
from asc_devkit.npu.device.memory import Block, Memory
from asc_devkit.npu.device.runtime import Context, Leak, Runtime, current, renew
from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.npu.device.streams import Event, Stream, Task

__all__ = [
    "Block",
    "Context",
    "DeviceFault",
    "Event",
    "Leak",
    "Memory",
    "Runtime",
    "Stream",
    "Task",
    "current",
    "observe",
    "renew",
]
