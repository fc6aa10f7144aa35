"""Conversions shared by the end-to-end tests: one `.om` per (model, chip, precision mode), made once per process."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from asc_devkit import atc
from asc_devkit.atc.options import from_flags
from tests.models import REAL_MODELS, example_inputs

_FOLDER = tempfile.TemporaryDirectory(prefix="asc-e2e-")
NEEDS_HOST_OPS = {"t5_int8", "crnn_int8", "bilstm_int8"}  # dynamic int8 operators and contrib LSTMs CANN lacks


@cache
def convert(key: str, soc: str, mode: str = "force_fp16") -> atc.Result:
    """Convert the real model ``key`` with its example shapes."""
    model = REAL_MODELS[key]
    flags = {
        "model": str(model.path),
        "framework": "5",
        "output": str(Path(_FOLDER.name) / f"{key}_{soc}_{mode}"),
        "soc_version": soc,
        "input_shape": model.input_shape,
        "precision_mode": mode,
        "host_ops": "true" if key in NEEDS_HOST_OPS else "false",
    }
    return atc.compile(from_flags(flags))


SEEDS = (0, 1, 2, 3)


@cache
def reference(key: str) -> tuple[tuple[np.ndarray[Any, Any], ...], ...]:
    """Outputs of the original model in fp32 under ONNX Runtime, for the example inputs of each of ``SEEDS``."""
    session = ort.InferenceSession(str(REAL_MODELS[key].path), providers=["CPUExecutionProvider"])
    return tuple(tuple(session.run(None, example_inputs(key, seed))) for seed in SEEDS)


def cosine(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """Cosine of two arrays in float64; 1 when both are all zero."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm if norm else float(np.array_equal(x, y))


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """Euclidean distance relative to the length of ``a``; 0 when both are all zero."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    length = float(np.linalg.norm(x))
    return float(np.linalg.norm(x - y)) / length if length else float(np.linalg.norm(y))
