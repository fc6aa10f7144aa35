"""Host and device memory behind real addresses: allocation, checked copies, and finding what an address belongs to.

Addresses are those of real memory in this process, so numpy and ctypes can look at it. What the device would refuse or
corrupt silently is refused here with the allocating call site: double free, use after free, a range that leaves its
block, a copy in the wrong direction.

Freed memory is kept out of circulation for a while (its pages are given back at once where the system can), so that a
stale pointer meets nobody else's data.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.npu.numerics import Array

ALIGNMENT: Final = 64
_PAGED: Final = 64 << 10  # blocks from this size on get pages of their own, which can be given back when freed
_REMEMBERED: Final = 256  # freed blocks that are still recognised
_REMEMBERED_BYTES: Final = 4 << 20  # of them, those without pages of their own
_LENT: Final = 64  # borrowed Python objects that are kept alive
_LENT_BYTES: Final = 64 << 20
_ADVICE: Final = getattr(mmap, "MADV_DONTNEED", None)
HOST: Final = -1

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)
INNER_DEVICE, INTER_DEVICE = 6, 7
DIRECTIONS: Final = {
    HOST_TO_HOST: (False, False),
    HOST_TO_DEVICE: (False, True),
    DEVICE_TO_HOST: (True, False),
    DEVICE_TO_DEVICE: (True, True),
    INNER_DEVICE: (True, True),
    INTER_DEVICE: (True, True),
}
"""Copy kind -> (source is device memory, destination is device memory)."""


@dataclass(slots=True, eq=False)
class Block:
    """One allocation. ``device`` is -1 for host memory, ``family`` the pair of functions it belongs to (``rt`` or
    ``dvpp``)."""

    address: int
    size: int
    device: int
    family: str
    site: str
    data: Array
    pages: mmap.mmap | None
    freed_at: str = ""

    @property
    def place(self) -> str:
        return "host" if self.device == HOST else f"device {self.device}"

    def view(self, address: int, size: int) -> Array:
        """The bytes ``address .. address + size``, which keep the memory alive."""
        start = address - self.address
        return self.data[start : start + size]


class Memory:
    """All memory of a process. ``capacity`` gives each device's bytes; ``unified``: host code may touch device memory
    (chips that run the program themselves), so copy directions are not told apart."""

    def __init__(self, capacity: dict[int, int], unified: bool = False) -> None:
        self.capacity = capacity
        self.unified = unified
        self.used = dict.fromkeys((*capacity, HOST), 0)
        self._blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        self._freed: deque[Block] = deque()
        self._freed_bytes = 0
        self._lent: dict[int, tuple[int, Any]] = {}
        self._lent_bytes = 0
        self._lock = threading.RLock()

    def allocate(self, size: int, device: int = HOST, family: str = "rt") -> int:
        """Address of ``size`` new bytes, a multiple of 64.

        Raises ``DeviceFault``: ACL_ERROR_INVALID_PARAM for sizes below 1, ACL_ERROR_RT_MEMORY_ALLOCATION when the device
        is full.
        """
        if size <= 0:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Memory of {size} bytes was asked for.")
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        with self._lock:
            room = self.capacity.get(device)
            if room is not None and self.used[device] + rounded > room:
                raise self._full(size, device, room)
            data, pages = _bytes(rounded)
            address = int(data.__array_interface__["data"][0])
            block = Block(address, size, device, family, call_site(), data, pages)
            self._blocks[address] = block
            insort(self._starts, address)
            self.used[device] += rounded
        return address

    def reserve(self, size: int, device: int) -> None:
        """Take ``size`` bytes of a device's capacity that have no address (weights and workspace of a model). Raises
        ``DeviceFault`` when they do not fit."""
        with self._lock:
            room = self.capacity[device]
            if self.used[device] + size > room:
                raise self._full(size, device, room)
            self.used[device] += size

    def give_back(self, size: int, device: int) -> None:
        """Undo ``reserve``."""
        with self._lock:
            self.used[device] -= size

    def free(self, address: int, host: bool, family: str = "rt") -> None:
        """Give a block back. Raises ``DeviceFault`` for what is no block's beginning, was freed before, or belongs to
        another function (host memory, image memory)."""
        with self._lock:
            block = self._blocks.get(address)
            if block is None:
                raise self._cannot_free(address)
            if (block.device == HOST) != host or block.family != family:
                raise DeviceFault(
                    "ACL_ERROR_RT_PARAM_INVALID",
                    f"Address {address:#x} is {_belongs(block)} and was given to the function that frees other memory.",
                    fix=f"Free it with {_frees(block)}.",
                    where=(f"allocated at {block.site}",),
                )
            self._release(block, call_site())

    def release_device(self, device: int) -> list[Block]:
        """Free everything on ``device`` (a reset does); the blocks that were still there."""
        with self._lock:
            left = [block for block in self._blocks.values() if block.device == device]
            for block in left:
                self._release(block, f"reset of device {device}")
        return left

    def live(self) -> list[Block]:
        """Blocks not freed yet."""
        with self._lock:
            return list(self._blocks.values())

    def lend(self, owner: Any, address: int, size: int) -> None:
        """Remember that ``address`` is memory of the Python object ``owner``, so that ranges can be checked.

        Programs often pass temporaries; the most recent objects stay alive here until others push them out.
        """
        with self._lock:
            before = self._lent.pop(address, None)
            self._lent[address] = (size, owner)
            self._lent_bytes += size - (before[0] if before is not None else 0)
            while len(self._lent) > 1 and (len(self._lent) > _LENT or self._lent_bytes > _LENT_BYTES):
                self._lent_bytes -= self._lent.pop(next(iter(self._lent)))[0]

    def find(self, address: int) -> Block | None:
        """The live block that ``address`` lies in."""
        block = self._blocks.get(address)
        if block is not None:
            return block
        with self._lock:
            index = bisect_right(self._starts, address) - 1
            if index < 0:
                return None
            block = self._blocks[self._starts[index]]
        return block if address < block.address + len(block.data) else None

    def check(self, address: int, size: int, what: str) -> Block | None:
        """The block that holds ``size`` bytes from ``address``, None for memory that is not ours.

        Raises ``DeviceFault`` when the range leaves its block, was freed, or is no memory at all.
        """
        block = self._blocks.get(address) or self.find(address)
        if block is not None:
            if address + size > block.address + block.size:
                raise self._outside(block, address, size, what)
            return block
        if address <= 0:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The {what} is a null pointer.")
        stale = self._stale(address)
        if stale is not None:
            raise DeviceFault(
                "ACL_ERROR_RT_PARAM_INVALID",
                f"The {what} {address:#x} points into memory that was freed ({stale.size} bytes, {stale.place}).",
                cause="Use after free.",
                where=(f"allocated at {stale.site}", f"freed at {stale.freed_at}"),
            )
        lent = self._lent.get(address)
        if lent is not None:
            if size > lent[0]:
                raise DeviceFault(
                    "ACL_ERROR_RT_PARAM_INVALID",
                    f"The {what} covers {size} bytes of a Python object that has {lent[0]}.",
                    cause="The size passed is larger than the array or bytes object the pointer was made from.",
                )
            return None
        if not _mapped(address, size):
            raise DeviceFault(
                "ACL_ERROR_RT_PARAM_INVALID",
                f"The {what} {address:#x} ({size} bytes) is no memory of this process.",
                cause="The pointer was made from an object that no longer exists, or is not a pointer.",
            )
        return None

    def holder(self, *addresses: int) -> tuple[Any, ...]:
        """The objects whose memory the addresses are: keeping them keeps the memory (asynchronous copies do)."""
        found = []
        for address in addresses:
            block = self.find(address)
            found.append(block.data if block is not None else self._lent.get(address))
        return tuple(found)

    def array(self, address: int, size: int, what: str) -> Array:
        """``size`` bytes from ``address`` as a writable uint8 array over the memory itself; checked."""
        block = self.check(address, size, what)
        if block is not None:
            return block.view(address, size)
        made: Array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        return made

    def check_copy(self, target: int, room: int, source: int, size: int, kind: int) -> None:
        """Raise ``DeviceFault`` for a copy that the device would refuse or that would corrupt memory."""
        if size > room:
            raise DeviceFault(
                "ACL_ERROR_INVALID_PARAM",
                f"{size} bytes do not fit the destination's {room}.",
                fix="Pass the destination's real size as dest_max.",
            )
        if size < 0 or (kind not in DIRECTIONS and kind != DEFAULT):
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A copy of {size} bytes of kind {kind} is not possible.")
        ends = (self.check(source, size, "source"), self.check(target, size, "destination"))
        if self.unified or kind == DEFAULT:
            return
        wanted = DIRECTIONS[kind]
        for block, on_device, name in zip(ends, wanted, ("source", "destination"), strict=True):
            if (block is not None and block.device != HOST) == on_device:
                continue
            place = "host memory" if block is None else f"{block.place} memory"
            raise DeviceFault(
                "ACL_ERROR_INVALID_PARAM" if block is None else "ACL_ERROR_RT_PARAM_INVALID",
                f"The copy's kind says that the {name} is {'device' if on_device else 'host'} memory; it is {place}.",
                fix=f"Pass kind {_kind(ends)}.",
                where=() if block is None else (f"allocated at {block.site}",),
            )

    def copy(self, target: int, room: int, source: int, size: int, kind: int) -> None:
        """Copy, checked."""
        self.check_copy(target, room, source, size, kind)
        ctypes.memmove(target, source, size)

    def fill(self, target: int, room: int, value: int, size: int) -> None:
        """Set ``size`` bytes to the lowest byte of ``value``, checked."""
        self.check_fill(target, room, size)
        ctypes.memset(target, value & 0xFF, size)

    def check_fill(self, target: int, room: int, size: int) -> None:
        if size > room or size < 0:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{size} bytes do not fit the destination's {room}.")
        self.check(target, size, "destination")

    def _release(self, block: Block, site: str) -> None:
        del self._blocks[block.address]
        del self._starts[bisect_right(self._starts, block.address) - 1]
        self.used[block.device] -= len(block.data)
        block.freed_at = site
        if block.pages is not None and _ADVICE is not None:
            block.pages.madvise(_ADVICE)
        else:
            self._freed_bytes += len(block.data)
        self._freed.append(block)
        while len(self._freed) > _REMEMBERED or self._freed_bytes > _REMEMBERED_BYTES:
            gone = self._freed.popleft()
            if gone.pages is None or _ADVICE is None:
                self._freed_bytes -= len(gone.data)

    def _stale(self, address: int) -> Block | None:
        with self._lock:
            for block in self._freed:
                if block.address <= address < block.address + len(block.data):
                    return block
        return None

    def _full(self, size: int, device: int, room: int) -> DeviceFault:
        largest = sorted((b for b in self._blocks.values() if b.device == device), key=lambda b: -b.size)[:3]
        return DeviceFault(
            "ACL_ERROR_RT_MEMORY_ALLOCATION",
            f"{size} bytes do not fit device {device}: {self.used[device]} of {room} are in use.",
            cause="The device's memory is exhausted." if largest else "The request is larger than the device's memory.",
            fix="Free what is not needed, or choose a chip with more memory (ASC_SOC).",
            where=[f"{block.size} bytes allocated at {block.site}" for block in largest],
        )

    def _outside(self, block: Block, address: int, size: int, what: str) -> DeviceFault:
        return DeviceFault(
            "ACL_ERROR_RT_PARAM_INVALID",
            f"The {what} covers {size} bytes from offset {address - block.address} of a block of {block.size} bytes "
            f"({block.place}).",
            cause="Out of bounds.",
            where=(f"allocated at {block.site}",),
        )

    def _cannot_free(self, address: int) -> DeviceFault:
        stale = self._stale(address)
        if stale is not None:
            return DeviceFault(
                "ACL_ERROR_RT_PARAM_INVALID",
                f"Address {address:#x} was freed before ({stale.size} bytes, {stale.place}).",
                cause="Double free.",
                where=(f"allocated at {stale.site}", f"freed at {stale.freed_at}"),
            )
        inside = self.find(address)
        if inside is not None:
            return DeviceFault(
                "ACL_ERROR_RT_PARAM_INVALID",
                f"Address {address:#x} is offset {address - inside.address} of a block, not its beginning.",
                where=(f"allocated at {inside.site}",),
            )
        name = "ACL_ERROR_INVALID_PARAM" if address <= 0 else "ACL_ERROR_RT_PARAM_INVALID"
        return DeviceFault(name, f"Address {address:#x} was never allocated.")


def _bytes(size: int) -> tuple[Array, mmap.mmap | None]:
    """Fresh memory at an aligned address."""
    if size >= _PAGED:
        pages = mmap.mmap(-1, size)
        return np.frombuffer(pages, np.uint8), pages
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -int(raw.__array_interface__["data"][0]) % ALIGNMENT
    return raw[start : start + size], None


def _belongs(block: Block) -> str:
    return f"{'image' if block.family == 'dvpp' else block.place} memory"


def _frees(block: Block) -> str:
    if block.family == "dvpp":
        return "acl.media.dvpp_free"
    return "acl.rt.free_host" if block.device == HOST else "acl.rt.free"


def _kind(ends: tuple[Block | None, Block | None]) -> str:
    pair = tuple(block is not None and block.device != HOST for block in ends)
    number = next(kind for kind, wanted in DIRECTIONS.items() if wanted == pair)
    names = ("HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE")
    return f"{number} (ACL_MEMCPY_{names[number]})"


_LIBC: Any = None


def _mapped(address: int, size: int) -> bool:
    """False when a page of the range is certainly not mapped (asked of the system; True where it cannot be asked)."""
    global _LIBC
    if _LIBC is None:
        try:
            _LIBC = ctypes.CDLL(None, use_errno=True).msync
        except (OSError, AttributeError, TypeError):
            _LIBC = False
    if not _LIBC:
        return True
    page = mmap.PAGESIZE
    start = address & ~(page - 1)
    length = address + max(size, 1) - start
    return address < 1 << 63 and _LIBC(ctypes.c_void_p(start), ctypes.c_size_t(length), 1) == 0  # MS_ASYNC
