"""Reports of every kind a check can write, made once."""

from __future__ import annotations

from typing import Any

import pytest

from asc_devkit import check
from tests.check.test_localisation import overflowing
from tests.models import REAL_MODELS


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """``example``: accepted, with labels; ``failed``: not accurate; ``refused``: not converted."""
    folder = tmp_path_factory.mktemp("checks")
    contrib = next(m for m in REAL_MODELS.values() if m.has_contrib_ops)
    asked = {
        "example": check.CheckOptions(None, output=folder / "example", threads=1),
        "failed": check.CheckOptions(overflowing(folder / "over.onnx"), output=folder / "failed", threads=1),
        "refused": check.CheckOptions(contrib.path, output=folder / "refused", input_shape=contrib.input_shape),
    }
    return {name: check.run(options).report for name, options in asked.items()}


@pytest.fixture(params=["example", "failed", "refused"])
def report(request: pytest.FixtureRequest, reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Each of them."""
    return reports[request.param]
