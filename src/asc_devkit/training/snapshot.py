"""What a training starts from, as a file: environment, packages, settings, random states, data order, weights; and the
difference of two.

``snapshot`` writes a zip of JSON files, ``difference`` compares two of them and grades what differs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import random
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asc_devkit import files
from asc_devkit.errors import AscError, Problem

SECTIONS: Final = ("environment", "packages", "hyperparameters", "random", "dataset", "weights")
MAX_SECTION: Final = 64 << 20
#: Settings that change numbers, with the names both vendors have for them.
VARIABLES: Final = (
    ("HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC"),
    ("HCCL_ALGO", "NCCL_ALGO"),
    ("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"),
    ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    ("HCCL_INTRA_ROCE_ENABLE", "NCCL_IB_DISABLE"),
    ("CLOSE_MATMUL_K_SHIFT", "CUBLAS_WORKSPACE_CONFIG"),
    ("LCCL_DETERMINISTIC",),
    ("PYTHONHASHSEED",),
    ("OMP_NUM_THREADS",),
    ("ASC_SOC",),
)
#: Packages whose version changes results.
IMPORTANT: Final = frozenset(
    [
        *("torch", "torch-npu", "torchvision", "transformers", "accelerate", "deepspeed", "megatron-core", "numpy"),
        *("datasets", "peft", "trl", "apex"),
    ]
)
_WORD: Final = re.compile(r"--([A-Za-z][\w-]*)(?:[= ]+([^\s-][^\s]*))?")


@dataclass(frozen=True)
class Difference:
    """One thing that differs: ``section``, ``name``, both values, ``level`` (warning or error)."""

    section: str
    name: str
    first: Any
    second: Any
    level: str

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


def snapshot(
    path: Path | str,
    model: Any = None,
    hyperparameters: Mapping[str, Any] | None = None,
    scripts: Sequence[Path | str] = (),
    batches: Iterable[Any] = (),
) -> Path:
    """Write the zip ``path``. ``model``: a torch module whose weights are fingerprinted; ``scripts``: shell or YAML
    files that settings are read from; ``batches``: the first batches as the program sees them, whose order and
    content are fingerprinted.
    """
    facts: dict[str, Any] = {
        "environment": {
            " / ".join(names): next((os.environ[n] for n in names if n in os.environ), None) for names in VARIABLES
        },
        "packages": _packages(),
        "hyperparameters": {**_from_scripts(scripts), **{k: _plain(v) for k, v in (hyperparameters or {}).items()}},
        "random": _random(),
        "dataset": {f"batch {i}": _fingerprint(batch) for i, batch in enumerate(batches)},
        "weights": {name: _fingerprint(value) for name, value in model.state_dict().items()}
        if model is not None
        else {},
    }
    target = Path(path)
    with files.atomic_writer(target) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SECTIONS:
            archive.writestr(f"{name}.json", json.dumps(facts[name], indent=1))
    return target


def load(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a snapshot. Raises ``AscError`` (ASC5205)."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {info.filename: info for info in archive.infolist()}
            found = {}
            for section in SECTIONS:
                info = names.get(f"{section}.json")
                if info is None or info.file_size > MAX_SECTION:
                    raise ValueError(f"its section {section} is missing or absurdly large")
                found[section] = json.loads(archive.read(info))
                if not isinstance(found[section], dict):
                    raise ValueError(f"its section {section} is no object")
            return found
    except (
        OSError,
        ValueError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        RecursionError,
        zlib.error,
    ) as error:
        what = f"{path} is no snapshot of a training: {error}."[:300]
        fix = "Write one with `msprobe config_check --dump`."
        raise AscError(Problem("ASC5205", what, fix=fix, nodes=(str(path),))) from error


def difference(first: Path, second: Path) -> list[Difference]:
    """Everything that differs between two snapshots, errors first."""
    a, b = load(first), load(second)
    found = []
    for section in SECTIONS:
        for name in dict.fromkeys([*a[section], *b[section]]):
            left, right = a[section].get(name), b[section].get(name)
            if left != right:
                found.append(Difference(section, str(name), left, right, _level(section, str(name))))
    return sorted(found, key=lambda d: (d.level != "error", SECTIONS.index(d.section)))


def _level(section: str, name: str) -> str:
    if section == "packages":
        return "error" if name.lower() in IMPORTANT else "warning"
    return "warning" if section == "environment" else "error"


def _variable(names: Sequence[str]) -> str | None:
    return next((os.environ[name] for name in names if name in os.environ), None)


def _packages() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        if name:
            found[name.lower()] = package.version
    return dict(sorted(found.items()))


def _random() -> dict[str, str]:
    """Fingerprints of the random generators' states: equal seeds at the same point give equal states."""
    found = {"python": _digest(repr(random.getstate()).encode())}
    if "numpy" in sys.modules:
        state = sys.modules["numpy"].random.get_state()
        found["numpy"] = _digest(state[1].tobytes() + str(state[2:]).encode())
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found["torch"] = _digest(torch.get_rng_state().numpy().tobytes())
        found["deterministic"] = str(torch.are_deterministic_algorithms_enabled())
    return found


def _from_scripts(scripts: Sequence[Path | str]) -> dict[str, Any]:
    """Settings written as ``--name value`` in shell scripts, or ``name: value`` in YAML files."""
    found: dict[str, Any] = {}
    for script in scripts:
        try:
            text = Path(script).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AscError(
                Problem("ASC5205", f"Cannot read settings from {script}: {error}.", nodes=(str(script),))
            ) from error
        if str(script).endswith((".yaml", ".yml")):
            for line in text.splitlines():
                key, separator, value = line.partition(":")
                if separator and value.strip() and not line.lstrip().startswith("#"):
                    found[key.strip()] = value.split(" #")[0].strip()
        else:
            joined = re.sub(
                r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
            )
            for match in _WORD.finditer(joined):
                found[match[1].replace("-", "_")] = match[2] if match[2] is not None else True
    return found


def _fingerprint(value: Any) -> str:
    """Shape, type and digest of a tensor, or of all tensors in a batch."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        raw = tensor.reshape(-1).view(_torch_bytes()).numpy().tobytes() if tensor.numel() else b""
        return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} {_digest(raw)}"
    if isinstance(value, Mapping):
        return _digest("".join(f"{k}={_fingerprint(v)};" for k, v in value.items()).encode())
    if isinstance(value, (list, tuple)):
        return _digest("".join(_fingerprint(v) + ";" for v in value).encode())
    if hasattr(value, "tobytes"):
        return f"{value.dtype}{list(value.shape)} {_digest(value.tobytes())}"
    return _digest(repr(value).encode())


def _torch_bytes() -> Any:
    return sys.modules["torch"].uint8


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
