"""How much slower is the virtual NPU than plain ONNX Runtime? Measured side by side on every real model.

    python benchmarks/npu_speed.py [--threads 1] [--seconds 2] [--mode force_fp16] [--soc Ascend310P3] [KEY ...]

Each round runs, one after the other, the original model in a default fp32 session, the ``.om`` on the virtual NPU, the
same with every operator output kept in memory, and the same with every operator output written to files. Printed are
medians in ms and their ratios to plain ONNX Runtime. Goals: run <= 1.5x, everything dumped <= 3x (in memory; files add
what the file system takes to create one file per tensor, shown per file).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from asc_devkit import npu
from tests.models import REAL_MODELS, example_inputs, model_path
from tests.npu.build import compile_model

GOAL_RUN, GOAL_VALUES = 1.5, 3.0


@dataclass(frozen=True)
class Row:
    """Milliseconds of one model: plain, virtual NPU, all values in memory, all values in files; loading."""

    plain: float
    run: float
    values: float
    files: float
    file_count: int
    load_ms: float
    hit_ms: float


def interleaved(actions: list[Callable[[], object]], seconds: float) -> list[float]:
    """Median milliseconds of each action; rounds alternate so that a busy machine hits all alike."""
    for action in actions:
        action()
    times: list[list[float]] = [[] for _ in actions]
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 400):
        for action, spent in zip(actions, times, strict=True):
            started = time.perf_counter()
            action()
            spent.append((time.perf_counter() - started) * 1e3)
    return [statistics.median(t) for t in times]


def measure(key: str, arguments: argparse.Namespace, folder: Path) -> Row:
    """Convert, load twice, run."""
    model = REAL_MODELS[key]
    shape = model.input_shape if any(model.shapes.values()) else ""
    om = compile_model(model.path, folder, arguments.soc, arguments.mode, input_shape=shape, host_ops="true")
    first = npu.load(om, threads=arguments.threads)
    session = npu.load(om, threads=arguments.threads)
    feeds = example_inputs(key)
    if key == "bilstm_int8":
        feeds = {name: array % 50 for name, array in feeds.items()}
    feed = {t.name: feeds[t.name] for t in session.inputs}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.log_severity_level = 3
    plain = onnxruntime.InferenceSession(str(model_path(key)), options)
    dump = folder / "dump"
    # The file dump is measured apart: page-cache work left over from it would disturb the others.
    medians = interleaved(
        [lambda: plain.run(None, feeds), lambda: session.run(feed), lambda: session.run_with_values(feed)],
        arguments.seconds,
    )
    written = interleaved([lambda: session.run(feed, dump=dump)], arguments.seconds / 4)
    count = len(list(dump.iterdir()))
    loads = first.info["load_s"] * 1e3, session.info["load_s"] * 1e3
    return Row(medians[0], medians[1], medians[2], written[0], count, *loads)


def main() -> int:
    """Print the table; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", nargs="*", metavar="KEY", help=", ".join(REAL_MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--mode", default="force_fp16")
    parser.add_argument("--soc", default="Ascend310P3")
    arguments = parser.parse_args()
    print(f"ONNX Runtime {onnxruntime.__version__}, {arguments.threads} threads, {arguments.soc}, {arguments.mode}")
    print(
        f"{'model':15} {'plain ms':>9} {'run ms':>9} {'ratio':>6} {'values ms':>9} {'ratio':>6} "
        f"{'files ms':>9} {'ratio':>6} {'per file':>9} {'load':>7} {'hit ms':>7}"
    )
    missed = []
    for key in arguments.keys or REAL_MODELS:
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["ASC_CACHE_DIR"] = scratch
            row = measure(key, arguments, Path(scratch))
            shutil.rmtree(Path(scratch) / "dump", ignore_errors=True)
        run, values, in_files = row.run / row.plain, row.values / row.plain, row.files / row.plain
        per_file = max(0.0, row.files - row.values) / row.file_count * 1e3
        print(
            f"{key:15} {row.plain:9.3f} {row.run:9.3f} {run:6.2f} {row.values:9.3f} {values:6.2f} "
            f"{row.files:9.2f} {in_files:6.1f} {per_file:6.0f} us {row.load_ms:7.0f} {row.hit_ms:7.0f}",
            flush=True,
        )
        missed += [f"{key} run {run:.2f}"] * (run > GOAL_RUN) + [f"{key} values {values:.2f}"] * (values > GOAL_VALUES)
    print("goals met" if not missed else "missed: " + ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
