"""What the README claims holds: its sample is what `asc check` prints, its commands exist, its figures are right."""

from __future__ import annotations

import re
from pathlib import Path

from asc_devkit import soc
from tests.cli.shell import asc

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


def _shape(line: str) -> str:
    """The words of a line: numbers differ in their last digits between processors, box lines with the width."""
    return re.sub(r"[\d.]+(e-?\d+)?", "#", re.sub(r"[╭╮╰╯│─\s]+", " ", line)).strip()


def test_the_sample_is_what_the_command_prints(tmp_path: Path) -> None:
    block = README.split("<!-- sample:begin", 1)[1].split("```")[1].strip().splitlines()
    assert block[0] == "$ asc check"
    done = asc("check", "-o", "asc_out", cwd=tmp_path)
    assert done.code == 0, done.err
    printed = [_shape(line) for line in done.out.strip().splitlines()]
    promised = [_shape(line) for line in block[1:]]
    steady = [line for line in promised if line and not re.match(r"^(/|trans_)", line)]  # layer order may swap on ties
    assert [line for line in steady if line not in printed] == []
    assert (tmp_path / "asc_out" / "report.html").is_file()


def test_every_command_of_the_table_exists() -> None:
    rows = re.findall(r"^\| `asc (\w+)", README, re.M)
    assert {"check", "convert", "run", "om", "soc", "doctor"} <= set(rows)
    for name in rows:
        assert asc(name, "--help").code == 0, name


def test_the_number_of_chips_is_right() -> None:
    assert f"Figures of {len(soc.names())} chips" in README


def test_the_two_commands_are_make_targets() -> None:
    makefile = (Path(__file__).resolve().parent.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_independence_from_huawei_and_the_nature_of_the_numbers_are_stated() -> None:
    assert "not affiliated with or endorsed by Huawei" in README
    for word in ("**simulated**", "**estimated**", "**planned**"):
        assert word in README
