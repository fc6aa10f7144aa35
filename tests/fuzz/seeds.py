"""The whole files that are damaged: small real models and the ONNX project's examples (OM: what we make of them)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx

from tests.models import REAL_MODELS, model_path

REAL = ("silero_if", "silero_lstm", "magika", "ppocr_cls", "gru_encoder", "melspectrogram")

CONVERTED = ("silero_lstm", "melspectrogram", "gru_decoder", "ppocr_cls", "silero_if", "magika")


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
    """Small real models converted, one of them with compressed attributes (as the vendor's files have)."""
    from asc_devkit import atc
    from asc_devkit.atc.options import from_flags

    made = []
    for number, key in enumerate(CONVERTED):
        flags = {
            "model": str(model_path(key)), "framework": "5", "output": str(folder / key), "soc_version": "Ascend310P3",
            "input_shape": REAL_MODELS[key].input_shape, "enable_attr_compression": "false" if number else "true",
        }  # fmt: skip
        made.append(atc.compile(from_flags(flags)).om_path)
    return made
