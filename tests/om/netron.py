"""What netron (the PyPI package's own JavaScript, run under node) shows of an `.om`."""

from __future__ import annotations

import json
import subprocess
from importlib import util
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("netron_driver.mjs")


def load(path: Path) -> dict[str, Any]:
    """Graphs with nodes (name, type, attribute names, inputs) and weights (type, bytes, sha256) as netron sees them."""
    spec = util.find_spec("netron")
    assert spec is not None and spec.origin is not None, "the test extra installs netron"
    command = ["node", "--no-warnings", str(DRIVER), str(Path(spec.origin).parent), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown
