"""What of Ascend's software is on a machine: driver, devices, CANN, torch and torch_npu, and whether they belong together.

Only looks at files and package metadata (and asks ``npu-smi`` for its version); imports nothing and needs nothing.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

MAX_BYTES: Final = 1 << 16  # of a version file
SMI_SECONDS: Final = 10
_DRIVER_FILE: Final = "usr/local/Ascend/driver/version.info"
_SMI_PLACES: Final = ("usr/local/sbin/npu-smi", "usr/local/bin/npu-smi", "usr/bin/npu-smi", "usr/sbin/npu-smi")
_CANN_VARIABLES: Final = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_CANN_PLACES: Final = (
    "usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann", "usr/local/Ascend/latest",
    "usr/local/Ascend/nnrt/latest",
)  # fmt: skip
# files that tell a CANN version, in order of trust, and where in them it stands
_CANN_FILES: Final = (
    ("*/ascend_toolkit_install.info", r"^version=(\S+)"),
    ("ascend_toolkit_install.info", r"^version=(\S+)"),
    ("*/ascend_nnrt_install.info", r"^version=(\S+)"),
    ("version.cfg", r"_(?:running|upgrade|installed)_version=\[[^:\]]*:([^\]]+)\]"),
    ("*/version.info", r"^version_dir=(\S+)"),
    ("version.info", r"^[Vv]ersion=(\S+)"),
)

VersionOf = Callable[[str], "str | None"]


def driver(root: Path) -> dict[str, Any]:
    """Driver version, the devices the kernel shows and what ``npu-smi`` says its version is."""
    smi = next((root / place for place in _SMI_PLACES if (root / place).is_file()), None)
    version = _find(root / _DRIVER_FILE, r"^Version=(\S+)")
    devices = sorted(p.name for p in _glob(root / "dev", "davinci[0-9]*"))
    return {
        "found": version is not None or smi is not None or bool(devices),
        "version": version,
        "npu_smi": str(smi) if smi else None,
        "npu_smi_version": _ask(smi) if smi else None,
        "devices": devices,
    }


def _ask(smi: Path) -> str | None:
    try:
        done = subprocess.run([str(smi), "info"], capture_output=True, text=True, timeout=SMI_SECONDS, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"Version:\s*(\S+)|npu-smi\s+v?(\d\S*)", done.stdout[:MAX_BYTES])
    return (found[1] or found[2]) if found else None


def cann(root: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """CANN's version and folder, from the environment variables its set_env.sh sets or its usual places."""
    places = [(Path(environment[name]), name) for name in _CANN_VARIABLES if environment.get(name)]
    places += [(root / place, "usual place") for place in _CANN_PLACES]
    places += [(path, "usual place") for path in sorted(_glob(root / "usr/local/Ascend", "cann-*"), reverse=True)]
    for folder, told_by in places:
        if not folder.is_dir():
            continue
        for pattern, expression in _CANN_FILES:
            for file in sorted(_glob(folder, pattern)):
                version = _find(file, expression)
                if version:
                    return _cann(version, folder, file, told_by)
        if told_by in _CANN_VARIABLES:
            return _cann(None, folder, None, told_by)
    return {"found": False, "version": None, "path": None, "file": None, "told_by": None, "active": False}


def _cann(version: str | None, folder: Path, file: Path | None, told_by: str) -> dict[str, Any]:
    return {
        "found": True,
        "version": version,
        "path": str(folder),
        "file": str(file) if file else None,
        "told_by": told_by,
        "active": told_by in _CANN_VARIABLES,
    }


def torch(version_of: VersionOf, cann_version: str | None) -> dict[str, Any]:
    """Versions of torch and torch_npu; ``pair`` and ``cann_pair`` say ``yes``, ``no`` or ``unknown``, ``text`` why."""
    plain, npu = version_of("torch"), version_of("torch-npu") or version_of("torch_npu")
    facts: dict[str, Any] = {
        "torch": plain,
        "torch_npu": npu,
        "pair": "unknown",
        "cann_pair": "unknown",
        "needs_cann": None,
    }
    if npu is None:
        return {
            **facts,
            "text": "torch_npu is not installed." if plain else "Neither torch nor torch_npu is installed.",
        }
    if plain is None:
        return {**facts, "pair": "no", "text": f"torch_npu {npu} needs torch {_release(npu)}, which is not installed."}
    fits = _release(plain) == _release(npu)
    facts["pair"] = "yes" if fits else "no"
    text = (
        f"torch {plain} and torch_npu {npu} belong together."
        if fits
        else f"torch_npu {npu} is built for torch {_release(npu)}, but torch {plain} is installed."
    )
    needed = _pairs().get(npu.partition("+")[0])
    facts["needs_cann"] = needed
    if needed and cann_version:
        suits = _suits(cann_version, needed)
        facts["cann_pair"] = "yes" if suits else "no"
        text += f" It was released for CANN {needed}" + (
            ", which is installed." if suits else f"; CANN {cann_version} is installed."
        )
    elif needed:
        text += f" It was released for CANN {needed}."
    return {**facts, "text": text}


def _release(version: str) -> str:
    """``2.1.0`` of ``2.1.0+cpu``, ``2.1.0.post3`` or ``2.1.0rc1``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return ".".join((found[0] if found else version).split(".")[:3])


def _suits(installed: str, needed: str) -> bool:
    """Whether CANN ``installed`` is ``needed`` (8.0.RC2) or a later build of it (8.0.RC2.beta1, 9.1.2 for 9.1)."""
    have, want = (re.split(r"[.\-]", v.lower()) for v in (installed, needed))
    return have[: len(want)] == want


def _pairs() -> dict[str, str]:
    """torch_npu version -> CANN version it was released for."""
    file = resources.files("asc_devkit.check") / "facts" / "torch_npu.csv"
    return {row["torch_npu"]: row["cann"] for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines())}


def _find(file: Path, expression: str) -> str | None:
    try:
        with file.open(encoding="utf-8", errors="replace") as handle:
            found = re.search(expression, handle.read(MAX_BYTES), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []
