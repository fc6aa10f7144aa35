"""The one error type of the toolkit: a list of problems, each with code, cause and remedy.

Every room raises ``AscError``; the command line prints all its problems at once and exits with its ``exit_code``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that went wrong.

    ``code`` is the vendor's code where one exists (``E10001``, ``EZ3002``), else the toolkit's own (``ASC...``).
    ``seed_class`` groups by stage: EE1xxx parse, EE2xxx operator, EE3xxx memory; empty where none applies.
    ``nodes`` names every offending node, tensor or file position.
    """

    code: str
    what: str
    cause: str = ""
    fix: str = ""
    nodes: tuple[str, ...] = ()
    seed_class: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class AscError(Exception):
    """Bad input or wrong usage (exit code 2 unless stated); carries all problems found, never just the first."""

    def __init__(self, problems: Problem | Iterable[Problem], exit_code: int = 2) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.exit_code = exit_code
        super().__init__("; ".join(f"{p.code}: {p.what}" for p in self.problems))
