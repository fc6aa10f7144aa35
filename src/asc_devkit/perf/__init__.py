"""How long each operator of a compiled graph takes on a chip, why, and how much memory the graph needs.

``estimate`` prices a GE graph (architecture.md, "The IR" 2); ``perf.memory.plan`` lays its values out in device memory.
"""

from asc_devkit.perf.pricing import estimate
from asc_devkit.perf.result import Estimate, OpTime, Span

__all__ = ["Estimate", "OpTime", "Span", "estimate"]
