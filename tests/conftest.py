"""``@pytest.mark.provokes("E10008")``: the marked test makes the product report these codes, and is failed if it does not.

Problems made in the test's own process count, and those that a command started with ``subprocess.run`` prints.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from asc_devkit.errors import Problem

PRINTED = re.compile(r"^((?:ASC|E|EZ)\d{4,5})(?: \(EE\d{4}\))?: ", re.M)  # how a command prints a problem


@pytest.fixture(autouse=True)
def _provoked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    claimed = {code for mark in request.node.iter_markers("provokes") for code in mark.args}
    if not claimed:
        yield
        return
    reported: set[str] = set()
    construct = Problem.__init__

    def note(self: Problem, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        reported.add(self.code)

    run = subprocess.run

    def watched(*args: Any, **kwargs: Any) -> Any:
        done = run(*args, **kwargs)
        printed = "".join(text for text in (done.stdout, done.stderr) if isinstance(text, str))
        reported.update(PRINTED.findall(printed))
        return done

    monkeypatch.setattr(Problem, "__init__", note)
    monkeypatch.setattr(subprocess, "run", watched)
    yield
    assert claimed <= reported, f"the test does not provoke {', '.join(sorted(claimed - reported))}"
