"""Codes of the profiling commands that a program or its data must go wrong for."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_devkit.cli import msprof
from asc_devkit.cli.errors import guarded
from tests.profiling import trees
from tests.profiling.test_msprof_command import PROGRAM, Convert, run


@pytest.mark.provokes("ASC6001", "ASC6012")
def test_missing_profiles_and_programs(tmp_path: Path) -> None:
    assert guarded(lambda: msprof.run(["--export=on", f"--output={tmp_path}"])) == 2
    assert guarded(lambda: msprof.run([f"--output={tmp_path}", "no_such_program"])) == 2


@pytest.mark.provokes("ASC6013")
def test_a_program_that_the_system_refuses(tmp_path: Path) -> None:
    program = tmp_path / "app"
    program.write_bytes(b"\x00 no program")
    program.chmod(0o755)
    assert guarded(lambda: msprof.run([f"--output={tmp_path / 'prof'}", str(program)])) == 2


@pytest.mark.provokes("ASC6003", "ASC6015")
def test_unknown_iterations_and_damaged_raw_data(convert: Convert, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    assert run("--output=prof", "app.py", str(convert("minilm", "Ascend910B1")), "1", cwd=tmp_path).returncode == 0
    tree = trees.only(tmp_path / "prof")
    assert guarded(lambda: msprof.run(["--export=on", f"--output={tree}", "--model-id=1", "--iteration-id=9"])) == 2
    for stream in (tree / "host/data").glob("*slice_0*"):
        stream.write_text("{no json\n")
    assert guarded(lambda: msprof.run(["--export=on", f"--output={tree}"])) == 2
