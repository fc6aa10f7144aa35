"""``diagnose``: what this machine offers the toolkit, what is missing, and what each missing part would enable.

Never fails because something is missing: that is what it reports.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from asc_devkit import __version__
from asc_devkit.check import ascend_install

SCHEMA: Final = "asc-devkit/doctor/1"
DISTRIBUTION: Final = "asc-devkit"
MIN_PYTHON: Final = (3, 10)
# what each extra of pyproject.toml is for
ENABLES: Final = {
    "lint": "checking the toolkit's own code (make lint)",
    "test": "running the toolkit's own tests (make test)",
    "train": "training the embedded example again (scripts/train_digits.py)",
}


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def diagnose(
    root: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
    version_of: Callable[[str], str | None] = installed_version,
) -> dict[str, Any]:
    """The whole picture as JSON data; ``root``, ``environment`` and ``version_of`` stand for the machine looked at."""
    env = os.environ if environment is None else environment
    libraries, extras = _requirements(version_of)
    cann = ascend_install.cann(root, env)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": DISTRIBUTION, "version": __version__, "path": str(Path(__file__).resolve().parent.parent)},
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "ok": sys.version_info >= MIN_PYTHON,
        },
        "system": {
            "os": _os_name(root),
            "kernel": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cpu": _cpu_name(root),
            "cpus": _cpus(),
            "memory_bytes": _memory(root),
        },
        "libraries": libraries,
        "extras": extras,
        "driver": ascend_install.driver(root),
        "cann": cann,
        "torch": ascend_install.torch(version_of, cann["version"]),
    }
    report["notes"] = _notes(report)
    return report


def _requirements(version_of: Callable[[str], str | None]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Required libraries and the extras with what is missing of each, from the toolkit's own metadata."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    libraries: list[dict[str, Any]] = []
    members: dict[str, list[str]] = {}
    for line in lines:
        name, wanted, extra = _parse(line)
        if extra:
            members.setdefault(extra, []).append(name)
        else:
            version = version_of(name)
            libraries.append({"name": name, "version": version, "wanted": wanted, "ok": _at_least(version, wanted)})
    extras = []
    for extra, names in sorted(members.items()):
        missing = [name for name in names if version_of(name) is None]
        extras.append({"name": extra, "enables": ENABLES.get(extra, ""), "missing": missing, "complete": not missing})
    return libraries, extras


def _parse(requirement: str) -> tuple[str, str, str]:
    """Name, version wish and extra of one line of package metadata (``numpy>=1.26; extra == "test"``)."""
    head, _, marker = requirement.partition(";")
    name = re.match(r"[A-Za-z0-9._\-]+", head.strip())
    extra = re.search(r"extra\s*==\s*[\"']([^\"']+)[\"']", marker)
    plain = name[0] if name else head.strip()
    return plain, re.sub(r"\[.*?\]|\s", "", head.strip()[len(plain) :]), extra[1] if extra else ""


def _at_least(version: str | None, wanted: str) -> bool:
    """Whether ``version`` meets every ``>=`` in ``wanted``, by its leading numbers."""
    if version is None:
        return False
    return all(_numbers(version) >= _numbers(least) for least in re.findall(r">=([^,]+)", wanted))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            return handle.read(ascend_install.MAX_BYTES)
    except OSError:
        return ""


def _os_name(root: Path) -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _text(root / "etc/os-release"), re.MULTILINE)
    return found[1] if found else platform.system()


def _cpu_name(root: Path) -> str:
    found = re.search(r"^(?:model name|Hardware|Model)\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _notes(report: dict[str, Any]) -> list[str]:
    """Sentences about what stands out, most important first."""
    notes = []
    if not report["python"]["ok"]:
        notes.append(
            f"Python {report['python']['version']} is too old: {'.'.join(map(str, MIN_PYTHON))} or later is needed."
        )
    wrong = [f"{x['name']} {x['version'] or '(missing)'}, {x['wanted']}" for x in report["libraries"] if not x["ok"]]
    if wrong:
        notes.append(f"Libraries to install or update: {'; '.join(wrong)}.")
    if report["torch"]["pair"] == "no" or report["torch"]["cann_pair"] == "no":
        notes.append(report["torch"]["text"])
    if report["cann"]["found"] and not report["cann"]["active"]:
        notes.append(
            f"CANN is installed but its environment is not set: source {report['cann']['path']}/set_env.sh first."
        )
    if not report["cann"]["found"] and not report["driver"]["found"]:
        notes.append("No Ascend hardware or software here: everything runs on the virtual NPU, which needs neither.")
    elif report["driver"]["found"] and not report["driver"]["devices"]:
        notes.append("The driver is installed, but the system shows no NPU (/dev/davinci*).")
    return notes
