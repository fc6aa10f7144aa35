"""Own error or inherited: each operator executed again on the target's *own* inputs, in full precision. Used by compare."""

from asc_devkit.precision.local.localise import LocalRow, localise
from asc_devkit.precision.local.model import ModelVerdict, OperatorVerdict, judge_model, load_model
from asc_devkit.precision.local.reexecute import Reexecution, reexecute

__all__ = [
    "LocalRow",
    "ModelVerdict",
    "OperatorVerdict",
    "Reexecution",
    "judge_model",
    "load_model",
    "localise",
    "reexecute",
]
