"""Own error or inherited: each operator executed again on the target's *own* inputs, in full precision. Used by compare."""

from asc_devkit.precision.local.localise import LocalRow, localise
from asc_devkit.precision.local.reexecute import Reexecution, reexecute

__all__ = ["LocalRow", "Reexecution", "localise", "reexecute"]
