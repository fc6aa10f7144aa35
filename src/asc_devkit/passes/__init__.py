"""Graph passes under the vendor's names. Entry points: ``optimise``, ``Switches``, ``FusionReport``."""

from asc_devkit.passes.dead_code import remove_unused
from asc_devkit.passes.declare import GRAPH, UB, Pass
from asc_devkit.passes.pipeline import PassContext, all_passes, clean, optimise
from asc_devkit.passes.report import FusionReport, PassCount, Rewrite
from asc_devkit.passes.switches import Switches

__all__ = [
    "GRAPH",
    "UB",
    "FusionReport",
    "Pass",
    "PassContext",
    "PassCount",
    "Rewrite",
    "Switches",
    "all_passes",
    "clean",
    "optimise",
    "remove_unused",
]
