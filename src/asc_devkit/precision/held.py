"""The element type whose values files hold: tensors of an NPU are float16 or bfloat16 and often reach a file as float32.

Judged as float32 such a tensor fails on its last 13 (16) mantissa bits; what it shows is the rounding of the shorter type. One
tensor says little (a mask fits every type, a fault may shorten mantissas), so the type is that of most tensors of a dump.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from asc_devkit.errors import AscError
from asc_devkit.precision.sources import TensorRef

Array = np.ndarray[Any, Any]
SAMPLE: Final = 4096  # elements of a tensor
TENSORS: Final = 64  # of a dump that are looked at
DISTINCT: Final = 32  # values below this many fit in any type by chance: masks, counts, one-hot rows
_LOW_BITS: Final = {"bfloat16": 0xFFFF, "float16": 0x1FFF}  # of a float32's mantissa, beyond the shorter type's
_HALF_MAX: Final = 65504.0


def prevailing_type(refs: Iterable[TensorRef]) -> str:
    """``float16`` or ``bfloat16`` when half or more of the float32 tensors that can be told hold its values, or ``float32``."""
    told = [ref for ref in refs if ref.dtype == np.float32 and ref.size >= DISTINCT]
    votes: Counter[str] = Counter()
    for ref in told[:: max(1, len(told) // TENSORS)]:
        try:
            values = _telling(next(iter(ref.blocks(SAMPLE))))
        except (AscError, OSError, StopIteration):  # reported where the tensor is compared
            continue
        if len(np.unique(values)) >= DISTINCT:
            votes[next((name for name in _LOW_BITS if _fits(values, name)), "float32")] += 1
    if not votes:
        return "float32"
    name, count = votes.most_common(1)[0]
    return name if 2 * count >= votes.total() else "float32"


def holds(array: Array, name: str) -> bool:
    """Whether the first values of a float32 array are all values of the type ``name``."""
    if array.dtype != np.float32 or name not in _LOW_BITS:
        return False
    values = _telling(array.reshape(-1)[:SAMPLE])
    return values.size > 0 and _fits(values, name)


def _telling(block: Array) -> Array:
    flat = np.ascontiguousarray(block.reshape(-1))
    kept: Array = flat[np.isfinite(flat) & (flat != 0)]
    return kept


def _fits(values: Array, name: str) -> bool:
    if np.any(values.view(np.uint32) & _LOW_BITS[name]):
        return False
    return name == "bfloat16" or float(np.max(np.abs(values))) <= _HALF_MAX
