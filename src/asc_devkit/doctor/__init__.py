"""`asc doctor`: what is installed on a machine, what belongs together, what each missing part would enable.

A leaf that imports none of the other rooms, so that it still works when one of their libraries is broken.
"""

from asc_devkit.doctor.diagnose import diagnose
from asc_devkit.doctor.findings import Diagnosis, Finding, Section, State
from asc_devkit.doctor.machine import Machine, this_machine

__all__ = ["Diagnosis", "Finding", "Machine", "Section", "State", "diagnose", "this_machine"]
