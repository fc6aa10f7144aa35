"""Return codes of the runtime (data/status.csv) and ``DeviceFault``, the error that carries one."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

from asc_devkit.errors import AscError, Problem


@lru_cache(maxsize=1)
def codes() -> dict[str, int]:
    """Every code by name (``ACL_ERROR_RT_CONTEXT_NULL`` -> 107002), as the vendor's headers declare them."""
    text = resources.files("asc_devkit.npu.device").joinpath("data/status.csv").read_text(encoding="utf-8")
    return {row["name"]: int(row["code"]) for row in csv.DictReader(text.splitlines())}


@lru_cache(maxsize=1)
def names() -> dict[int, str]:
    """Every name by code."""
    return {code: name for name, code in codes().items()}


class DeviceFault(AscError):
    """A call or a task failed as it would on the device.

    ``status`` is the return code of the call, ``name`` what the vendor calls it. ``where`` lists call sites: where the
    memory was allocated, where it was freed.
    """

    def __init__(self, name: str, what: str, cause: str = "", fix: str = "", where: Iterable[str] = ()) -> None:
        self.name = name
        self.status = codes()[name]
        super().__init__(Problem(str(self.status), what, cause, fix, tuple(where)))

    def text(self) -> str:
        """Everything known about the fault in a few lines."""
        (problem,) = self.problems
        lines = [f"{self.name} ({self.status}): {problem.what}"]
        lines += [f"  {label}: {words}" for label, words in (("cause", problem.cause), ("fix", problem.fix)) if words]
        return "\n".join([*lines, *(f"  {site}" for site in problem.nodes)])
