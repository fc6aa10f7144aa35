"""docs/check_a_model.md shows what the commands really do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from asc_devkit import check
from tests.cli.shell import Finished, asc, onnx_cnn

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "check_a_model.md").read_text(encoding="utf-8")
FIGURES = re.compile(r"[-+]?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, asc("check", "--threads", "1", cwd=folder)


def _shape(text: str) -> str:
    """Text without figures and line breaks: those move with every better estimate."""
    flat = re.sub(r"[│╭╰╮╯─\s]+", " ", text)
    return FIGURES.sub("#", flat)


@pytest.mark.seed("D1")
def test_the_sample_is_what_the_command_prints(demo: tuple[Path, Finished]) -> None:
    _, done = demo
    assert done.code == 0, done.err
    sample = GUIDE.split("<!-- sample: asc check -->\n```\n")[1].split("```")[0]
    assert _shape(sample).strip() in _shape(done.out)
    assert _accuracies(sample) == _accuracies(done.out)


def _accuracies(text: str) -> list[str]:
    return re.findall(r"top-1 accuracy ([\d.]+) % before, ([\d.]+) % after", re.sub(r"[│\s]+", " ", text))


def test_the_files_of_the_table_are_written(demo: tuple[Path, Finished]) -> None:
    folder, _ = demo
    table = GUIDE.split("| file | what it is |")[1].split("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    written = {path.name for path in (folder / "asc_out").iterdir()}
    assert written == named - {"check_result.json"}


@pytest.mark.parametrize("layout", ["one file per input", "one folder per sample", "archive", "loose files"])
def test_every_layout_of_the_table_is_read_as_the_same_samples(tmp_path: Path, layout: str) -> None:
    model = onnx_cnn(tmp_path / "cnn.onnx", "image")
    shape = _input_shape(model)
    rows = np.random.default_rng(1).standard_normal((5, *shape[1:])).astype(np.float32)
    data = tmp_path / "samples"
    data.mkdir()
    if layout == "one file per input":
        np.save(data / "image.npy", rows)
    elif layout == "one folder per sample":
        for number, row in enumerate(rows):
            (data / str(number)).mkdir()
            np.save(data / str(number) / "image.npy", row)
    elif layout == "archive":
        np.savez(data / "all.npz", image=rows)
    else:
        for number, row in enumerate(rows):
            np.save(data / f"picture_{number}.npy", row)
    text = "image:" + ",".join(map(str, (2, *shape[1:])))
    options = check.CheckOptions(model, output=tmp_path / "out", input_shape=text, data=data, threads=1)
    accuracy = check.run(options).report["accuracy"]
    assert accuracy["samples"] == 5
    assert accuracy["outputs"][0]["count"] == 5 * 10


def _input_shape(model: Path) -> tuple[int, ...]:
    import onnx

    dims = onnx.load(model).graph.input[0].type.tensor_type.shape.dim
    return tuple(d.dim_value or 1 for d in dims)


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = GUIDE.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    model = onnx_cnn(tmp_path / "model.onnx", "input")
    shape = (1, *_input_shape(model)[1:])
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "input.npy", np.ones(shape, np.float32))
    scope: dict[str, object] = {}
    exec(code.replace("1,3,224,224", ",".join(map(str, shape))), scope)
    result = scope["result"]
    assert isinstance(result, check.CheckResult)
    assert result.exit_code == 0
