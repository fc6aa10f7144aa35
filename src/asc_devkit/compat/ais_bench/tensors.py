"""What programs hold in their hands: tensor descriptions, device tensors, and lists of times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.npu.numerics import Array

KEPT_TIMES: Final = 1_000_000


class InferError(AscError, RuntimeError):
    """Anything wrong with a call; also a ``RuntimeError``, which is what programs written for the device catch."""


class DataType(IntEnum):
    """Element types by the runtime's numbers; ``str`` is the spelling that programs print."""

    float32 = 0
    float16 = 1
    int8 = 2
    int32 = 3
    uint8 = 4
    int16 = 6
    uint16 = 7
    uint32 = 8
    int64 = 9
    uint64 = 10
    double64 = 11
    bool = 12
    bfloat16 = 27

    def __str__(self) -> str:
        return f"dtype.{self.name}"


@dataclass
class TensorDesc:
    """An input or output: ``shape`` has -1 on axes that gears leave open, ``size`` is the bytes of the largest gear and
    ``realsize`` those of the shape that is set; ``format`` is the runtime's number (0 NCHW, 1 NHWC, 2 ND)."""

    name: str
    datatype: DataType | int
    format: int
    shape: list[int]
    size: int
    realsize: int


class Times(list[Any]):
    """Times of runs in their order; the older half is dropped when a million have come together."""

    def note(self, item: object) -> None:
        if len(self) >= KEPT_TIMES:
            del self[: KEPT_TIMES // 2]
        self.append(item)


class Elapsed(float):
    """Milliseconds that also unpack into start and end: programs for older versions average them, programs for newer
    ones subtract the two."""

    span: tuple[float, float]

    def __new__(cls, start: float, end: float) -> Elapsed:
        made = super().__new__(cls, (end - start) * 1e3)
        made.span = (start * 1e3, end * 1e3)
        return made

    def __getitem__(self, index: int) -> float:
        return self.span[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self.span)

    def __len__(self) -> int:
        return 2


class MemorySummary:
    """Milliseconds that copies between host and device took, in this process (measured; host memory both ways)."""

    h2d: Final = Times()
    d2h: Final = Times()

    @staticmethod
    def get_h2d_time_list() -> Times:
        return MemorySummary.h2d

    @staticmethod
    def get_d2h_time_list() -> Times:
        return MemorySummary.d2h

    @staticmethod
    def reset() -> None:
        MemorySummary.h2d.clear()
        MemorySummary.d2h.clear()


class Tensor:
    """An array that lives on the host or on a device; ``numpy.array(tensor)`` needs it on the host."""

    def __init__(self, array: Any) -> None:
        self.data: Array = np.ascontiguousarray(_array(array))
        self.device: int | None = None

    @classmethod
    def on_device(cls, array: Array, device: int) -> Tensor:
        """A result that was computed there; nothing is copied."""
        made = cls.__new__(cls)
        made.data, made.device = array, device
        return made

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def dtype(self) -> DataType | int:
        return datatype(dtypes.of_numpy(self.data.dtype).acl)

    def to_device(self, device_id: int) -> None:
        """Copy to the device: what the program does to its array afterwards changes nothing there."""
        if self.device is None:
            started = time.perf_counter()
            self.data = self.data.copy()
            MemorySummary.h2d.note((time.perf_counter() - started) * 1e3)
        self.device = device_id

    def to_host(self) -> None:
        """Make readable for the program."""
        if self.device is not None:
            started = time.perf_counter()
            self.device = None
            MemorySummary.d2h.note((time.perf_counter() - started) * 1e3)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.device is not None:
            raise InferError(
                Problem(
                    "ASC4504",
                    f"The tensor lies on device {self.device} and cannot be read by the host.",
                    fix="Call to_host() first (convert_tensors_to_host for a list).",
                )
            )
        found = self.data if dtype is None else self.data.astype(dtype)
        return found.copy() if copy else found


def datatype(number: int) -> DataType | int:
    """The element type with this runtime number; numbers that have no name stay numbers."""
    return DataType(number) if number in DataType.__members__.values() else number


def host_array(feed: Any) -> Array:
    """The numbers of a feed: array, numpy scalar, torch tensor (by its ``numpy()``), or ``Tensor``."""
    return feed.data if isinstance(feed, Tensor) else _array(feed)


def _array(feed: Any) -> Array:
    if isinstance(feed, np.ndarray | np.generic):
        return np.asarray(feed)
    if isinstance(feed, Tensor):
        return feed.data
    if hasattr(feed, "detach"):  # torch, without importing it
        plain = feed.detach().cpu()
        if str(plain.dtype) == "torch.bfloat16":
            import ml_dtypes
            import torch

            return np.asarray(plain.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
        return np.asarray(plain.numpy())
    raise InferError(
        Problem(
            "ASC4501",
            f"An input is a {type(feed).__name__}; arrays, numpy scalars, torch tensors and device tensors are taken.",
            fix="numpy.asarray(...) it with the input's dtype.",
        )
    )
