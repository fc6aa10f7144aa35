"""The figures of a benchmark: statistics of measured times, throughput, and the estimate for the chip beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from asc_devkit import om, perf, soc
from asc_devkit.errors import AscError

MEASURED: Final = "measured on this CPU, not NPU time"
LINE: Final = "-----------------Performance Summary------------------"


def statistics(times: Sequence[float]) -> dict[str, float]:
    """min, max, mean, median and percentile(99%) of milliseconds; zeros when there are none."""
    values = np.asarray([float(t) for t in times] or [0.0])
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "percentile(99%)": float(np.percentile(values, 99)),
    }


def report(compute: Sequence[float], h2d: Sequence[float], d2h: Sequence[float], batch: int) -> dict[str, Any]:
    """The summary in the tool's words. throughput = 1000 * batch / mean of the compute times."""
    times = statistics(compute)
    return {
        "NPU_compute_time": times,
        "H2D_latency": statistics(h2d),
        "D2H_latency": statistics(d2h),
        "throughput": 1000 * batch / times["mean"] if times["mean"] else 0.0,
        "batchsize": batch,
        "timing": MEASURED,
    }


def estimate(file: om.OmFile, gear: int | None, batch: int) -> dict[str, Any] | None:
    """The predicted time on the chip the model was converted for, milliseconds; None when the chip is unknown."""
    try:
        chip = soc.resolve(str(file.attrs.get("soc_version", ""))).soc
        found = perf.estimate(file.to_ir(gear), chip)
    except AscError:
        return None
    total = found.total_us / 1e3
    return {
        "soc": found.soc,
        "time_ms": total,
        "lo80_ms": found.lo80 / 1e3,
        "hi80_ms": found.hi80 / 1e3,
        "throughput": 1000 * batch / total if total else 0.0,
        "basis": "estimated by the performance model",
    }


def lines(summary: Mapping[str, Any], display_all: bool) -> list[str]:
    """What the tool prints, and two lines more that say what the numbers are."""
    rows = [("NPU_compute_time", summary["NPU_compute_time"])]
    if display_all:
        rows = [("H2D_latency", summary["H2D_latency"]), *rows, ("D2H_latency", summary["D2H_latency"])]
    batch, mean = summary["batchsize"], summary["NPU_compute_time"]["mean"]
    text = [LINE]
    text += [f"{name} (ms): " + ", ".join(f"{k} = {v}" for k, v in values.items()) for name, values in rows]
    text.append(f"throughput 1000*batchsize.mean({batch})/NPU_compute_time.mean({mean}): {summary['throughput']}")
    text.append("-" * len(LINE))
    text.append(f"The times above were {MEASURED}.")
    guess = summary.get("estimate")
    if guess:
        text.append(
            f"Estimated NPU time on {guess['soc']}: {guess['time_ms']:.3f} ms (80 % interval {guess['lo80_ms']:.3f} to "
            f"{guess['hi80_ms']:.3f} ms), throughput {guess['throughput']:.1f} (estimated)."
        )
    return [f"[INFO] {line}" for line in text]
