"""A conversion that is killed leaves the old `.om` or a complete new one, never a broken file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from asc_devkit import om
from tests.models import REAL_MODELS

CODE = """
import sys
from asc_devkit import atc
from asc_devkit.atc.options import from_flags
import asc_devkit.atc.pipeline, asc_devkit.atc.stages, asc_devkit.frontends.onnx, asc_devkit.om
print("ready", flush=True)
model, output, shape = sys.argv[1:]
while True:
    atc.compile(from_flags({"model": model, "framework": "5", "output": output, "soc_version": "Ascend310P3",
                            "input_shape": shape}))
"""


def test_kill_9_at_any_moment_leaves_no_broken_om(tmp_path: Path) -> None:
    model = REAL_MODELS["ppocr_cls"]
    target = tmp_path / "m.om"
    seen = 0
    for delay in (0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3):
        child = subprocess.Popen(
            [sys.executable, "-c", CODE, str(model.path), str(tmp_path / "m"), model.input_shape],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if target.exists():
            seen += 1
            assert sum(1 for _ in om.read(target).to_ir().graph) > 50
    assert seen >= 1
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".om" and p != target]
