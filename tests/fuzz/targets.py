"""What the fuzzer runs on each damaged file. A target returns a word for the statistics, or raises.

``AscError`` is a proper refusal. Anything else, a result that is wrong, or a file left half written, is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Target = Callable[[Path, Path], str]


def load_onnx(path: Path, folder: Path) -> str:
    """The front end alone, with every weight read once."""
    from asc_devkit.frontends.onnx import load

    form = load(path)
    for value in form.model.graph.initializers.values():
        assert value.const_value is not None and value.const_value.shape is not None
        value.const_value.tobytes()
    for node in form.model.graph.all_nodes():
        assert node.name and node.version is None
    return "loaded"


TARGETS: dict[str, Target] = {"load_onnx": load_onnx}
DEFAULT = {"onnx": "load_onnx"}
