"""Executable graphs kept on disk by content: a second load of the same OM costs no rewriting.

An entry is a folder ``<root>/npu/<key>`` with ``meta.json`` written last; it appears by one rename. The least recently
used entries are removed when all together exceed the limit. ``ASC_CACHE_DIR`` moves the root (default
``~/.cache/asc-devkit``), ``ASC_CACHE_LIMIT_MB`` sets the limit (default 8192).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

META: Final = "meta.json"
FORMAT: Final = 3
_BLOCK: Final = 16 << 20
_DEFAULT_LIMIT_MB: Final = 8192


def root() -> Path:
    """Folder of all entries."""
    base = os.environ.get("ASC_CACHE_DIR") or Path.home() / ".cache" / "asc-devkit"
    return Path(base) / "npu"


def key(data: memoryview, facts: dict[str, Any]) -> str:
    """Name of the entry for a file's bytes and everything else its executable depends on."""
    blocks = [data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK)]

    def digest(block: memoryview) -> bytes:
        return hashlib.blake2b(block, digest_size=32).digest()

    if len(blocks) > 1:
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # hashing releases the interpreter lock
            digests = list(pool.map(digest, blocks))
    else:
        digests = [digest(block) for block in blocks]
    text = json.dumps({"format": FORMAT, "bytes": len(data), **facts}, sort_keys=True)
    return hashlib.blake2b(b"".join(digests) + text.encode(), digest_size=20).hexdigest()


def find(name: str) -> tuple[Path, dict[str, Any]] | None:
    """Folder and facts of an entry, if it is there and complete; damaged entries are removed."""
    folder = root() / name
    meta = read(folder)
    if meta is None:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
        return None
    with contextlib.suppress(OSError):  # a read-only cache still serves
        os.utime(folder / META)  # last use
    return folder, meta


def read(folder: Path) -> dict[str, Any] | None:
    """Facts of a complete entry: readable, of this format, every file there with its size."""
    try:
        meta = json.loads((folder / META).read_bytes())
        if meta["format"] != FORMAT:
            return None
        complete = all((folder / name).stat().st_size == size for name, size in meta["files"].items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return meta if complete else None


def store(name: str, build: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """Make an entry with ``build`` (which fills a folder and returns facts); raises ``OSError`` if it cannot be kept."""
    base = root()
    base.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=base))
    try:
        meta = fill(work, build)
        try:
            work.rename(base / name)
        except OSError:
            found = find(name)  # another process was faster
            if found is None:
                raise
            return found
    finally:
        shutil.rmtree(work, ignore_errors=True)
    trim(base, base / name)
    return base / name, meta


def fill(folder: Path, build: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Let ``build`` fill ``folder`` and write the facts beside what it made."""
    meta = build(folder)
    meta["format"] = FORMAT
    meta["files"] = {item.name: item.stat().st_size for item in folder.iterdir()}
    (folder / META).write_text(json.dumps(meta), encoding="utf-8")
    return meta


def trim(base: Path, keep: Path) -> None:
    """Remove the least recently used entries, and leftovers of killed processes, until the limit holds."""
    limit = _limit_bytes()
    entries: list[tuple[float, int, Path]] = []
    for folder in base.iterdir():
        try:
            meta = folder / META
            used = (meta if meta.exists() else folder).stat().st_mtime
            entries.append((used, sum(item.stat().st_size for item in folder.iterdir()), folder))
        except OSError:
            continue  # being removed by another process
    total = sum(size for _, size, _ in entries)
    newest = max((used for used, _, _ in entries), default=0.0)
    for used, size, folder in sorted(entries):
        abandoned = folder.name.startswith(".new-") and newest - used > 86400
        if folder != keep and (abandoned or (total > limit and not folder.name.startswith("."))):
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def _limit_bytes() -> int:
    text = os.environ.get("ASC_CACHE_LIMIT_MB", "")
    return (int(text) if text.isdecimal() else _DEFAULT_LIMIT_MB) << 20
