"""How far two tensors are apart. A first metrics module; used by ``check``."""

from asc_devkit.precision.metrics import Metrics, compare

__all__ = ["Metrics", "compare"]
