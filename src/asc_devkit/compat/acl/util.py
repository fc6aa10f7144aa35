"""``acl.util``: between Python objects and addresses; threads that run stream callbacks."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.memory import HOST
from asc_devkit.npu.numerics import Array

_threads: dict[int, tuple[threading.Thread, list[str]]] = {}


def numpy_to_ptr(array: Array, /) -> int:
    """Address of the array's first element. The array has to live as long as the address is used."""
    if not isinstance(array, np.ndarray):
        raise ValueError("needs an ndarray as argument")
    address = int(array.__array_interface__["data"][0])
    device.current().memory.lend(array, address, array.nbytes)
    return address


def numpy_contiguous_to_ptr(array: Array, /) -> tuple[int, Array]:
    """Address of a contiguous copy (or of the array itself when it is contiguous), and that array."""
    if not isinstance(array, np.ndarray):
        raise ValueError("needs an ndarray as argument")
    contiguous = np.ascontiguousarray(array)
    return numpy_to_ptr(contiguous), contiguous


def ptr_to_numpy(pointer: int, shape: Sequence[int], data_type: int, /) -> Array:
    """An array over the memory at ``pointer``; ``data_type`` is numpy's type number. Raises ``DeviceFault`` (a
    ``ValueError`` to programs that catch one) for memory that is not host memory or ends before the array does."""
    kind = _types().get(data_type)
    if kind is None or not isinstance(shape, tuple | list):
        raise ValueError(f"type number {data_type} or shape {shape!r} is invalid")
    size = prod(shape) * kind.itemsize
    if size == 0:
        return np.empty(tuple(shape), kind)
    return _readable(pointer, size).view(kind).reshape(tuple(shape))


def bytes_to_ptr(data: bytes, /) -> int:
    """Address of the bytes. They have to live as long as the address is used."""
    if not isinstance(data, bytes):
        raise ValueError("needs an byte as argument")
    address = int(np.frombuffer(data, np.uint8).__array_interface__["data"][0]) if data else id(data)
    device.current().memory.lend(data, address, len(data))
    return address


def ptr_to_bytes(pointer: int, size: int, /) -> bytes:
    """A copy of ``size`` bytes from ``pointer``."""
    return _readable(pointer, size).tobytes() if size else b""


def _readable(pointer: int, size: int) -> Array:
    runtime = device.current()
    block = runtime.memory.check(pointer, size, "pointer")
    if block is not None and block.device != HOST and not runtime.run_on_device:
        raise DeviceFault(
            "ACL_ERROR_RT_INVALID_MEMORY_TYPE",
            f"Address {pointer:#x} is device memory, which the host cannot read: on a card this ends the process.",
            fix="Copy it to the host first (acl.rt.memcpy with ACL_MEMCPY_DEVICE_TO_HOST).",
            where=(f"allocated at {block.site}",),
        )
    return runtime.memory.array(pointer, size, "pointer")


@lru_cache(maxsize=1)
def _types() -> dict[int, np.dtype[Any]]:
    return {np.dtype(code).num: np.dtype(code) for code in np.typecodes["All"] if code not in "SUVO"}


@call("pthread_create", 0)
def start_thread(function: Callable[[Any], object], arguments: Any, /) -> int:
    """Run ``function(arguments)`` on a new thread; (its number, ret)."""
    if not callable(function):
        raise TypeError("parameter must be callable")
    errors: list[str] = []
    ready = threading.Event()

    def run() -> None:
        ready.wait()
        try:
            function() if arguments is None else function(arguments)  # type: ignore[call-arg]
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            errors.append(f"exception={type(error).__name__},msg={error}")

    thread = threading.Thread(target=run, name="acl.util.start_thread", daemon=True)
    thread.start()
    assert thread.ident is not None
    _threads[thread.ident] = thread, errors
    ready.set()
    return thread.ident


def stop_thread(thread: int, /) -> int:
    """Wait for a thread of ``start_thread`` to end; 0, or 3 (ESRCH) for an unknown number. Raises ``RuntimeError`` when
    the thread's function raised."""
    found = _threads.pop(thread, None)
    if found is None:
        return 3
    found[0].join()
    if found[1]:
        raise RuntimeError(";".join(found[1]))
    return 0
