"""Device and host memory, copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Task

__all__ = [
    "free",
    "free_host",
    "get_mem_info",
    "malloc",
    "malloc_align32",
    "malloc_cached",
    "malloc_host",
    "mem_flush",
    "mem_invalidate",
    "memcpy",
    "memcpy2d",
    "memcpy2d_async",
    "memcpy_async",
    "memset",
    "memset_async",
]
_POLICIES = frozenset(range(8))  # page sizes; the two flags above ask for a memory type
_MEMORY_TYPES = 0x0100 | 0x1000 | 0x100000
_ATTRIBUTES = frozenset(range(18))


@call("aclrtMalloc", 0)
def malloc(size: int, policy: int, /) -> int:
    """Address of ``size`` bytes on the current device, a multiple of 64."""
    return _allocate(size, policy)


@call("aclrtMallocAlign32", 0)
def malloc_align32(size: int, policy: int, /) -> int:
    return _allocate(size, policy)


@call("aclrtMallocCached", 0)
def malloc_cached(size: int, policy: int, /) -> int:
    return _allocate(size, policy)


def _allocate(size: int, policy: int) -> int:
    if policy & ~_MEMORY_TYPES not in _POLICIES:
        raise DeviceFault("ACL_ERROR_RT_INVALID_MALLOC_TYPE", f"Allocation policy {policy} is unknown.")
    runtime = device.current()
    return runtime.memory.allocate(size, runtime.device)


@call("aclrtFree")
def free(dev_ptr: int, /) -> None:
    device.current().memory.free(dev_ptr, host=False)


@call("aclrtMallocHost", 0)
def malloc_host(size: int, /) -> int:
    """Address of ``size`` bytes of host memory, a multiple of 64."""
    return device.current().memory.allocate(size)


@call("aclrtFreeHost")
def free_host(host_ptr: int, /) -> None:
    device.current().memory.free(host_ptr, host=True)


@call("aclrtMemFlush")
def mem_flush(dev_ptr: int, size: int, /) -> None:
    device.current().memory.check(dev_ptr, size, "device memory")


@call("aclrtMemInvalidate")
def mem_invalidate(dev_ptr: int, size: int, /) -> None:
    device.current().memory.check(dev_ptr, size, "device memory")


@call("aclrtGetMemInfo", 0, 0)
def get_mem_info(attr: int, /) -> tuple[int, int]:
    """(free, total) bytes of the current device's memory; ``attr`` names a kind of memory."""
    if attr not in _ATTRIBUTES:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Memory attribute {attr} is unknown.")
    runtime = device.current()
    total = runtime.memory.capacity[runtime.device]
    return total - runtime.memory.used[runtime.device], total


@call("aclrtMemcpy")
def memcpy(dst: int, dest_max: int, src: int, count: int, direction: int, /) -> None:
    device.current().memory.copy(dst, dest_max, src, count, direction)


@call("aclrtMemcpyAsync")
def memcpy_async(dst: int, dest_max: int, src: int, count: int, direction: int, stream: int, /) -> None:
    """As ``memcpy``, in the order of the stream. Nothing is copied before its turn; the memory is kept until then."""
    runtime = device.current()
    queue = runtime.stream(stream)
    memory = runtime.memory
    memory.check_copy(dst, dest_max, src, count, direction)
    queue.submit(Task("memcpy", "MEMCPY_ASYNC", _Kept(ctypes.memmove, (dst, src, count), memory.holder(src, dst))))


@call("aclrtMemset")
def memset(dev_ptr: int, max_count: int, value: int, count: int, /) -> None:
    device.current().memory.fill(dev_ptr, max_count, value, count)


@call("aclrtMemsetAsync")
def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int, /) -> None:
    runtime = device.current()
    queue = runtime.stream(stream)
    runtime.memory.check_fill(dev_ptr, max_count, count)
    kept = runtime.memory.holder(dev_ptr)
    queue.submit(Task("memset", "MEMSET_ASYNC", _Kept(ctypes.memset, (dev_ptr, value & 0xFF, count), kept)))


@call("aclrtMemcpy2d")
def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, /) -> None:
    """Copy ``height`` rows of ``width`` bytes; rows begin ``dpitch`` and ``spitch`` bytes apart."""
    _rows(dst, dpitch, src, spitch, width, height, kind)()


@call("aclrtMemcpy2dAsync")
def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int, /
) -> None:
    queue = device.current().stream(stream)
    queue.submit(Task("memcpy", "MEMCPY_ASYNC", _rows(dst, dpitch, src, spitch, width, height, kind)))


class _Kept:
    """A call on addresses together with the objects whose memory they are."""

    def __init__(
        self, function: Callable[..., object], arguments: tuple[int, ...], holders: tuple[object, ...]
    ) -> None:
        self.function, self.arguments, self.holders = function, arguments, holders

    def __call__(self) -> None:
        self.function(*self.arguments)


class _Rows:
    """A checked copy of rows, and the memory it keeps."""

    def __init__(self, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int) -> None:
        memory = device.current().memory
        self.source = memory.array(src, spitch * (height - 1) + width, "source")
        self.target = memory.array(dst, dpitch * (height - 1) + width, "destination")
        self.size, self.pitches = (width, height), (dpitch, spitch)

    def __call__(self) -> None:
        width, height = self.size
        for row in range(height):
            to, start = (row * pitch for pitch in self.pitches)
            self.target[to : to + width] = self.source[start : start + width]


def _rows(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> _Rows:
    if width <= 0 or height <= 0 or width > dpitch or width > spitch:
        raise DeviceFault("ACL_ERROR_RT_PARAM_INVALID", f"{height} rows of {width} bytes do not fit their pitches.")
    device.current().memory.check_copy(dst, dpitch, src, width, kind)
    return _Rows(dst, dpitch, src, spitch, width, height)
