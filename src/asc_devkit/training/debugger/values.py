"""What is kept of a tensor: statistics in few passes, computed once per tensor, read off the device only when they are
written."""

from __future__ import annotations

import math
import weakref
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

KEYS: Final = ("Max", "Min", "Mean", "Norm")
MAX_TEXT: Final = 200
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 64


@dataclass
class Pending:
    """A tensor's row of dump.json whose numbers still are tensors. ``data_name``: the file its elements are in."""

    label: str
    dtype: str
    shape: list[int]
    requires_grad: bool
    numbers: tuple[Any, ...] | None
    digest: str = ""
    data_name: str = ""

    def row(self, values: tuple[float, ...] | None) -> dict[str, Any]:
        """The row as JSON data; NaN and infinities as text, as the vendor's tool writes them."""
        found: dict[str, Any] = {"type": "torch.Tensor", "dtype": self.dtype, "shape": self.shape}
        if values is not None:
            found |= {key: number(value) for key, value in zip(KEYS, values, strict=True)}
            if "int" in self.dtype or "bool" in self.dtype:
                found |= {"Max": int(values[0]), "Min": int(values[1]), "Mean": None, "Norm": None}
        else:
            found |= dict.fromkeys(KEYS)
        found["requires_grad"] = self.requires_grad
        if self.digest:
            found["md5"] = self.digest
        if self.data_name:
            found["data_name"] = self.data_name
        return found


def number(value: float) -> Any:
    """A float as JSON can hold it."""
    return value if value - value == 0 else str(value)


@dataclass
class Measured:
    """Statistics by tensor object; a tensor changed in place (another version) is measured again."""

    known: dict[int, tuple[Any, int, tuple[Any, ...] | None]] = field(default_factory=dict)

    def of(self, tensor: Any) -> tuple[Any, ...] | None:
        """Max, Min, Mean, Norm as 0-dim tensors; None for tensors without numbers (empty, meta, quantised)."""
        key = id(tensor)
        found = self.known.get(key)
        version = tensor._version
        if found is not None and found[0]() is tensor and found[1] == version:
            return found[2]
        numbers = measure(tensor)
        self.known[key] = (weakref.ref(tensor), version, numbers)
        return numbers

    def clear(self) -> None:
        self.known.clear()


def measure(tensor: Any) -> tuple[Any, ...] | None:
    """Max, Min, Mean and L2 norm of ``tensor``, as 0-dim tensors on its device: nothing here waits for a device."""
    if tensor.numel() == 0 or tensor.is_meta or tensor.is_quantized or tensor.is_sparse:
        return None
    data = tensor.detach()
    if data.device.type == "cpu" and data.dtype is torch.float32 and data.is_contiguous():
        flat = data.numpy().reshape(-1)  # nobody to wait for, and numpy takes two thirds of the time
        with np.errstate(all="ignore"):  # overflow is answered below, NaN is a result like any other
            high, low, squares = float(flat.max()), float(flat.min()), float(np.dot(flat, flat))
        if math.isinf(squares) and math.isfinite(high) and math.isfinite(low):
            squares = float(np.sum(np.square(flat, dtype=np.float64)))
        return high, low, float(flat.mean()), math.sqrt(squares) if squares >= 0 else squares
    if data.is_complex():
        data = torch.view_as_real(data)
    if data.dtype is torch.bool:
        data = data.to(torch.uint8)
    low, high = torch.aminmax(data)  # type: ignore[assignment]
    if not data.is_floating_point() or data.element_size() < 4:
        data = data.to(torch.float32)
    return high, low, data.mean(), torch.linalg.vector_norm(data)


def read(pending: list[tuple[Any, ...]]) -> list[tuple[float, ...]]:
    """The numbers of many tensors at once: one wait for the device instead of one for each."""
    device = [numbers for numbers in pending if isinstance(numbers[0], torch.Tensor)]
    values = iter(_read(device))
    return [next(values) if isinstance(numbers[0], torch.Tensor) else numbers for numbers in pending]


def _read(pending: list[tuple[Any, ...]]) -> list[tuple[float, ...]]:
    if not pending:
        return []
    flat = [value for numbers in pending for value in numbers]
    if any(value.dtype in (torch.int64, torch.float64) for value in flat):
        texts = [float(value) for value in flat]
    else:
        texts = torch.stack([value.to(torch.float32) for value in flat]).tolist()
    width = len(KEYS)
    return [tuple(texts[i : i + width]) for i in range(0, len(texts), width)]


def digest(tensor: Any) -> str:
    """CRC-32 of the elements' bytes (what the vendor's summary mode "md5" writes)."""
    data = tensor.detach().contiguous().cpu()
    raw = data.view(torch.uint8) if data.dim() else data.reshape(1).view(torch.uint8)
    return f"{zlib.crc32(raw.numpy().tobytes()):08x}"


def plain(value: Any, depth: int = 0) -> Any:
    """JSON data for an argument that is no tensor."""
    if value is None:
        return None
    if isinstance(value, (bool, int, float, str)):
        shown: Any = number(float(value)) if isinstance(value, float) else value
        return {"type": type(value).__name__, "value": shown[:MAX_TEXT] if isinstance(shown, str) else shown}
    if isinstance(value, torch.Size):
        return {"type": "torch.Size", "value": list(value)}
    if isinstance(value, (torch.dtype, torch.device)):
        return {"type": f"torch.{type(value).__name__}", "value": str(value)}
    if isinstance(value, slice):
        return {
            "type": "slice",
            "value": [value.start, value.stop, value.step] if _plain_slice(value) else str(value)[:MAX_TEXT],
        }
    return {"type": type(value).__name__, "value": str(value)[:MAX_TEXT] if depth < MAX_DEPTH else ""}


def _plain_slice(value: slice) -> bool:
    return all(isinstance(part, (int, type(None))) for part in (value.start, value.stop, value.step))
