"""``to_onnx``: a frozen graph through tf2onnx. TensorFlow aborts on some damaged graphs, hence the process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any, Final

import onnx

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.tensorflow.graph import FrozenGraph, Node, read

EXTRA: Final = "pip install 'asc-devkit[tensorflow]'"
MAX_SECONDS: Final = 3600


def to_onnx(
    data: bytes | mmap,
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    out_nodes: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """The ONNX model of a frozen graph. Inputs are called like their placeholders, outputs ``node:index``.

    ``shapes`` are used for placeholders whose rank the graph does not state. Raises ``AscError``: see ``graph.read``, and
    E10501 with every operator tf2onnx lacks, ASC1301 when the extra is missing.
    """
    _needs_tensorflow(str(path))
    graph = read(data, str(path))
    outputs = graph.outputs(out_nodes)
    inputs = graph.inputs_of(outputs)
    given = {name.removesuffix(":0"): tuple(shape) for name, shape in (shapes or {}).items()}
    request = {
        "graph": str(path.resolve()),
        "inputs": [f"{node.name}:0" for node in inputs],
        "outputs": outputs,
        "shapes": {
            f"{node.name}:0": list(given[node.name]) for node in inputs if _rank_unknown(node) and node.name in given
        },
    }
    unknown = [node.name for node in inputs if node.shape is None and node.name not in given]
    if unknown:
        raise AscError(_without_shape(unknown))
    with tempfile.TemporaryDirectory(prefix="asc-tf-") as folder:
        answer = _run(request, Path(folder), str(path))
        if answer.get("unsupported"):
            raise AscError(_unsupported(answer["unsupported"]))
        if "error" in answer:
            raise AscError(_failed(str(path), str(answer["error"])))
        return onnx.load(str(Path(folder) / "model.onnx"))


def input_shapes(data: bytes | mmap, path: Path, out_nodes: Sequence[str] | None = None) -> dict[str, tuple[int, ...]]:
    """Placeholders that the outputs need, with their shapes (-1 for open axes, () for unknown rank). Raises ``AscError``."""
    graph: FrozenGraph = read(data, str(path))
    return {node.name: node.shape or () for node in graph.inputs_of(graph.outputs(out_nodes))}


def _rank_unknown(node: Node) -> bool:
    return not node.shape  # graphs of TensorFlow 1 write an unknown shape as one without dimensions


def _run(request: dict[str, Any], folder: Path, name: str) -> dict[str, Any]:
    """Let the worker convert; its answer, or what can be said about how it ended."""
    (folder / "request.json").write_text(json.dumps(request))
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
    package = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "asc_devkit.frontends.tensorflow.worker", str(folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"it took more than {MAX_SECONDS} s"}
    answer = folder / "answer.json"
    if answer.is_file():
        found: dict[str, Any] = json.loads(answer.read_text())
        return found
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
    return {"error": f"TensorFlow ended with code {done.returncode}: {last[0][:300]}"}


def _needs_tensorflow(name: str) -> None:
    missing = [package for package in ("tensorflow", "tf2onnx") if importlib.util.find_spec(package) is None]
    if missing:
        raise AscError(
            Problem(
                "ASC1301",
                f"{name!r} needs TensorFlow to be converted: {' and '.join(missing)} is not installed.",
                "TensorFlow is an extra, so that the base installation stays small.",
                f"Install it: {EXTRA} (or make an ONNX model where TensorFlow is installed, with tf2onnx).",
                (name[:300],),
                "EE1301",
            )
        )


def _without_shape(names: list[str]) -> Problem:
    example = ";".join(f"{name}:1,224,224,3" for name in names[:8])
    return Problem(
        "E10001",
        f"Value [] for parameter [input_shape] is invalid. Reason: the graph states no shape for {', '.join(names[:8])}",
        "Placeholders without a shape cannot be compiled.",
        f'Give the sizes of your network: --input_shape="{example}"',
        tuple(names),
        "EE1001",
    )


def _unsupported(found: dict[str, list[str]]) -> list[Problem]:
    return [
        Problem(
            "E10501",
            f"ATC unsupported op type: {kind}. No TensorFlow parser exists for {len(names)} operator(s) of that type.",
            "tf2onnx, which does the conversion, lacks it.",
            "Cut the graph before it with --out_nodes, or replace it with supported operators.",
            tuple(f"{name} ({kind})" for name in names),
            "EE2501",
        )
        for kind, names in sorted(found.items())
    ]


def _failed(name: str, said: str) -> Problem:
    return Problem(
        "E12004",
        f"TensorFlow or tf2onnx cannot convert {name!r}: {said[:400]}",
        "The graph is damaged, or holds something that ONNX lacks.",
        "Check that TensorFlow itself loads the graph; python -m tf2onnx.convert --graphdef prints more.",
        (name[:300],),
        "EE1001",
    )
