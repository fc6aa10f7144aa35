"""What pyACL adds: acl.mdl.execute on a model against a bare ONNX Runtime session of the same lowered graph.

    python benchmarks/acl_overhead.py

Prints the median of both in microseconds, in alternating runs, for a small and a real model (the goal: 5 % or 30 us).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import acl
from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags
from tests.cli.shell import onnx_cnn
from tests.models import example_inputs, model_path


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx_cnn(folder / "small.onnx", "x")
        measure("small CNN", folder / "small.onnx", {"x": np.zeros((1, 3, 32, 32), np.float32)}, folder, 2000)
        measure("open_nsfw", model_path("open_nsfw"), example_inputs("open_nsfw"), folder, 20)


def measure(title: str, model: Path, feeds: dict[str, np.ndarray], folder: Path, count: int) -> None:
    shapes = ";".join(f"{k}:{','.join(map(str, v.shape))}" for k, v in feeds.items())
    flags = {"model": str(model), "framework": "5", "output": str(folder / model.stem), "soc_version": "Ascend310P3"}
    path = atc.compile(from_flags({**flags, "input_shape": shapes})).om_path
    session = npu.load(path, threads=2)
    acl.init()
    acl.rt.set_device(0)
    number, _ = acl.mdl.load_from_file(str(path))
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, number)
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset, total, size in (
        (inputs, acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index),
        (outputs, acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index),
    ):
        for index in range(total):
            address, _ = acl.rt.malloc(size(desc, index), 0)
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size(desc, index)))
    given = {t.name: np.asarray(feeds[t.name], t.dtype) for t in session.inputs}
    plain: list[float] = []
    through: list[float] = []
    for _ in range(5):
        session.run(given)
        acl.mdl.execute(number, inputs, outputs)
    for _ in range(count):
        begun = time.perf_counter()
        session.run(given)
        middle = time.perf_counter()
        acl.mdl.execute(number, inputs, outputs)
        plain.append(middle - begun)
        through.append(time.perf_counter() - middle)
    a, b = statistics.median(plain) * 1e6, statistics.median(through) * 1e6
    print(f"{title}: session {a:.1f} us, acl.mdl.execute {b:.1f} us: {b - a:+.1f} us ({b / a - 1:+.1%})")
    acl.finalize()


if __name__ == "__main__":
    main()
