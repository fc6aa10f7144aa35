"""Running the commands as a user does (own process), and the small CNN the command tests convert."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Finished:
    """Exit code and both streams of a finished command."""

    code: int
    out: str
    err: str


def run(*words: str, cwd: Path | None = None, timeout: float = 120) -> Finished:
    """Run ``words`` and return what happened."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


def atc(*arguments: str, cwd: Path | None = None) -> Finished:
    """The `atc` command of this installation."""
    return run(str(Path(sys.executable).with_name("atc")), *arguments, cwd=cwd)


def asc(*arguments: str, cwd: Path | None = None) -> Finished:
    """The `asc` command of this installation."""
    return run(str(Path(sys.executable).with_name("asc")), *arguments, cwd=cwd)


def onnx_cnn(path: Path, input_name: str) -> Path:
    """Conv+BN+Relu, Conv+Relu, pooling, Gemm, Softmax; dynamic batch, named nodes; output called ``output``."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) * 0.1).astype(np.float32), name)

    ones = numpy_helper.from_array(np.ones(8, np.float32), "ones")
    nodes = [
        helper.make_node("Conv", [input_name, "w1"], ["c1"], "conv_a", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "ones", "b1", "b1", "ones"], ["n1"], "bn_a"),
        helper.make_node("Relu", ["n1"], ["r1"], "relu_a"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv_b", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu_b"),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["g"], "gemm"),
        helper.make_node("Softmax", ["g"], ["output"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "cnn",
        [helper.make_tensor_value_info(input_name, onnx.TensorProto.FLOAT, ["N", 3, 32, 32])],
        [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["N", 10])],
        [
            weight("w1", 8, 3, 3, 3),
            ones,
            weight("b1", 8),
            weight("w2", 16, 8, 3, 3),
            weight("w3", 16, 10),
            weight("b3", 10),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
