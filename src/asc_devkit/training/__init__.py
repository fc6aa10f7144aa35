"""Accuracy of training (extra ``[torch]``): collect what a step computes, watch the state of training, compare runs.

``PrecisionDebugger`` writes the vendor's dump layout, which ``msprobe compare`` and ``asc compare`` read. ``Monitor``
follows weights, gradients, activations and optimiser state from step to step. ``install_as_msprobe`` lets programs
that import ``msprobe.pytorch`` run unchanged where the vendor's package is not installed.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asc_devkit.training.debugger.debugger import PrecisionDebugger as PrecisionDebugger
    from asc_devkit.training.monitor import Monitor as Monitor

__all__ = ["Monitor", "PrecisionDebugger", "install_as_msprobe"]


def __getattr__(name: str) -> Any:
    """Import on demand: the command line uses parts of this package that need no torch."""
    if name == "PrecisionDebugger":
        from asc_devkit.training.debugger.debugger import PrecisionDebugger

        return PrecisionDebugger
    if name == "Monitor":
        from asc_devkit.training.monitor import Monitor

        return Monitor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install_as_msprobe() -> bool:
    """Make ``from msprobe.pytorch import PrecisionDebugger`` give this one; False (and nothing done) where msprobe is
    installed."""
    if "msprobe" in sys.modules or importlib.util.find_spec("msprobe") is not None:
        return False
    package, pytorch = types.ModuleType("msprobe"), types.ModuleType("msprobe.pytorch")
    package.__path__ = []
    pytorch.PrecisionDebugger = __getattr__("PrecisionDebugger")  # type: ignore[attr-defined]
    pytorch.TrainerMon = __getattr__("Monitor")  # type: ignore[attr-defined]
    package.pytorch = pytorch  # type: ignore[attr-defined]
    sys.modules |= {"msprobe": package, "msprobe.pytorch": pytorch}
    return True
