"""2,000 damaged ONNX files and 2,000 damaged `.om` files through the whole chain: refused, or right, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "fuzz.py"


@pytest.mark.conformance
@pytest.mark.parametrize("kind", ["onnx", "om"])
def test_two_thousand_damaged_files(kind: str) -> None:
    command = [sys.executable, "-W", "ignore", str(FUZZ), "--count", "2000", "--seed", "1", "--kind", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
