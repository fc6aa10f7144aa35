"""The computer and the toolkit itself: what runs everything here, and which libraries it needs."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from functools import cache
from importlib import resources
from typing import Any, Final

from asc_devkit import __version__
from asc_devkit.doctor.findings import Finding, Section, State
from asc_devkit.doctor.machine import Machine
from asc_devkit.doctor.versions import at_least

LEAST_PYTHON: Final = "3.10"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*])?\s*(?:>=\s*([0-9][0-9.]*))?[^;]*(?:;(.*))?$")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
# imports each library and prints those that fail as JSON; a separate process, since a broken library may take it down
_PROBE: Final = """
import importlib, json, sys
failed = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps(failed))
"""


def computer(machine: Machine) -> Section:
    """Python, operating system, processor and memory."""
    fine = at_least(machine.python, LEAST_PYTHON)
    release = machine.fields(machine.path("/etc/os-release"))
    system = release.get("pretty_name", "").strip("\"'") or platform.system()
    return Section(
        "Computer",
        (
            Finding(
                "Python",
                State.OK if fine else State.WRONG,
                machine.python,
                note="" if fine else f"{LEAST_PYTHON} or later is needed",
                fix="" if fine else "Install a newer Python.",
            ),
            Finding("System", State.OK, f"{system}, {platform.machine()}"),
            _processor(machine),
            _memory(machine),
        ),
    )


def _processor(machine: Machine) -> Finding:
    text = machine.read(machine.path("/proc/cpuinfo"))
    model = re.search(r"^(?:model name|Hardware|Processor)\s*:\s*(.+)$", text, re.MULTILINE)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name = model.group(1).strip() if model else platform.processor() or platform.machine()
    return Finding("Processor", State.OK, f"{name}, {usable} cores usable")


def _memory(machine: Machine) -> Finding:
    text = machine.read(machine.path("/proc/meminfo"))
    found = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d{1,15}) kB", text, re.MULTILINE))
    if "MemTotal" not in found:
        return Finding("Memory", State.DOUBT, "unknown")
    total, free = int(found["MemTotal"]) / 2**20, int(found.get("MemAvailable", 0)) / 2**20
    return Finding("Memory", State.OK, f"{total:.1f} GiB, {free:.1f} GiB available")


def toolkit(machine: Machine) -> Section:
    """asc-devkit, the libraries it cannot do without, and its extras with what each missing one would enable."""
    required, extras = _requirements(machine)
    failures = _import_failures(machine, [name for name in required if machine.version(name)])
    findings = [Finding("asc-devkit", State.OK, __version__)]
    findings += [_library(machine, name, least, failures) for name, least in required.items()]
    findings += [_extra(machine, extra, members) for extra, members in extras.items()]
    return Section("asc-devkit", tuple(findings))


@cache
def _facts() -> Any:
    return json.loads(resources.files("asc_devkit.doctor").joinpath("data/libraries.json").read_text(encoding="utf-8"))


def _requirements(machine: Machine) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Library -> least version, for the toolkit itself and for each extra, from the installed package's metadata."""
    required: dict[str, str] = {}
    extras: dict[str, dict[str, str]] = {name: {} for name in _facts()["extras"]}
    for line in machine.requirements():
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        name, least, marker = found.group(1).lower(), found.group(2) or "", found.group(3) or ""
        extra = _EXTRA.search(marker)
        if extra:
            extras.setdefault(extra.group(1), {})[name] = least
        elif not marker:
            required[name] = least
    return required or dict.fromkeys(_facts()["purpose"], ""), {k: v for k, v in extras.items() if v}


def _import_failures(machine: Machine, libraries: list[str]) -> dict[str, str]:
    modules = {_module(name): name for name in libraries}
    text = machine.run([sys.executable, "-c", _PROBE, *modules], 60.0) if modules else "{}"
    try:
        failed = json.loads(text or "")
    except ValueError:
        return {}
    return {modules[module]: str(why) for module, why in failed.items() if module in modules}


def _module(library: str) -> str:
    return str(_facts()["modules"].get(library, library.replace("-", "_")))


def _library(machine: Machine, name: str, least: str, failures: dict[str, str]) -> Finding:
    version = machine.version(name)
    purpose = _facts()["purpose"].get(name, "")
    wanted = f'"{name}>={least}"' if least else name
    fix = f"pip install --upgrade {wanted}"
    if version is None:
        return Finding(name, State.WRONG, "not installed", note=f"needed for {purpose}" if purpose else "", fix=fix)
    if least and not at_least(version, least):
        return Finding(name, State.WRONG, version, note=f"{least} or later is needed", fix=fix)
    if name in failures:
        return Finding(name, State.WRONG, version, note=f"cannot be imported: {failures[name]}", fix=fix)
    return Finding(name, State.OK, version, note=purpose)


def _extra(machine: Machine, extra: str, members: dict[str, str]) -> Finding:
    """One line per extra: complete, or which members are missing and what they would enable."""
    enables = _facts()["extras"].get(extra, "")
    versions = {name: machine.version(name) for name in members}
    missing = [name for name, version in versions.items() if version is None]
    if not missing:
        return Finding(f"extra [{extra}]", State.OK, "complete", note=enables)
    return Finding(
        f"extra [{extra}]",
        State.MISSING,
        f"{', '.join(missing)} not installed",
        note=f"enables {enables}" if enables else "",
        fix=f'pip install "asc-devkit[{extra}]"',
    )
