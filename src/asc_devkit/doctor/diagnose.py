"""``diagnose``: all sections over one machine."""

from __future__ import annotations

from asc_devkit.doctor import ascend, host
from asc_devkit.doctor.findings import Diagnosis
from asc_devkit.doctor.frameworks import frameworks
from asc_devkit.doctor.machine import Machine, this_machine


def diagnose(machine: Machine | None = None) -> Diagnosis:
    """Look at ``machine`` (default: this one). Absent parts are findings, never errors."""
    subject = machine or this_machine()
    device, driver = ascend.device(subject)
    vendor, cann = ascend.cann(subject, driver)
    return Diagnosis((host.computer(subject), host.toolkit(subject), device, vendor, frameworks(subject, cann)))
