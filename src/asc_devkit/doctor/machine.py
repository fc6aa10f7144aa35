"""What the doctor may ask a machine: files under a root, environment, installed distributions, programs.

Everything goes through ``Machine``, so that tests can show the doctor machines that do not exist here. Whatever is read
is bounded and stripped of control characters: version files are not trusted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

MAX_TEXT: Final = 64 << 10
MAX_ENTRIES: Final = 1000


@dataclass(frozen=True)
class Machine:
    """``version`` gives a distribution's version or None; ``run`` a program's output or None when it fails or hangs."""

    root: Path
    environ: Mapping[str, str]
    python: str
    version: Callable[[str], str | None]
    requirements: Callable[[], tuple[str, ...]]
    which: Callable[[str], str | None]
    run: Callable[[Sequence[str], float], str | None]

    def path(self, name: str) -> Path:
        """``name`` (absolute, as on the machine) under the root."""
        return self.root / name.lstrip("/")

    def shown(self, path: Path) -> str:
        """``path`` as the machine's user knows it."""
        try:
            return "/" + str(path.relative_to(self.root))
        except ValueError:
            return str(path)

    def read(self, path: Path) -> str:
        """At most ``MAX_TEXT`` bytes of a file; empty when it cannot be read."""
        try:
            with path.open("rb") as handle:
                return _printable(handle.read(MAX_TEXT).decode("utf-8", errors="replace"))
        except OSError:
            return ""

    def fields(self, path: Path) -> dict[str, str]:
        """``key=value`` lines of a file, keys in lower case."""
        pairs = (line.partition("=") for line in self.read(path).splitlines() if not line.startswith("#"))
        return {key.strip().lower(): value.strip() for key, mark, value in pairs if mark}

    def entries(self, folder: str, pattern: str) -> list[Path]:
        """Sorted entries of a folder that match; empty when it cannot be listed."""
        try:
            return sorted(self.path(folder).glob(pattern))[:MAX_ENTRIES]
        except OSError:
            return []


def this_machine() -> Machine:
    """The machine this process runs on."""
    return Machine(
        root=Path("/"),
        environ=os.environ,
        python=".".join(map(str, sys.version_info[:3])),
        version=_version,
        requirements=_requirements,
        which=shutil.which,
        run=_run,
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> tuple[str, ...]:
    try:
        return tuple(metadata.requires("asc-devkit") or ())
    except metadata.PackageNotFoundError:
        return ()


def _run(command: Sequence[str], seconds: float) -> str | None:
    try:
        done = subprocess.run(
            list(command), capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return _printable(done.stdout[:MAX_TEXT].decode("utf-8", errors="replace"))


def _printable(text: str) -> str:
    """Without control characters other than line breaks and tabs, which could steer a terminal."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
