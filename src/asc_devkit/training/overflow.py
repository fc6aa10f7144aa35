"""Where NaN and infinities come from: the calls that made them from finite inputs, over all ranks of a step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asc_devkit.training import dump

INPUTS: Final = ("input_args", "input_kwargs", "input", "parameters")
#: Calls whose output is not computed from their inputs: memory that was never written, data received from elsewhere.
IGNORED: Final = frozenset(
    {"empty", "empty_like", "new_empty", "recv", "irecv", "all_gather", "all_gather_into_tensor", "masked_fill"}
)


@dataclass(frozen=True)
class Origin:
    """A call that made values that are not finite; ``spread`` counts the later calls that had such inputs."""

    rank: str
    step: str
    call: str
    position: int
    spread: int
    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("rank", "step", "call", "position", "spread", "facts")}


def origins(path: Path) -> list[Origin]:
    """The calls to blame in each dump at or below ``path``, earliest first within a step. Raises ``AscError``."""
    found: list[Origin] = []
    for file in dump.find(path):
        first: list[tuple[str, int, dict[str, Any]]] = []
        spread = 0
        for position, call in enumerate(dump.calls(file)):
            clean = all(dump.finite(call.facts.get(name)) for name in INPUTS)
            if not clean:
                spread += 1
            elif not dump.finite(call.facts.get("output")) and call.api.rsplit(".", 1)[-1] not in IGNORED:
                first.append((call.name, position, call.facts))
        rank, step = file.parent.name, file.parent.parent.name
        found += [Origin(rank, step, name, position, spread, facts) for name, position, facts in first]
    return sorted(found, key=lambda o: (o.step, o.position, o.rank))
