"""Real models, converted once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asc_devkit import atc
from asc_devkit.atc.options import from_flags
from tests.models import REAL_MODELS

Convert = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """``convert(model key, chip)`` -> path of the ``.om``."""
    folder = tmp_path_factory.mktemp("oms")

    def make(key: str, chip: str) -> Path:
        path = folder / f"{key}_{chip}.om"
        if not path.exists():
            real = REAL_MODELS[key]
            flags = {"model": str(real.path), "framework": "5", "output": str(path)[:-3], "soc_version": chip}
            atc.compile(from_flags({**flags, "input_shape": real.input_shape}))
        return path

    return make
