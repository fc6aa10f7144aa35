"""The vendor's parts on this machine: NPU devices, driver, firmware, CANN, and whether driver and CANN fit.

Nothing here is needed by asc-devkit; absence is reported as such. Places and file layouts are those of the public CANN
installation guides (8.x: ``/usr/local/Ascend/ascend-toolkit/latest``, since 8.5: ``/usr/local/Ascend/cann``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asc_devkit.doctor.findings import Finding, Section, State
from asc_devkit.doctor.machine import Machine
from asc_devkit.doctor.versions import generation

_HOME_VARIABLES: Final = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_CANN_PLACES: Final = ("cann", "ascend-toolkit/latest", "latest", "cann-*", "ascend-toolkit/[0-9]*", "nnrt/latest")
_ARCHITECTURES: Final = ("aarch64-linux", "x86_64-linux", "arm64-linux", ".")
_NPU_SMI: Final = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/Ascend/driver/tools/npu-smi")


@dataclass(frozen=True)
class Package:
    """An installed driver or CANN: ``inner`` is its generation, ``fits`` the generations it declares to work with."""

    version: str
    home: str
    inner: str = ""
    fits: frozenset[str] = frozenset()


def device(machine: Machine) -> tuple[Section, Package | None]:
    """NPU devices, npu-smi, driver and firmware; also returns the driver."""
    driver = _driver(machine)
    return Section("NPU and driver", (_devices(machine), _npu_smi(machine), *_driver_findings(machine, driver))), driver


def _devices(machine: Machine) -> Finding:
    found = [p for p in machine.entries("/dev", "davinci*") if p.name[7:].isdigit()]
    if found:
        return Finding("NPU devices", State.OK, f"{len(found)} (/dev/davinci{found[0].name[7:]} ...)")
    return Finding("NPU devices", State.MISSING, "none", note="results here are simulated or estimated, never measured")


def _npu_smi(machine: Machine) -> Finding:
    places = [p for p in _NPU_SMI if machine.path(p).is_file()]
    program = machine.which("npu-smi") or (str(machine.path(places[0])) if places else None)
    if program is None:
        return Finding("npu-smi", State.MISSING, "not found", note="comes with the driver")
    text = machine.run([program, "info"], 15.0)
    if text is None:
        return Finding("npu-smi", State.DOUBT, program, note="`npu-smi info` fails", fix="See what it prints.")
    version = re.search(r"npu-smi\s+(?:v|V)?(\d[\w.]*)", text)
    # table rows "| 0  910B2 | OK | ...": number and name, then the health
    chips = re.findall(
        r"^\|\s*\d+\s+(\d{3}[A-Z][\w-]*)\s*\|?\s+(?:\|\s*)?(OK|Warning|Alarm|Critical|UNKNOWN|NA)", text, re.M
    )
    names = sorted({name for name, _ in chips})
    value = version.group(1) if version else "version unknown"
    if names:
        value += f", {len(chips)} chips: {', '.join(names)}"
    sick = [f"{name} {health}" for name, health in chips if health != "OK"]
    return Finding(
        "npu-smi",
        State.DOUBT if sick else State.OK,
        value,
        note=f"not healthy: {', '.join(sick)}" if sick else f"--soc Ascend{names[0]}" if len(names) == 1 else "",
    )


def _install_root(machine: Machine) -> str:
    """Where the driver was installed, /usr/local/Ascend unless the installer recorded another place."""
    recorded = machine.fields(machine.path("/etc/ascend_install.info")).get("driver_install_path_param", "")
    return recorded if recorded.startswith("/") and ".." not in recorded else "/usr/local/Ascend"


def _driver(machine: Machine) -> Package | None:
    home = f"{_install_root(machine)}/driver"
    fields = machine.fields(machine.path(f"{home}/version.info"))
    version = fields.get("package_version") or fields.get("version")
    return Package(version, home, generation(fields.get("innerversion", "")), _generations(fields)) if version else None


def _driver_findings(machine: Machine, driver: Package | None) -> tuple[Finding, ...]:
    if driver is None:
        return (Finding("Driver", State.MISSING, "not found", note="only running on a real NPU needs it"),)
    firmware = machine.fields(machine.path(f"{_install_root(machine)}/firmware/version.info"))
    version = firmware.get("package_version") or firmware.get("version")
    found = Finding("Driver", State.OK, driver.version, note=driver.home)
    return (found, Finding("Firmware", State.OK, version)) if version else (found,)


def _generations(fields: dict[str, str]) -> frozenset[str]:
    listed = (generation(part) for part in fields.get("compatible_version", "").split(","))
    return frozenset(filter(None, listed))


def cann(machine: Machine, driver: Package | None) -> tuple[Section, Package | None]:
    """Installed CANN versions, the one in use first; also returns that one."""
    findings: list[Finding] = []
    installed = _installed(machine, findings)
    active = next(iter(installed), None)
    if active is None:
        findings.append(
            Finding("CANN", State.MISSING, "not found", note="the vendor's own compiler and runtime; not needed here")
        )
    chosen = any(machine.environ.get(name) for name in _HOME_VARIABLES)
    for package in installed:
        hidden = package is active and not chosen
        findings.append(
            Finding(
                "CANN" if package is active else "CANN (other)",
                State.DOUBT if hidden else State.OK,
                package.version,
                note=package.home + (", installed but not set up in this shell" if hidden else ""),
                fix=f"source {package.home}/set_env.sh" if hidden else "",
            )
        )
    if active is not None and driver is not None:
        findings.append(_driver_fits(driver, active))
    findings += _atc(machine)
    return Section("CANN", tuple(findings)), active


def _installed(machine: Machine, findings: list[Finding]) -> list[Package]:
    homes: list[Path] = []
    for name in _HOME_VARIABLES:
        value = machine.environ.get(name, "")
        if not value:
            continue
        if machine.path(value).is_dir():
            homes.append(machine.path(value))
        else:
            findings.append(Finding(name, State.DOUBT, value, note="no such folder", fix=f"unset {name}"))
    roots = ["/usr/local/Ascend", f"{machine.environ.get('HOME', '/root')}/Ascend"]
    homes += [path for root in roots for place in _CANN_PLACES for path in machine.entries(root, place)]
    packages: dict[Path, Package] = {}
    for home in homes:
        try:
            real = home.resolve()
        except (OSError, RuntimeError):  # a loop of links
            continue
        if real not in packages:
            package = _package(machine, home)
            if package is not None:
                packages[real] = package
    return list(packages.values())


def _package(machine: Machine, home: Path) -> Package | None:
    for kind in ("toolkit", "nnrt", "nnae"):
        for architecture in _ARCHITECTURES:
            fields = machine.fields(home / architecture / f"ascend_{kind}_install.info")
            if fields.get("version"):
                inner = generation(fields.get("innerversion", ""))
                return Package(fields["version"], machine.shown(home), inner, _generations(fields))
    fields = machine.fields(home / "version.cfg")
    for kind in ("toolkit", "runtime", "compiler"):
        found = re.match(r"\[[^:\]]*:([^\]]+)]", fields.get(f"{kind}_running_version", ""))
        if found:
            return Package(found.group(1), machine.shown(home))
    return None


def _driver_fits(driver: Package, active: Package) -> Finding:
    """Each side lists generations of the other it works with; one naming the other is enough."""
    name = "Driver and CANN"
    pair = f"driver {driver.version}, CANN {active.version}"
    if not (driver.inner and active.fits) and not (active.inner and driver.fits):
        return Finding(name, State.OK, pair, note="whether they belong together is not recorded in their files")
    if driver.inner in active.fits or active.inner in driver.fits:
        return Finding(name, State.OK, pair, note="declared compatible")
    return Finding(
        name,
        State.DOUBT,
        pair,
        note=f"neither lists the other ({driver.inner or '?'}, {active.inner or '?'})",
        fix="Update the older of the two.",
    )


def _atc(machine: Machine) -> list[Finding]:
    """Which `atc` a shell would start: CANN and asc-devkit both have one."""
    program = machine.which("atc")
    if program is None:
        return []
    text = machine.read(Path(program))[:2000]
    ours = "asc_devkit" in text
    note = "asc-devkit's (converts without CANN)" if ours else "not asc-devkit's; use `asc convert` for that one"
    return [Finding("atc on PATH", State.OK, program, note=note)]
