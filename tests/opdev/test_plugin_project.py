"""`asc op new` and `msopgen plugin`: what they write works as it stands, and what cannot be declared is said at once."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from asc_devkit.cli.main import cli
from asc_devkit.cli.msopgen import msopgen
from asc_devkit.errors import AscError
from asc_devkit.opdev.plugin import create, signature


def new(*words: object) -> Result:
    result = CliRunner().invoke(cli, ["op", "new", *map(str, words)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def run_tests(folder: Path) -> str:
    """What pytest says about a project, in a process of its own."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(words, cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=300)
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("acme::ScaledClip", "--inputs", "x limit?", "--attr", "scale=1.5", "--attr", "mode=linear", "--attr", "k:int"),
        ("JoinAll", "--inputs", "first rest*", "--outputs", "y z", "--attr", "axes:list[int]"),
        ("acme::Relu",),  # CANN has a Relu of its own
    ],
    ids=["optional input and attributes", "any number of inputs", "taken GE type"],
)
def test_a_new_project_passes_its_own_tests(words: tuple[str, ...], tmp_path: Path) -> None:
    report = json.loads(new(*words, "-o", tmp_path / "p", "--json").stdout)
    assert {Path(f).name for f in report["files"]} == {p.name for p in (tmp_path / "p").iterdir()}
    assert len(report["files"]) == 5
    assert run_tests(tmp_path / "p").startswith("3 passed")


def test_the_tests_of_a_project_find_a_wrong_formula(tmp_path: Path) -> None:
    made = create(signature("acme::Twice", attrs=["scale=2.0"]), tmp_path / "p")
    made.plugin.write_text(made.plugin.read_text().replace("y = x\n", "y = x + 0.5\n"))
    assert run_tests(made.folder).startswith("3 failed")


def test_msopgen_writes_the_same_project(tmp_path: Path) -> None:
    runner = CliRunner()
    words = ["plugin", "-name", "acme::ScaledClip", "-output", str(tmp_path / "a"), "-attr", "scale=2.0"]
    assert runner.invoke(msopgen, words).exit_code == 0
    new("acme::ScaledClip", "-o", tmp_path / "b", "--attr", "scale=2.0")
    texts = [{p.name: p.read_text() for p in (tmp_path / side).iterdir()} for side in "ab"]
    assert texts[0] == texts[1] and "scaled_clip_plugin.py" in texts[0]


@pytest.mark.provokes("ASC2016")
def test_a_project_is_never_overwritten_unasked(tmp_path: Path) -> None:
    made = create(signature("acme::A"), tmp_path / "p")
    made.plugin.write_text("mine")
    with pytest.raises(AscError) as caught:
        create(signature("acme::A"), tmp_path / "p")
    assert caught.value.problems[0].code == "ASC2016" and len(caught.value.problems[0].nodes) == 5
    assert made.plugin.read_text() == "mine"
    create(signature("acme::A"), tmp_path / "p", force=True)
    assert "def a(" in made.plugin.read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(AscError, match="ASC2016"):
        create(signature("acme::A"), tmp_path / "file", force=True)


@pytest.mark.provokes("ASC2015")
@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("", {}, "no operator name"),
        ("acme::Bad Name", {}, "no operator name"),
        ('a"b::X', {}, "no operator name"),
        ("../x::X", {}, "no operator name"),
        ("acme::X", {"inputs": "x* y"}, "only the last input"),
        ("acme::X", {"inputs": "x? y"}, "cannot be optional"),
        ("acme::X", {"inputs": "class"}, "cannot name an input"),
        ("acme::X", {"inputs": "np"}, "cannot name an input"),
        ("acme::X", {"inputs": "x", "attrs": ["x=1"]}, "is an input and an attribute"),
        ("acme::X", {"attrs": ["k=1", "k=2"]}, "stands there twice"),
        ("acme::X", {"attrs": ["k"]}, "write name=default"),
        ("acme::X", {"attrs": ["k:integer"]}, "the type is one of"),
        ("acme::X", {"attrs": ["k=1e999"]}, "must be finite"),
        ("acme::X", {"attrs": ["k={}"]}, "give a default value"),
        ("acme::X", {"inputs": ""}, "at least one input"),
        ("acme::X", {"inputs": " ".join(f"x{i}" for i in range(99))}, "at most 64"),
        ("acme::X", {"outputs": "y y"}, "different names"),
        ("ai.onnx::Relu", {}, "in the catalogue already"),
        ("acme::X", {"domain": "other"}, "the domain is both"),
    ],
)
def test_what_cannot_be_declared_is_said(name: str, settings: dict[str, object], says: str) -> None:
    with pytest.raises(AscError) as caught:
        signature(name, **settings)  # type: ignore[arg-type]
    assert {p.code for p in caught.value.problems} == {"ASC2015"} and caught.value.exit_code == 2
    assert any(says in p.what for p in caught.value.problems), caught.value.problems


def test_texts_reach_the_files_as_texts(tmp_path: Path) -> None:
    """A default that looks like code is quoted, in every file."""
    evil = '"); import os; os.system("true") #'
    made = create(signature("acme::X", attrs=[f"mode={evil}"]), tmp_path / "p")
    tree = ast.parse(made.plugin.read_text())
    assert evil in {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert not any(isinstance(n, ast.Name) and n.id == "os" for n in ast.walk(tree))


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("ScaledClip", "scaled_clip"),
        ("MyGELUv2", "my_gel_uv2"),
        ("Lambda", "lambda_op"),
        ("RMSNorm", "rms_norm"),
        ("X", "x_op"),
    ],
)
def test_names_of_functions(kind: str, function: str) -> None:
    assert signature(f"acme::{kind}").function == function
