"""``from ais_bench.infer.interface import InferSession``."""

from asc_devkit.compat.ais_bench.devices import MultiDeviceSession
from asc_devkit.compat.ais_bench.session import InferSession
from asc_devkit.compat.ais_bench.tensors import MemorySummary, Tensor

__all__ = ["InferSession", "MemorySummary", "MultiDeviceSession", "Tensor"]
