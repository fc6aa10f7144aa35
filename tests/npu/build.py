"""Small ONNX models and their conversion, for tests that need an ``.om``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from asc_devkit import atc
from asc_devkit.atc.options import from_flags

Array = np.ndarray[Any, Any]


def compile_model(model: Path, folder: Path, soc: str = "Ascend310P3", mode: str = "force_fp16", **flags: str) -> Path:
    """Convert ``model``; returns the path of the ``.om``."""
    given = {
        "model": str(model),
        "framework": "5",
        "output": str(folder / model.stem),
        "soc_version": soc,
        "precision_mode": mode,
        **flags,
    }
    return atc.compile(from_flags({k: v for k, v in given.items() if v})).om_path


def proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Array] | None = None,
    dtypes: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """An opset-18 model; tensors are float unless ``dtypes`` says otherwise."""
    kinds = dtypes or {}

    def info(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kinds.get(name, onnx.TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        list(nodes),
        "g",
        [info(n, s) for n, s in inputs.items()],
        [info(n, s) for n, s in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def compiled(model: onnx.ModelProto, folder: Path, soc: str = "Ascend310P3", mode: str = "force_fp16") -> Path:
    """Save and convert a model made here."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    return compile_model(path, folder, soc, mode)
