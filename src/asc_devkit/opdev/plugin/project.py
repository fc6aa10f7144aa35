"""Writes the project: four files and a page, all of them running as they are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.opdev.plugin.signature import Signature
from asc_devkit.ops import registry

#: Template -> file of the project.
FILES: Final = {
    "plugin.py.j2": "{function}_plugin.py",
    "golden.py.j2": "{function}_golden.py",
    "model.py.j2": "{function}_model.py",
    "test.py.j2": "test_{function}.py",
    "README.md.j2": "README.md",
}


@dataclass(frozen=True)
class Project:
    """A written project: its folder, the plugin file, and all files."""

    folder: Path
    plugin: Path
    files: tuple[Path, ...]


def create(operator: Signature, folder: Path, force: bool = False) -> Project:
    """Write a project for ``operator`` into ``folder``; files that exist are replaced only with ``force``.

    Raises ``AscError`` listing every file in the way, before anything is written.
    """
    texts = {folder / name.format(function=operator.function): text for name, text in _rendered(operator).items()}
    taken = [path for path in texts if path.exists() or path.is_symlink()]
    if folder.exists() and not folder.is_dir():
        taken = [folder]
    if taken and (not force or taken == [folder]):
        raise AscError(
            Problem(
                "ASC2016",
                f"The project would replace {len(taken)} files in [{folder}].",
                cause="A project stands there already.",
                fix="Choose another folder, or say --force.",
                nodes=tuple(map(str, taken)),
                seed_class="EE1001",
            )
        )
    for path, text in texts.items():
        files.write_text(path, text)
    return Project(folder, folder / f"{operator.function}_plugin.py", tuple(texts))


def _rendered(operator: Signature) -> dict[str, str]:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=False,  # Python and Markdown; every inserted word was checked to be a name or a Python literal
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    ge_type = operator.name
    if registry.lookup(ge_type) is not None:  # CANN has another operator of that name
        ge_type = f"{operator.name}Custom"
    return {
        name: environment.get_template(template).render(op=operator, ge_type=ge_type)
        for template, name in FILES.items()
    }


def _read(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")
