"""Fixtures of the virtual NPU's tests: a private cache, and real models converted once per session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.models import REAL_MODELS
from tests.npu.build import compile_model


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Executable graphs of the tests never touch the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("ASC_CACHE_DIR")
    os.environ["ASC_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["ASC_CACHE_DIR"]
    else:
        os.environ["ASC_CACHE_DIR"] = before


@pytest.fixture(scope="session")
def real_om(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``real_om(key, soc, mode)``: path of the converted real model."""
    made: dict[tuple[str, str, str], Path] = {}

    def convert(key: str, soc: str = "Ascend310P3", mode: str = "force_fp16") -> Path:
        if (key, soc, mode) not in made:
            model = REAL_MODELS[key]
            folder = tmp_path_factory.mktemp(key)
            shapes = model.input_shape if any(model.shapes.values()) else ""
            made[key, soc, mode] = compile_model(model.path, folder, soc, mode, input_shape=shapes, host_ops="true")
        return made[key, soc, mode]

    return convert
