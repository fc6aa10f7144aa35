"""Predicted against publicly measured kernel times: `python benchmarks/perf_anchors.py [--rows] [--write]`.

Prints the anchors, then error per operator class (median and P90 of the absolute percentage error, share within 25 %, rank
correlation, share of measurements inside the 80 % interval). ``--write`` derives the interval factors of
``src/asc_devkit/perf/data/intervals.csv`` from the residuals. The coefficients were set by hand on these same rows, so
this is in-sample; the first half of the rows (by hash) is compared with the second to show how much that matters.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from asc_devkit import files, ops, perf, soc
from asc_devkit.ge.desc import DESC, GE_DOMAIN, TensorDesc

ROOT = Path(__file__).resolve().parent
ROWS = ROOT / "data" / "measured_kernels.csv"
INTERVALS = ROOT.parent / "src" / "asc_devkit" / "perf" / "data" / "intervals.csv"
_DTYPES = {
    "fp16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
    "fp32": ir.DataType.FLOAT,
    "fp64": ir.DataType.DOUBLE,
    **{f"{s}int{b}": getattr(ir.DataType, f"{s.upper()}INT{b}") for s in ("", "u") for b in (8, 16, 32, 64)},
    "bool": ir.DataType.BOOL,
}
# (M, N, K) and dtype of matrix products, and the two vector anchors: shown one by one.
_ANCHOR = "Ascend910B2"


@dataclass(frozen=True)
class Row:
    """One measured kernel and what the model says about it."""

    type: str
    cost: str
    soc: str
    text: str
    measured_us: float
    op: perf.OpTime

    @property
    def error(self) -> float:
        """log(predicted / measured)."""
        return float(np.log(self.op.us / self.measured_us))


def values(text: str, prefix: str) -> list[ir.Value]:
    """``fp16[2,3]FORMAT;...`` -> IR values."""
    found = []
    for index, part in enumerate(text.split(";")):
        match = re.fullmatch(r"(\w+)\[([\d,]*)\](\w*)", part)
        assert match is not None, part
        shape = [int(d) for d in match[2].split(",") if d]
        value = ir.Value(name=f"{prefix}{index}", shape=ir.Shape(shape), type=ir.TensorType(_DTYPES[match[1]]))
        if match[3]:
            value.meta[DESC] = TensorDesc(match[3], "NCHW", tuple(shape))
        found.append(value)
    return found


def model_of(row: dict[str, str]) -> ir.Model:
    """One-node GE graph of a row."""
    inputs, outputs = values(row["inputs"], "x"), values(row["outputs"], "y")
    attrs = ir.convenience.convert_attributes(json.loads(row["attrs"] or "{}"))
    node = ir.Node(GE_DOMAIN, row["type"], inputs, attrs, outputs=outputs, name=row["type"])
    return ir.Model(ir.Graph(inputs, outputs, nodes=[node]), ir_version=10)


def predict() -> list[Row]:
    """All rows of the table with their predictions."""
    with open(ROWS, newline="", encoding="utf-8") as handle:
        table = list(csv.DictReader(line for line in handle if not line.startswith("#")))
    rows = []
    for row in table:
        spec = ops.lookup(row["type"])
        if spec is None:
            continue
        estimate = perf.estimate(model_of(row), soc.get(row["soc"]), inputs_in_l2=row["warm"] == "1")
        text = f"{row['inputs']} -> {row['outputs']} {row['attrs']}"
        rows.append(Row(row["type"], spec.cost.value, row["soc"], text, float(row["us"]), estimate.operators[0]))
    return [row for row in rows if row.op.us > 0]


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation (ties in order)."""
    if len(a) < 3:
        return float("nan")
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def report(rows: list[Row]) -> None:
    """One line per cost class and operator type with at least five rows."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups["all"].append(row)
        groups[row.cost].append(row)
        groups[f"{row.cost} / {row.type}"].append(row)
        groups[f"~ {row.soc}"].append(row)
    print(f"{'group':34} {'rows':>5} {'median':>7} {'P90':>7} {'<25 %':>6} {'rho':>5} {'in 80 %':>8} {'bias':>6}")
    for name in sorted(groups):
        group = groups[name]
        if len(group) < 5:
            continue
        measured = np.array([r.measured_us for r in group])
        predicted = np.array([r.op.us for r in group])
        ape = np.abs(predicted / measured - 1)
        inside = np.mean([r.op.lo80 <= r.measured_us <= r.op.hi80 for r in group])
        print(
            f"{name:34} {len(group):5d} {np.median(ape):7.1%} {np.quantile(ape, 0.9):7.0%} {np.mean(ape < 0.25):6.0%} "
            f"{spearman(measured, predicted):5.2f} {inside:8.0%} {np.exp(np.median(np.log(predicted / measured))):6.2f}"
        )


def anchors(rows: list[Row]) -> None:
    """Matrix products of the first-listed chip and the streaming Add, one by one."""
    print(f"anchors ({_ANCHOR})\n{'kernel':62} {'measured':>9} {'predicted':>9} {'error':>6}  bound by  80 % interval")
    for row in rows:
        if row.soc == _ANCHOR and (
            (row.type == "MatMulV2" and "p16[" in row.text) or "fp16[8192,8192];fp16" in row.text
        ):
            op = row.op
            print(
                f"{row.type + ' ' + row.text[:50]:62} {row.measured_us:9.2f} {op.us:9.2f} {op.us / row.measured_us - 1:6.0%}"
                f"  {op.bound_by:8}  {op.lo80:.1f} .. {op.hi80:.1f}"
            )


def write_intervals(rows: list[Row]) -> None:
    """Quantiles of measured/predicted per cost class; small classes lean on all rows."""
    everything = np.array([-r.error for r in rows])
    lines = [
        "# Factors that turn a prediction into its 80 % interval, by cost class: 10 % and 90 % quantiles of measured over",
        "# predicted time on benchmarks/data/measured_kernels.csv, written by benchmarks/perf_anchors.py --write. Classes with",
        "# fewer than 20 rows, and those without, use (*): the quantiles of all rows, half as wide again (log scale).",
        "class,low,high,rows,source",
    ]
    low, high = 1.5 * np.quantile(everything, [0.1, 0.9])
    lines.append(f"*,{np.exp(low):.3f},{np.exp(high):.3f},{len(rows)},all rows widened")
    for cost in sorted({r.cost for r in rows}):
        own = np.array([-r.error for r in rows if r.cost == cost])
        if len(own) >= 20:
            low, high = np.quantile(own, [0.1, 0.9])
            # The prediction itself always lies inside its interval.
            lines.append(f"{cost},{np.exp(min(low, -0.05)):.3f},{np.exp(max(high, 0.05)):.3f},{len(own)},own rows")
    lines.append("aicpu,0.300,3.000,0,assumption")
    files.write_text(INTERVALS, "\n".join(lines) + "\n")


def halves(rows: list[Row]) -> None:
    """Coverage on one half of intervals taken from the other: what in-sample quantiles hide."""
    side = [int(hashlib.sha256(r.text.encode()).hexdigest(), 16) % 2 for r in rows]
    for test in (0, 1):
        hits = total = 0
        for cost in {r.cost for r in rows}:
            own = [-r.error for r, s in zip(rows, side, strict=True) if s != test and r.cost == cost]
            if len(own) < 10:
                continue
            low, high = np.quantile(own, [0.1, 0.9])
            errors = [-r.error for r, s in zip(rows, side, strict=True) if s == test and r.cost == cost]
            hits += sum(low <= e <= high for e in errors)
            total += len(errors)
        print(f"coverage of half {test} by intervals of the other half: {hits / max(total, 1):.0%} of {total}")


def main() -> None:
    rows = predict()
    if "--rows" in sys.argv:
        for row in sorted(rows, key=lambda r: (r.type, r.soc, -abs(r.error))):
            op = row.op
            print(
                f"{row.type:16} {row.soc:15} {row.measured_us:9.2f} {op.us:9.2f} x{np.exp(row.error):5.2f} {op.bound_by:7} "
                f"b{op.block_dim} c{op.cube_us:.1f} v{op.vector_us:.1f} m{op.mte_us:.1f} {row.text[:90]}"
            )
    if "--write" in sys.argv:
        write_intervals(rows)
        print(f"wrote {INTERVALS.relative_to(ROOT.parent)}; run again to see the coverage")
        return
    anchors(rows)
    print()
    report(rows)
    print()
    halves(rows)


if __name__ == "__main__":
    main()
