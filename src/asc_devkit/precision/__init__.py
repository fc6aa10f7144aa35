"""How far two tensors are apart, where, and why. Used by ``check`` and by the comparing commands."""

from asc_devkit.precision.accumulate import Accumulator, compare
from asc_devkit.precision.metrics import Metrics

__all__ = ["Accumulator", "Metrics", "compare"]
