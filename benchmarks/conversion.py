"""Conversion against onnxsim: wall time of each real model (imports excluded, one process each) and peak memory.

    python benchmarks/conversion.py [--soc Ascend310P3] [--repeat 3] [--json]

Goals: ours <= onnxsim + 1 s; peak memory <= 2.5 x model file + 400 MB. Prints figures, never fails on them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

OURS = """
import json, resource, sys, time
from pathlib import Path
import asc_devkit.atc.pipeline, asc_devkit.atc.stages, asc_devkit.frontends.onnx, asc_devkit.om, asc_devkit.perf.memory
from asc_devkit import atc
from asc_devkit.atc.options import from_flags
flags = json.loads(sys.argv[1])
start = time.perf_counter()
result = atc.compile(from_flags(flags))
seconds = time.perf_counter() - start
print(json.dumps({"s": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                  "stages": result.timings_s}))
"""

PEER = """
import json, resource, sys, time
import onnxsim
path, shapes = json.loads(sys.argv[1])
start = time.perf_counter()
onnxsim.simplify(path, overwrite_input_shapes={k: v for k, v in shapes.items() if v})
print(json.dumps({"s": time.perf_counter() - start, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def _child(code: str, argument: object) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, json.dumps(argument)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"child failed:\n{done.stderr[-2000:]}")
    parsed: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def measure(key: str, soc: str, repeat: int, folder: Path) -> dict[str, object]:
    """Best of ``repeat`` runs of ours and of onnxsim, in seconds, with peak resident memory in MB."""
    from tests.e2e.converted import NEEDS_HOST_OPS
    from tests.models import REAL_MODELS

    model = REAL_MODELS[key]
    flags = {
        "model": str(model.path),
        "framework": "5",
        "output": str(folder / key),
        "soc_version": soc,
        "input_shape": model.input_shape,
        "host_ops": "true" if key in NEEDS_HOST_OPS else "false",
    }
    ours = min((_child(OURS, flags) for _ in range(repeat)), key=lambda r: r["s"])
    peer = min((_child(PEER, [str(model.path), model.shapes]) for _ in range(repeat)), key=lambda r: r["s"])
    megabytes = model.path.stat().st_size / 1e6
    return {
        "model": key,
        "ours_s": round(ours["s"], 3),
        "onnxsim_s": round(peer["s"], 3),
        "over_s": round(ours["s"] - peer["s"], 3),
        "within_1s": ours["s"] <= peer["s"] + 1,
        "peak_mb": round(ours["mb"]),
        "onnxsim_peak_mb": round(peer["mb"]),
        "allowed_mb": round(2.5 * megabytes + 400),
        "within_memory": ours["mb"] <= 2.5 * megabytes + 400,
        "stages": {k: round(v, 3) for k, v in dict(ours["stages"]).items()},  # type: ignore[call-overload]
    }


def main() -> None:
    from tests.models import REAL_MODELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soc", default="Ascend310P3")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("models", nargs="*", default=list(REAL_MODELS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for key in arguments.models:
            row = measure(key, arguments.soc, arguments.repeat, Path(folder))
            rows.append(row)
            if not arguments.json:
                verdict = "ok" if row["within_1s"] and row["within_memory"] else "OVER"
                print(
                    f"{key:16} ours {row['ours_s']:6.2f} s  onnxsim {row['onnxsim_s']:6.2f} s  "
                    f"({row['over_s']:+.2f})  peak {row['peak_mb']} of {row['allowed_mb']} MB  {verdict}  {row['stages']}",
                    flush=True,
                )
        if arguments.json:
            print(json.dumps(rows, indent=2))
        else:
            print(f"{sum(bool(r['within_1s']) for r in rows)} of {len(rows)} within onnxsim + 1 s")


if __name__ == "__main__":
    main()
