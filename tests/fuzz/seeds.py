"""The whole files that are damaged: small real models and the ONNX project's examples (OM: what we make of them)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx

from tests.models import model_path

REAL = ("silero_if", "silero_lstm", "magika", "ppocr_cls", "gru_encoder", "melspectrogram")


def onnx_files() -> list[Path]:
    """Real models first, so that they get their share of every count."""
    data = Path(onnx.__file__).parent / "backend/test/data"
    examples = sorted((data / "simple").glob("*/model.onnx")) + sorted((data / "pytorch-operator").glob("*/model.onnx"))
    real = [model_path(key) for key in REAL]
    return [file for i in range(0, len(examples), 3) for file in (*real, *examples[i : i + 3])]


@contextmanager
def seeds(kind: str) -> Iterator[list[Path]]:
    """Files of ``kind``; OM files are made for the occasion."""
    if kind == "onnx":
        yield onnx_files()
        return
    with tempfile.TemporaryDirectory(prefix="seeds-") as folder:
        yield om_files(Path(folder))


def om_files(folder: Path) -> list[Path]:
    """A hand-built graph with fused groups, and the same with compressed attributes."""
    from asc_devkit import om
    from asc_devkit.atc.select import groups
    from tests.om.graphs import model

    made = []
    for compressed in (False, True):
        path = folder / f"graph-{compressed}.om"
        graph = model()
        groups.collapse(graph)
        om.write(path, graph, om.ModelInfo("graph", "Ascend310P3", attr_compression=compressed))
        made.append(path)
    return made
