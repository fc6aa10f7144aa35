"""docs/virtual_npu.md shows what really works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models import example_inputs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "virtual_npu.md"
ROOM = Path(__file__).resolve().parents[2] / "src" / "asc_devkit" / "npu"


def test_the_python_example_runs(
    real_om: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.om").symlink_to(real_om("ppocr_cls"))
    names: dict[str, object] = {"image": example_inputs("ppocr_cls")["x"]}
    exec(block, names)
    assert (tmp_path / "npu_dump" / "index.json").is_file()
    assert names["values"]
    assert "overflow_mode" in capsys.readouterr().out


def test_every_error_code_in_the_table_exists() -> None:
    sources = "".join(p.read_text() for p in ROOM.glob("*.py"))
    for code in re.findall(r"\| (ASC4\d+)", PAGE.read_text()):
        assert code in sources
