"""Run a model file as it is, and what ``load`` makes of it, on ONNX Runtime; small model builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from asc_devkit.frontends.onnx import Loaded, load

Arrays = Mapping[str, np.ndarray[Any, Any]]

ort.set_default_logger_severity(4)


def options() -> ort.SessionOptions:
    """Deterministic and single-threaded; no graph optimisation, so that both runs compute the same way."""
    found = ort.SessionOptions()
    found.intra_op_num_threads = found.inter_op_num_threads = 1
    found.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return found


def run(model: bytes | str | Path, feeds: Arrays) -> list[Any]:
    """Outputs of a serialised model or a model file; by ONNX's reference where the runtime lacks an operator."""
    try:
        session = ort.InferenceSession(model if isinstance(model, bytes) else str(model), options())
    except NotImplemented:
        return list(ReferenceEvaluator(model).run(None, dict(feeds)))
    names = {i.name for i in session.get_inputs()}
    return list(session.run(None, {k: v for k, v in feeds.items() if k in names}))


def run_loaded(loaded: Loaded, feeds: Arrays) -> list[Any]:
    """Outputs of a canonical model."""
    return run(ir.serde.serialize_model(loaded.model).SerializeToString(), feeds)


def make(
    nodes: Sequence[onnx.NodeProto],
    feeds: Arrays,
    outputs: Sequence[str],
    opset: int,
    constants: Arrays | None = None,
    declare: Mapping[str, Sequence[int | str | None] | None] | None = None,
    **extra: Any,
) -> onnx.ModelProto:
    """A model whose inputs have the feeds' types and shapes (or the shapes in ``declare``); outputs are undeclared."""
    shapes = {k: list(v.shape) for k, v in feeds.items()} | dict(declare or {})
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), shapes[k]) for k, v in feeds.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    weights = [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **extra)


def save(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    """Write the model and return its path."""
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def loaded(model: onnx.ModelProto, folder: Path, **arguments: Any) -> Loaded:
    """What ``load`` makes of the model."""
    return load(save(model, folder), **arguments)
