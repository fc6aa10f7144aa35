"""Whatever goes wrong, the commands print problems (as JSON where that was asked for), never a traceback."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asc_devkit.cli import errors
from asc_devkit.cli.main import main
from tests.cli.shell import asc, atc


def failing(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.provokes("ASC9001", "ASC9999", "E13001", "E13004")
def test_every_kind_of_failure_has_a_code_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    for error, code, status in (
        (MemoryError(), "ASC9001", 2),
        (RuntimeError("surprise"), "ASC9999", 3),
        (FileNotFoundError(errno.ENOENT, "No such file", "m.onnx"), "E13001", 2),
        (OSError(errno.ENOSPC, "No space left on device", "m.om"), "E13004", 2),
    ):
        assert errors.guarded(failing(error)) == status
        printed = capsys.readouterr().err
        assert printed.startswith(code) and "Solution:" in printed and "Traceback" not in printed


def test_an_interruption_has_the_exit_code_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.guarded(failing(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.provokes("ASC1102", "E10001", "E10041")
def test_with_json_a_failure_is_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(b"")
    for words, code in (
        (["check", "m.onnx", "--no-such-option"], "ASC1102"),
        (["check", "m.onnx", "--samples", "none"], "ASC1102"),
        (["check", "m.onnx", "--precision-mode", "fp17"], "E10001"),
        (["check", "missing.onnx"], "E10041"),
    ):
        monkeypatch.setattr(sys, "argv", ["asc", *words, "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
        report = json.loads(capsys.readouterr().out)
        assert stop.value.code == report["exit_code"] == 2
        assert report["schema"] == "asc-devkit/error/1"
        (problem,) = report["problems"]
        assert problem["code"] == code and problem["cause"] and problem["fix"]


@pytest.mark.parametrize(
    "words",
    [
        ["--model=missing.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3"],
        ["--model=empty.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3"],
        ["--model=.", "--framework=5", "--output=m", "--soc_version=Ascend310P3"],
        ["--model=empty.onnx", "--framework=5", "--output=m", "--soc_version=Ascend9"],
        ["--mode=6", "--om=empty.onnx"],
        ["--mode=1", "--om=empty.onnx", "--json=m.json"],
        ["--mode=5", "--om=empty.onnx", "--json=m.json"],
        ["\udcff", "--\udcff=1"],
    ],
)
def test_bad_input_ends_in_a_code_and_never_in_a_traceback(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    done = atc(*words, cwd=tmp_path)
    assert done.code == 2
    assert "ATC run failed" in done.out
    assert "Traceback" not in done.err and "internal error" not in done.err.lower()
    assert done.err[:1] in "EA" and "Solution:" in done.err


def test_a_misspelt_command_of_asc_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = asc("chekc", cwd=tmp_path)
    assert done.code == 2 and "Did you mean 'check'?" in done.err
