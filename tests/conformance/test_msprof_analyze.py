"""The vendor's msprof-analyze 26.2.0 on profiles of the virtual NPU: its advisor reads the tree and finds the operators.

Its ``compare`` and ``cluster`` take profiles of PyTorch or MindSpore only, whichever tool wrote the tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import openpyxl
import pytest

from tests.cli.shell import asc, onnx_cnn

pytestmark = pytest.mark.conformance


def test_the_advisor_reads_our_trees(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "site"), "msprof-analyze==26.2.0"]
    subprocess.run(words, check=True, timeout=600)
    onnx_cnn(tmp_path / "m.onnx", "x")
    made = asc(
        "convert",
        str(tmp_path / "m.onnx"),
        "--soc",
        "Ascend910B2",
        "--input-shape",
        "x:8,3,32,32",
        "-o",
        str(tmp_path / "m.om"),
    )
    assert made.code == 0, made.err
    assert asc("profile", "run", str(tmp_path / "m.om"), "-o", str(tmp_path / "prof")).code == 0
    (tree,) = (tmp_path / "prof").glob("PROF_*")
    tool = str(tmp_path / "site" / "bin" / "msprof-analyze")
    command = [sys.executable, tool, "advisor", "all", "-d", str(tree), "-o", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "[ERROR]" not in said and "Traceback" not in said, said[-3000:]
    (table,) = (tmp_path / "out").rglob("mstt_advisor_*.xlsx")
    assert openpyxl.load_workbook(table).sheetnames
