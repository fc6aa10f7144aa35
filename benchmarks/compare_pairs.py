"""Compares 500 pairs of 1 MiB tensors (.npy and .pt) on one core, next to the vendor's msprobe when it is installed.

    python benchmarks/compare_pairs.py [--pairs 500] [--msprobe]

Prints wall and CPU seconds beyond start-up, peak memory, and the ratio to msprobe 26.2.0 on the same files (its virtual
environment's command is found on PATH or given with --msprobe PATH).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

ELEMENTS = 262_144


def save_pt(path: Path, array: np.ndarray) -> None:
    """A float32 tensor in the form torch.save writes (stored members, elements aligned to 64 bytes)."""
    import pickle

    name = path.stem
    shape, strides = array.shape, tuple(s // 4 for s in array.strides)
    program = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    program += b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + pickle.dumps(array.size, 2)[2:-1] + b"tQK\x00"
    program += pickle.dumps(shape, 2)[2:-1] + pickle.dumps(strides, 2)[2:-1] + b"\x89ccollections\nOrderedDict\n)RtR."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", program)
        archive.writestr(f"{name}/byteorder", "little")
        archive.writestr(f"{name}/data/0", array.tobytes())
        archive.writestr(f"{name}/version", "3\n")


def make(folder: Path, pairs: int, kind: str) -> None:
    """Write ``pairs`` pairs into folder/golden and folder/target, as msprobe trees for ``pt``."""
    rng = np.random.default_rng(0)
    for side in ("golden", "target"):
        base = folder / side / ("step0/rank0/dump_tensor_data" if kind == "pt" else "")
        base.mkdir(parents=True)
    data: dict[str, dict] = {}
    for number in range(pairs):
        golden = rng.standard_normal((64, 64, 64), np.float32)
        target = golden * (1 + rng.standard_normal(golden.shape, np.float32) * np.float32(2**-11))
        api = f"Torch.relu.{number}.forward"
        name = f"{api}.output.0.{kind}"
        for side, array in (("golden", golden), ("target", target)):
            base = folder / side / ("step0/rank0/dump_tensor_data" if kind == "pt" else "")
            if kind == "pt":
                save_pt(base / name, array)
            else:
                np.save(base / name, array)
        entry = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [64, 64, 64], "requires_grad": False}
        entry |= dict.fromkeys(("Max", "Min", "Mean", "Norm"), 0.0) | {"data_name": name}
        data[api] = {"input_args": [], "input_kwargs": {}, "output": [entry]}
    if kind == "pt":
        for side in ("golden", "target"):
            base = folder / side / "step0/rank0"
            facts = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data}
            facts["dump_data_dir"] = str(base / "dump_tensor_data")
            (base / "dump.json").write_text(json.dumps(facts))
            stack = {"0": [list(data), ["File a.py, line 1, in f, \n f()"]]}
            (base / "stack.json").write_text(json.dumps(stack))
            (base / "construct.json").write_text(json.dumps(dict.fromkeys(data)))


WORKER = """
import json, resource, sys, time
from pathlib import Path
from asc_devkit.precision.comparison import Options, compare_paths
from asc_devkit.precision.comparison.pairs import PairOptions
from asc_devkit.precision.policy import Policy
golden, target = map(Path, sys.argv[1:3])
wall, cpu = time.perf_counter(), time.process_time()
result = compare_paths(golden, target, Options(PairOptions(Policy("combined", {"atol": 1e-2})), workers=1))
facts = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": len(result.rows)}
facts["passed"] = result.passed
facts["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(facts))
"""


def ours(folder: Path) -> dict:
    """One comparison in a process of its own, on one core."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, str(folder / "golden"), str(folder / "target")]
    if shutil.which("taskset"):
        command = ["taskset", "-c", "0", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def theirs(folder: Path, command: str) -> float:
    """Seconds msprobe takes for the same files (start-up included), and prints its own start-up."""
    started = time.perf_counter()
    subprocess.run([command, "-h"], capture_output=True, check=False)
    start_up = time.perf_counter() - started
    arguments = [
        "-tp",
        str(folder / "target/step0/rank0/dump.json"),
        "-gp",
        str(folder / "golden/step0/rank0/dump.json"),
    ]
    started = time.perf_counter()
    done = subprocess.run([command, "compare", *arguments, "-o", str(folder / "out")], capture_output=True, text=True)
    wall = time.perf_counter() - started
    written = list((folder / "out").glob("*.csv")) if (folder / "out").is_dir() else []
    if not written:
        print("msprobe wrote no result:", (done.stdout + done.stderr)[-800:])
    return wall - start_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--msprobe", default=shutil.which("msprobe-vendor") or "")
    options = parser.parse_args()
    for kind in ("npy", "pt"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            make(folder, options.pairs, kind)
            ours(folder)  # fills the page cache
            runs = sorted((ours(folder) for _ in range(3)), key=lambda run: run["wall"])
            best = runs[0]
            size = options.pairs * ELEMENTS * 8 / 1e9
            print(
                f".{kind}: {best['rows']} pairs, {size:.2f} GB: best of 3 {best['wall']:.2f} s wall, {best['cpu']:.2f} s CPU, "
                f"{size / best['wall']:.2f} GB/s, peak {best['peak_mib']:.0f} MiB (goal: 1.5 s, 120 MB)"
            )
            if kind == "pt" and options.msprobe:
                seconds = theirs(folder, options.msprobe)
                print(f"msprobe: {seconds:.1f} s beyond its start-up; ratio {seconds / best['wall']:.1f} (goal: 20)")


if __name__ == "__main__":
    main()
