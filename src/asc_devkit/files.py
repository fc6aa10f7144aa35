"""Writing files so that a killed process leaves the old file or the complete new one, never half of either."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from asc_devkit.errors import AscError, Problem


class CannotWrite(AscError, OSError):
    """A file cannot be written: no such folder, no right, no space, a name that is none. Bad input (exit code 2)."""

    def __init__(self, path: Path, reason: OSError | ValueError) -> None:
        text = getattr(reason, "strerror", None) or str(reason)
        what = f"The file [{path}] cannot be written: {text}."
        cause = "The folder does not exist, may not be written, or the disk is full."
        fix = "Choose another path, or make room."
        AscError.__init__(self, Problem("E13004", what, cause, fix, (str(path),), "EE1001"))
        self.errno, self.strerror = getattr(reason, "errno", None), text

    def __str__(self) -> str:
        return "; ".join(f"{p.code}: {p.what}" for p in self.problems)


@contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces ``path`` on success and vanishes on any exception.

    The temporary file lives in the target folder (so that the rename is atomic) and starts with a dot. Raises
    ``CannotWrite`` when the system refuses.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fd, tmp = tempfile.mkstemp(prefix=f".{_short(target.name)}.", suffix=".tmp", dir=target.parent)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise CannotWrite(target, error) from error
    try:
        with os.fdopen(fd, mode) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        Path(tmp).chmod(0o666 & ~_umask())
        Path(tmp).replace(target)
    except BaseException as error:
        Path(tmp).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, AscError):
            raise CannotWrite(target, error) from error
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, atomically; bytes of a command line that are none are written as ``\\udcff``."""
    with atomic_writer(path) as handle:
        handle.write(text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` atomically."""
    with atomic_writer(path) as handle:
        handle.write(data)


def _short(name: str) -> str:
    """The beginning of ``name`` that leaves room for more within the 255 bytes of a file name."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
