"""``@pytest.mark.provokes("E10008")``: the marked test makes the product report these codes, and is failed if it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from asc_devkit.errors import Problem


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

    monkeypatch.setattr(Problem, "__init__", note)
    yield
    assert claimed <= reported, f"the test does not provoke {', '.join(sorted(claimed - reported))}"
