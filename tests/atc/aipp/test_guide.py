"""docs/aipp.md: its sample works as it says, and it speaks of every field of the configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asc_devkit.atc.aipp import load
from asc_devkit.atc.aipp.config import RANGES, RGB_TO_YUV, YUV_TO_BGR
from asc_devkit.ge.proto import aipp_pb2
from tests.atc.aipp.compiled import compile_with
from tests.cli.shell import asc

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "aipp.md").read_text(encoding="utf-8")


def test_the_sample_makes_the_input_the_page_shows(tmp_path: Path) -> None:
    sample = GUIDE.split("```")[3].strip()
    fields = sample.removeprefix("aipp_op {").removesuffix("}").replace("aipp_mode: static", "")
    compile_with(tmp_path, fields, (1, 3, 224, 224))
    promised = re.search(r"`input  (uint8 .*?)`", GUIDE)
    assert promised is not None
    assert f"x  {promised.group(1)}" in asc("om", "show", str(tmp_path / "m.om")).out


def test_every_field_is_on_the_page() -> None:
    spelled = re.sub(r"`(\w+?)_w/h`", r"`\1_w` `\1_h`", GUIDE)
    for stem, count in re.findall(r"`(\w+_)0\.\.(\d)`", GUIDE):
        spelled += " ".join(f"`{stem}{i}`" for i in range(int(count) + 1))
    spelled += " ".join(f"`matrix_r{r}c{c}`" for r in range(3) for c in range(3))
    missing = [f.name for f in aipp_pb2.AippOp.DESCRIPTOR.fields if f"`{f.name}`" not in spelled]
    assert not missing


def test_ranges_on_the_page_are_those_that_are_checked() -> None:
    table = GUIDE.split("## Fields")[1].split("##")[0].splitlines()
    for stem, (low, high) in RANGES.items():
        row = next(text for text in table if f"`{stem}" in text)
        assert f"{high:g}" in row and (f"{low:g}" in row or "up to" in row or "2 to" in row), stem


@pytest.mark.parametrize(
    ("title", "matrix"), [("| BT.601 narrow | RGB |", YUV_TO_BGR), ("| RGB | BT.601 narrow |", RGB_TO_YUV)]
)
def test_the_default_matrices_are_on_the_page(title: str, matrix: tuple[int, ...]) -> None:
    numbers = [int(n) for n in re.findall(r"-?\d+", GUIDE.split(title)[1].split("|")[0])]
    if matrix is YUV_TO_BGR:
        numbers = numbers[6:] + numbers[3:6] + numbers[:3]
    assert tuple(numbers) == matrix


def test_every_matrix_of_the_page_can_be_given(tmp_path: Path) -> None:
    table = GUIDE.split("## Colour matrices")[1].split("##")[0]
    rows = [row for row in table.splitlines() if re.search(r"\| (input|output) \d", row)]
    assert len(rows) == 8
    for row in rows:
        source, _, matrix, bias = (cell.strip() for cell in row.strip("|").split("|"))
        side, *offsets = bias.split()
        picture = "RGB888_U8" if source == "RGB" else "YUV420SP_U8"
        fields = [f"aipp_mode: static input_format: {picture} csc_switch: true"]
        fields += [f"matrix_r{i // 3}c{i % 3}: {n}" for i, n in enumerate(re.findall(r"-?\d+", matrix))]
        fields += [f"{side}_bias_{i}: {n}" for i, n in enumerate(offsets)]
        (tmp_path / "aipp.cfg").write_text("aipp_op { " + " ".join(fields) + " }")
        (aipp,) = load(tmp_path / "aipp.cfg")
        sums = [sum(aipp.matrix[3 * r : 3 * r + 3]) for r in range(3)]
        assert (sums[0] in (256, 220)) if picture == "RGB888_U8" else aipp.matrix[0] in (256, 298)  # white stays white
