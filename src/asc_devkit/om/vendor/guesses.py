"""What a compiled model does not say and was assumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guess:
    """``node`` of the compiled graph, what was assumed (``what``) and why that is likely."""

    node: str
    what: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
