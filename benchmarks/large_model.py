"""A 2 GB model with external data converts and runs within 8 GB: makes it, converts it, runs it, prints time and memory.

python benchmarks/large_model.py [--gigabytes 2] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 4096
BLOCK_BYTES = WIDTH * WIDTH * 4

CONVERT = """
import json, resource, sys, time
from asc_devkit import atc
from asc_devkit.atc.options import from_flags
start = time.perf_counter()
atc.compile(from_flags(json.loads(sys.argv[1])))
print(json.dumps({"s": time.perf_counter() - start, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

RUN = f"""
import json, resource, sys, time
import numpy as np
from asc_devkit import npu
start = time.perf_counter()
session = npu.load(sys.argv[1])
loaded = time.perf_counter()
x = np.random.default_rng(0).standard_normal((4, {WIDTH})).astype(np.float32)
(y,) = session.run({{"x": x}}).values()
assert y.shape == (4, {WIDTH}) and np.isfinite(y).all() and y.std() > 0
print(json.dumps({{"load_s": loaded - start, "run_s": time.perf_counter() - loaded,
                  "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""


def make(folder: Path, gigabytes: float) -> Path:
    """Write a chain of 4096x4096 MatMul+Relu layers with random weights in one external file; returns the .onnx."""
    layers = max(1, round(gigabytes * 1e9 / BLOCK_BYTES))
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    with open(folder / "weights.bin", "wb") as handle:
        for layer in range(layers):
            handle.write((rng.standard_normal((WIDTH, WIDTH), np.float32) * np.float32(1.4 / WIDTH**0.5)).tobytes())
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in (("location", "weights.bin"), ("offset", layer * BLOCK_BYTES), ("length", BLOCK_BYTES)):
                tensor.external_data.add(key=key, value=str(text))
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"], f"matmul{layer}"))
            nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], f"relu{layer}"))
            value = f"r{layer}"
    shape = ["N", WIDTH]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "large.onnx"
    path.write_bytes(model.SerializeToString())
    onnx.load(path, load_external_data=False)
    return path


def _child(code: str, argument: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"child failed:\n{done.stderr[-3000:]}")
    parsed: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--keep", type=Path, help="Work in this folder and leave the files there.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = make(folder, arguments.gigabytes)
        size = (folder / "weights.bin").stat().st_size / 1e9
        flags = {
            "model": str(path),
            "framework": "5",
            "output": str(folder / "large"),
            "soc_version": "Ascend910B2",
            "input_shape": f"x:4,{WIDTH}",
        }
        converted = _child(CONVERT, json.dumps(flags))
        print(f"model {size:.2f} GB: converted in {converted['s']:.1f} s, peak {converted['mb'] / 1024:.2f} GiB")
        first = _child(RUN, str(folder / "large.om"))
        again = _child(RUN, str(folder / "large.om"))
        for name, row in (("first", first), ("second", again)):
            print(
                f"{name} run: load {row['load_s']:.1f} s, run {row['run_s']:.2f} s, peak {row['mb'] / 1024:.2f} GiB",
            )
        peak = max(converted["mb"], first["mb"], again["mb"]) / 1024
        print(f"largest peak {peak:.2f} GiB of 8 GiB allowed: {'ok' if peak <= 8 else 'OVER'}")


if __name__ == "__main__":
    main()
