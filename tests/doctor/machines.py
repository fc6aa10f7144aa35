"""Machines that do not exist here: file trees as the public installation guides and issue reports show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from asc_devkit.doctor import Machine

# `npu-smi info` as printed by driver 24.1 (310P, one card) and 25.x (A2, two cards)
SMI_310P = """+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2.b010                    Version: 24.1.rc2.b010                                |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Device              | Bus-Id        | AICore(%)   Memory-Usage(MB)                       |
+===========================+===============+====================================================+
| 0     310P3               | OK            | 9.6         56                15    / 15           |
| 0     0                   | NA            | 0           3398 / 11578                           |
+===========================+===============+====================================================+
"""
SMI_910B = """+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.0                   Version: 25.2.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2               | OK            | 93.6        41                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3404 / 65536         |
+===========================+===============+====================================================+
| 1     910B2               | Warning       | 91.0        88                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3404 / 65536         |
+===========================+===============+====================================================+
"""
DRIVER = """Version=24.1.rc3
ascendhal_version=7.35.23
Innerversion={inner}SPC001B124
compatible_version=[V100R001C13],[V100R001C15],[V100R001C17],[V100R001C18],[V100R001C19]
package_version=24.1.rc3
"""
TOOLKIT = """package_name=Ascend-cann-toolkit
version={version}
innerversion=V100R001C21SPC001B238
compatible_version=[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]
arch=x86_64
os=linux
path=/usr/local/Ascend/ascend-toolkit/{version}/x86_64-linux
"""
VERSION_CFG = """# version: 1.0
runtime_running_version=[7.3.0.1.231:8.0.RC2]
toolkit_running_version=[7.3.0.1.231:8.0.RC2]
"""
REQUIREMENTS = (
    "click>=8.1",
    "onnxruntime>=1.20",
    "torch>=2.4; extra == 'train'",
    "scikit-learn>=1.4; extra == 'train'",
)
FINE = {"click": "8.5.1", "onnxruntime": "1.32.0"}


def machine(
    root: Path,
    files: Mapping[str, str] | None = None,
    *,
    versions: Mapping[str, str] = FINE,
    environ: Mapping[str, str] | None = None,
    programs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str | None] | None = None,
    python: str = "3.11.7",
) -> Machine:
    """A machine of these files. ``outputs`` maps the last path part of a program to what it prints (None: it fails)."""
    for name, text in (files or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    printed = {Path(name).name: text for name, text in (outputs or {}).items()}

    def run(command: Sequence[str], seconds: float) -> str | None:
        return printed.get(Path(command[0]).name, "{}")

    return Machine(
        root=root,
        environ=environ or {},
        python=python,
        version=lambda name: versions.get(name),
        requirements=lambda: REQUIREMENTS,
        which=lambda name: (programs or {}).get(name),
        run=run,
    )
