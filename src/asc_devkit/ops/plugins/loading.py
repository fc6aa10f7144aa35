"""Loading plugin files: only those the user named, each once, all or nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asc_devkit.errors import AscError, Problem
from asc_devkit.ops.plugins import entries
from asc_devkit.ops.plugins.declare import CustomOperator
from asc_devkit.ops.plugins.faults import place_of, text_of

ENVIRONMENT: Final = "ASC_OP_PLUGIN_PATH"
PATTERN: Final = "*_plugin.py"


@dataclass(frozen=True)
class Plugin:
    """A loaded file, a digest of its content, and the operators it declared."""

    path: Path
    digest: str
    operators: tuple[CustomOperator, ...]


_loaded: dict[Path, Plugin] = {}


def loaded() -> list[Plugin]:
    """Plugins in the order they were loaded."""
    return list(_loaded.values())


def fingerprint() -> list[str]:
    """Digests of all loaded plugins: what depends on their operators is to be made again when one changes."""
    return sorted(plugin.digest for plugin in _loaded.values())


def load(paths: str | Path | Iterable[str | Path]) -> list[Plugin]:
    """Run the plugin files and add their operators to the catalogue.

    ``paths``: files, or folders whose ``*_plugin.py`` files are loaded; a text may hold several, separated by
    ``os.pathsep`` or ``;``. A file that is loaded already and has not changed is left alone. Raises ``AscError`` naming
    file and line of everything that went wrong; then none of the files counts as loaded.
    """
    problems: list[Problem] = []
    files = [file for path in _split(paths) for file in _files(path, problems)]
    made: list[Plugin] = []
    if not problems:
        for file in dict.fromkeys(files):
            try:
                made.append(_load(file))
            except AscError as error:
                problems += error.problems
    if problems:
        for plugin in made:
            _unload(plugin)
        raise AscError(problems)
    return made


def load_from_environment() -> list[Plugin]:
    """Load what ``ASC_OP_PLUGIN_PATH`` names, if it is set."""
    given = os.environ.get(ENVIRONMENT, "")
    return load(given) if given.strip() else []


def unload_all() -> None:
    """Take every plugin's operators out of the catalogue."""
    for plugin in loaded():
        _unload(plugin)
    _withdraw_new(set())  # declared outside of a file


def _split(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    if isinstance(paths, Path):
        return [paths]
    if isinstance(paths, str):
        return [Path(part) for part in paths.replace(os.pathsep, ";").split(";") if part.strip()]
    return [found for path in paths for found in _split(path)]


def _files(path: Path, problems: list[Problem]) -> list[Path]:
    path = path.expanduser()
    if path.is_dir():
        found = sorted(path.glob(PATTERN))
        if not found:
            problems.append(_cannot(path, f"no file in it is called {PATTERN}", "Name the plugin file itself."))
        return [file.resolve() for file in found]
    if not path.is_file():
        problems.append(_cannot(path, "there is no such file or folder", "Check --op_plugin_path."))
        return []
    if path.suffix != ".py":
        problems.append(_cannot(path, "it is no Python file", "Plugins are .py files (docs/plugins.md)."))
        return []
    return [path.resolve()]


def _load(file: Path) -> Plugin:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise AscError(_cannot(file, error.strerror or str(error), "Check the permissions.")) from error
    digest = hashlib.blake2b(source, digest_size=16).hexdigest()
    known = _loaded.get(file)
    if known is not None and known.digest == digest:
        return known
    if known is not None:
        _unload(known)
    before = {op.ge_type for op in entries.all_custom()}
    try:
        _execute(file, source, f"asc_plugin_{file.stem}_{digest[:8]}")
    except (Exception, SystemExit) as error:
        _withdraw_new(before)
        what = f"{text_of(error)} ({place_of(error, str(file))})"
        raise AscError(_cannot(file, what, "Correct the plugin (docs/plugins.md).")) from error
    made = tuple(op for op in entries.all_custom() if op.ge_type not in before)
    if not made:
        raise AscError(_cannot(file, "it declares no operator", "Declare one with @asc_devkit.ops.operator."))
    plugin = Plugin(file, digest, made)
    _loaded[file] = plugin
    return plugin


def _execute(file: Path, source: bytes, name: str) -> None:
    """Run the file as a module; files beside it can be imported while it runs."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        sys.path.remove(str(file.parent))


def _unload(plugin: Plugin) -> None:
    for op in plugin.operators:
        entries.withdraw(op)
    _loaded.pop(plugin.path, None)


def _withdraw_new(before: set[str]) -> None:
    for op in entries.all_custom():
        if op.ge_type not in before:
            entries.withdraw(op)


def _cannot(path: Path, why: str, fix: str) -> Problem:
    return Problem(
        "ASC2011",
        f"The operator plugin {path} cannot be loaded: {why}",
        cause="--op_plugin_path and ASC_OP_PLUGIN_PATH name Python files that declare operators, or folders of them.",
        fix=fix,
        nodes=(str(path),),
        seed_class="EE2001",
    )
