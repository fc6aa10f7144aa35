"""How far two tensors are apart. Used by ``check``."""

from asc_devkit.precision.metrics import Accumulator, Metrics, compare

__all__ = ["Accumulator", "Metrics", "compare"]
