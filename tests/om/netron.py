"""What netron (the PyPI package's own JavaScript, run under node) shows of an `.om`."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from functools import lru_cache
from importlib import util
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("netron_driver.mjs")


@lru_cache(maxsize=1)
def _scripts() -> Path:
    """netron's reader in a folder that tells node it holds modules (the package does not; newer nodes guess)."""
    spec = util.find_spec("netron")
    assert spec is not None and spec.origin is not None, "the test extra installs netron"
    folder = Path(tempfile.mkdtemp(prefix="netron-js-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for pattern in ("base.js", "protobuf.js", "text.js", "om.js", "om-*"):
        for file in Path(spec.origin).parent.glob(pattern):
            shutil.copy(file, folder)
    (folder / "package.json").write_text('{"type": "module"}\n')
    return folder


def load(path: Path) -> dict[str, Any]:
    """Graphs with nodes (name, type, attribute names, inputs) and weights (type, bytes, sha256) as netron sees them.

    Weights of up to 4096 elements have their ``values`` too, as netron prints them.
    """
    command = ["node", "--no-warnings", str(DRIVER), str(_scripts()), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown
