"""Running models in ONNX Runtime with its own optimisation off: the judge of every pass test."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from asc_devkit.frontends.onnx import load
from asc_devkit.ops.infer import infer
from tests.models import REAL_MODELS

Array = np.ndarray[Any, Any]


def session(model: bytes | str, level: str = "ORT_DISABLE_ALL") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model, options)


def run(model: ir.Model, feeds: dict[str, Array]) -> dict[str, Array]:
    """Outputs by name."""
    loaded = session(ir.to_proto(model).SerializeToString())
    wanted = {i.name for i in loaded.get_inputs()}
    names = [o.name for o in loaded.get_outputs()]
    return dict(zip(names, loaded.run(None, {k: v for k, v in feeds.items() if k in wanted}), strict=True))


def run_everything(model: ir.Model, feeds: dict[str, Array]) -> dict[str, Array]:
    """Every named value of the main graph."""
    proto = ir.to_proto(model)
    have = {o.name for o in proto.graph.output}
    for node in proto.graph.node:
        for name in node.output:
            if name and name not in have:
                proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    loaded = session(proto.SerializeToString())
    return dict(zip([o.name for o in loaded.get_outputs()], loaded.run(None, feeds), strict=True))


def difference(expected: Array, actual: Array) -> float:
    """Largest difference relative to the largest expected value; infinite when the shapes differ."""
    if expected.shape != actual.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(expected, actual) else float("inf")
    wide, other = expected.astype(np.float64), actual.astype(np.float64)
    return float(np.max(np.abs(wide - other)) / max(np.max(np.abs(wide)), 1e-30))


def real(key: str) -> ir.Model:
    """A real model in canonical form with the example shapes and all shapes inferred."""
    model = load(REAL_MODELS[key].path, input_shapes=REAL_MODELS[key].shapes).model
    infer(model)
    return model
