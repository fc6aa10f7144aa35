"""What the doctor found: findings in sections, each with a state and, where something can be done, a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final

SCHEMA: Final = "asc-devkit/doctor/1"


class State(str, Enum):
    """``OK`` found and fine, ``MISSING`` absent and optional, ``DOUBT`` worth a look, ``WRONG`` will not work."""

    OK = "ok"
    MISSING = "missing"
    DOUBT = "doubt"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``value`` is what was found, ``note`` what follows from it, ``fix`` what to do."""

    name: str
    state: State
    value: str = ""
    note: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Section:
    """Findings that belong together."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Everything found on one machine."""

    sections: tuple[Section, ...]

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Findings that will not work as they are."""
        return tuple(f for section in self.sections for f in section.findings if f.state is State.WRONG)

    def as_dict(self) -> dict[str, Any]:
        """JSON form (schema ``asc-devkit/doctor/1``)."""
        sections = [
            {"title": s.title, "findings": [{**asdict(f), "state": f.state.value} for f in s.findings]}
            for s in self.sections
        ]
        return {"schema": SCHEMA, "wrong": len(self.wrong), "sections": sections}
