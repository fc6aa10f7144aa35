"""torch and torch_npu: which are installed and whether they, Python and CANN belong together."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Final

from asc_devkit.doctor.ascend import Package
from asc_devkit.doctor.findings import Finding, Section, State
from asc_devkit.doctor.machine import Machine
from asc_devkit.doctor.versions import base, numbers, same_line, same_release

_OTHERS: Final = ("torchvision", "mindspore", "mindie", "vllm-ascend", "onnxruntime-cann")


def frameworks(machine: Machine, cann: Package | None) -> Section:
    """torch, torch_npu and other frameworks found, and the pairs they form."""
    torch, torch_npu = machine.version("torch"), machine.version("torch-npu")
    findings = [
        Finding("torch", State.OK, torch) if torch else Finding("torch", State.MISSING, "not installed"),
        Finding("torch_npu", State.OK, torch_npu)
        if torch_npu
        else Finding("torch_npu", State.MISSING, "not installed"),
    ]
    if torch_npu:
        findings.append(_with_torch(torch_npu, torch))
        findings.append(_with_cann(torch_npu, cann))
        findings += _with_python(torch_npu, machine.python)
    versions = {name: machine.version(name) for name in _OTHERS}
    findings += [Finding(name, State.OK, version) for name, version in versions.items() if version]
    return Section("Frameworks", tuple(findings))


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    text = resources.files("asc_devkit.doctor").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _with_torch(torch_npu: str, torch: str | None) -> Finding:
    """torch_npu x.y.z.postN is built against torch x.y.z and no other."""
    name, wanted = "torch_npu and torch", base(torch_npu)
    if torch is None:
        note = f"torch_npu {torch_npu} needs torch {wanted}"
        return Finding(name, State.WRONG, "no torch", note=note, fix=f"pip install torch=={wanted}")
    pair = f"torch_npu {torch_npu}, torch {torch}"
    if base(torch) == wanted:
        return Finding(name, State.OK, pair, note="belong together")
    fitting = next((row["torch_npu"] for row in _rows("torch_npu") if row["torch"] == base(torch)), "")
    other = f" or pip install torch-npu=={fitting}" if fitting else ""
    return Finding(
        name,
        State.WRONG,
        pair,
        note=f"torch_npu {torch_npu} is built for torch {wanted}",
        fix=f"pip install torch=={wanted}{other}",
    )


def _with_cann(torch_npu: str, cann: Package | None) -> Finding:
    name = "torch_npu and CANN"
    wanted = [row["cann"] for row in _rows("torch_npu") if row["torch_npu"] == torch_npu]
    if cann is None:
        note = f"it is released with CANN {wanted[0]}" if wanted else "which CANN it wants is not in the table"
        return Finding(name, State.DOUBT, "no CANN found", note=note)
    pair = f"torch_npu {torch_npu}, CANN {cann.version}"
    if not wanted:
        return Finding(name, State.OK, pair, note="whether they belong together is unknown: not in the vendor's table")
    if any(same_release(cann.version, version) for version in wanted):
        return Finding(name, State.OK, pair, note="belong together")
    if any(same_line(cann.version, version) for version in wanted):
        return Finding(name, State.OK, pair, note=f"released with CANN {wanted[0]}; yours is a patch of the same line")
    fitting = [r["torch_npu"] for r in _rows("torch_npu") if same_release(r["cann"], cann.version)]
    same_torch = [version for version in fitting if base(version) == base(torch_npu)]
    fix = f"Install CANN {wanted[0]}"
    if same_torch or fitting:
        fix += f", or pip install torch-npu=={(same_torch or fitting)[0]}"
    return Finding(
        name, State.DOUBT, pair, note=f"torch_npu {torch_npu} is released with CANN {wanted[0]}", fix=f"{fix}."
    )


def _with_python(torch_npu: str, python: str) -> list[Finding]:
    supported = next((r["python"].split() for r in _rows("torch_python") if r["torch"] == base(torch_npu)), None)
    short = ".".join(map(str, numbers(python)[:2]))
    if supported is None or short in supported:
        return []
    note = f"wheels exist for Python {', '.join(supported)}"
    return [Finding("torch_npu and Python", State.DOUBT, f"Python {short}", note=note)]
