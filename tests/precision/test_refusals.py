"""Every code of the comparing commands, provoked: what cannot be compared is refused with what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import helper

from asc_devkit.cli.compare.asc import compare
from asc_devkit.cli.errors import guarded
from asc_devkit.errors import AscError
from asc_devkit.precision.sources import folders, scan
from asc_devkit.precision.sources.files import open_file

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("cpu", "npu"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "y.npy", ARRAY)
    (tmp_path / "no.json").write_text("[1, 2]")
    return tmp_path


def refused(*words: str) -> int:
    return guarded(lambda: compare(list(words), standalone_mode=False))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["nowhere", "npu"], marks=pytest.mark.provokes("ASC5101")),
        pytest.param(["cpu", "npu", "--dtype=fp17"], marks=pytest.mark.provokes("ASC5104")),
        pytest.param(["cpu", "npu", "--standard=canneco"], marks=pytest.mark.provokes("ASC5110")),
        pytest.param(["cpu", "npu", "--overrides=no.json"], marks=pytest.mark.provokes("ASC5111")),
        pytest.param(["cpu", "npu", "--mapping=no.json"], marks=pytest.mark.provokes("ASC5112")),
        pytest.param(["cpu", "npu", "--junit", "y.doc"], marks=pytest.mark.provokes("ASC5114")),
    ],
)
def test_wrong_words_have_a_code_and_a_remedy(
    words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(*words) == 2
    assert "Solution:" in capsys.readouterr().err


@pytest.mark.provokes("ASC5103")
def test_too_many_files_are_to_be_compared_in_parts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 1)
    np.save(place / "cpu" / "z.npy", ARRAY)
    with pytest.raises(AscError, match="holds 2 files"):
        scan(place / "cpu")


@pytest.mark.provokes("ASC5107")
def test_a_file_of_another_kind_is_named(place: Path) -> None:
    (place / "notes.doc").write_text("hello")
    with pytest.raises(AscError, match=r"notes.doc is of no kind that is read"):
        open_file(place / "notes.doc")


def _model(inputs: list[str]) -> onnx.ModelProto:
    info = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    const = helper.make_tensor("c", 1, [2, 3], ARRAY.ravel())
    node = helper.make_node("Exp", inputs or ["c"], ["y"], "exp")
    graph = helper.make_graph([node], "g", info[:1] if inputs else [], info[1:], [const])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.provokes("ASC5108")
def test_a_model_that_only_names_itself_onnx_is_refused(place: Path) -> None:
    """Its text form is read by the converter, but the comparison runs the file itself."""
    (place / "m.onnx").write_text(text_format.MessageToString(_model(["x"])))
    assert refused("cpu", "npu", "--model=m.onnx") == 2


@pytest.mark.provokes("ASC5109")
def test_a_model_without_inputs_cannot_be_tuned(place: Path) -> None:
    onnx.save(_model([]), place / "m.onnx")
    np.save(place / "npu" / "y.npy", ARRAY + 1)
    assert refused("cpu", "npu", "--model=m.onnx", "--suggest-mix=keep.cfg") == 2


@pytest.mark.provokes("ASC5113")
def test_without_the_extra_a_workbook_is_not_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert refused("cpu", "npu", "-o", "x.xlsx") == 2
    assert not (place / "x.xlsx").exists()
    assert refused("cpu", "npu", "-o", "x.json") == 0
    assert json.loads((place / "x.json").read_text())
