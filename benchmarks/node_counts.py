"""Nodes left by the optimise stage against onnxsim, onnxslim and ONNX Runtime's basic level, with time and difference.

    python benchmarks/node_counts.py [MODEL ...] [--json]

Example shapes are bound. Nodes of the main graph are counted, members of fused groups singly, constants not.
"difference": largest difference of a result from the original model's, relative to the largest value of that result,
everything run by ONNX Runtime with its optimisation off. Goal: no more nodes than the best of the others, differences
below 1e-5 (the text detector amplifies every rounding; there the column of ONNX Runtime's basic level shows what is
unavoidable).
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime as ort

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from asc_devkit.frontends.onnx import load  # noqa: E402
from asc_devkit.ops.infer import infer  # noqa: E402
from asc_devkit.passes import optimise  # noqa: E402
from tests.models import REAL_MODELS, example_inputs  # noqa: E402
from tests.passes.execute import difference, session  # noqa: E402


def _bound(key: str) -> onnx.ModelProto:
    model = REAL_MODELS[key]
    proto = onnx.load(model.path)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, model.shapes.get(value.name, ()), strict=False):
            dim.Clear()
            dim.dim_value = size
    return proto


def _ours(key: str, _: onnx.ModelProto) -> tuple[onnx.ModelProto, float]:
    model = load(REAL_MODELS[key].path, input_shapes=REAL_MODELS[key].shapes).model
    started = time.perf_counter()
    infer(model)
    optimise(model)
    return ir.to_proto(model), time.perf_counter() - started


def _onnxsim(_: str, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, float]:
    import onnxsim

    started = time.perf_counter()
    return onnxsim.simplify(proto)[0], time.perf_counter() - started


def _onnxslim(_: str, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, float]:
    import onnxslim

    started = time.perf_counter()
    return onnxslim.slim(proto), time.perf_counter() - started


def _onnxruntime(_: str, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 4
        started = time.perf_counter()
        ort.InferenceSession(proto.SerializeToString(), options)
        return onnx.load(path), time.perf_counter() - started


TOOLS: dict[str, Callable[[str, onnx.ModelProto], tuple[onnx.ModelProto, float]]] = {
    "ours": _ours,
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "ORT basic": _onnxruntime,
}


def measure(key: str) -> dict[str, dict[str, Any]]:
    """Tool -> nodes, seconds, difference (or the error that kept it from an answer)."""
    proto, feeds = _bound(key), example_inputs(key)
    expected = session(str(REAL_MODELS[key].path)).run(None, feeds)
    row: dict[str, dict[str, Any]] = {}
    for name, tool in TOOLS.items():
        try:
            result, seconds = tool(key, copy.deepcopy(proto))
            actual = session(result.SerializeToString()).run(None, feeds)
        except Exception as error:  # another tool's failure is a figure too
            row[name] = {"error": str(error).splitlines()[0][:80]}
            continue
        nodes = sum(n.op_type != "Constant" for n in result.graph.node)
        worst = max(difference(e, a) for e, a in zip(expected, actual, strict=True))
        row[name] = {"nodes": nodes, "seconds": round(seconds, 3), "difference": worst}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(REAL_MODELS), help="keys of tests/real_models.csv")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    results = {}
    if not arguments.json:
        print(f"{'model':16}" + "".join(f"{name:>24}" for name in TOOLS))
        print(f"{'':16}" + "".join(f"{'nodes     s  difference':>24}" for _ in TOOLS))
    for key in arguments.models:
        row = results[key] = measure(key)
        if not arguments.json:
            print(f"{key:16}" + "".join(f"{_cell(row[name]):>24}" for name in TOOLS), flush=True)
    if arguments.json:
        print(json.dumps(results, indent=2))


def _cell(figures: dict[str, Any]) -> str:
    if "error" in figures:
        return "failed"
    return f"{figures['nodes']:5d} {figures['seconds']:5.2f} {figures['difference']:11.1e}"


if __name__ == "__main__":
    main()
