"""Runs the original and the fixed model over the same random inputs and compares every output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime as ort

Array = np.ndarray[Any, Any]
#: Largest difference, as a share of the largest value of the output, that counts as equal (float32 sums in another order).
TOLERANCE: Final = 1e-4
#: The same for 16-bit floats: a few units in the last place.
_HALF: Final = {"float16": 2e-3, "bfloat16": 1.6e-2}
_MASKED: Final = 1e38  # masks are written as infinity or as the largest float
_QUIET: Final = 4


@dataclass(frozen=True)
class Difference:
    """One output over all runs: largest difference, and as a share of its largest value; ``equal`` within ``TOLERANCE``."""

    output: str
    max_abs: float
    relative: float
    exact: bool
    equal: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Proof:
    """``runtime``: what ran the original; ``error``: why nothing could be compared; ``refused``: it took no inputs."""

    differences: tuple[Difference, ...]
    runs: int
    runtime: str
    error: str = ""
    refused: bool = False

    @property
    def holds(self) -> bool:
        return not self.error and all(d.equal for d in self.differences)

    def as_dict(self) -> dict[str, Any]:
        rows = [d.as_dict() for d in self.differences]
        return {"runs": self.runs, "runtime": self.runtime, "holds": self.holds, "error": self.error, "outputs": rows}


def prove(original: Path, fixed: Path, feeds: Iterable[Mapping[str, Any]], tolerance: float = TOLERANCE) -> Proof:
    """Compare both models over ``feeds``. ``onnx.reference`` runs an original that ONNX Runtime cannot."""
    try:
        before, runtime = _Runner(original), "ONNX Runtime"
    except Exception as reason:  # ONNX Runtime's exceptions have no common base
        try:
            before, runtime = _Runner(original, reference=True), "onnx.reference"
        except Exception:
            return Proof((), 0, "", f"the original model does not run here: {_text(reason)}")
    try:
        after = _Runner(fixed)
    except Exception as reason:
        if runtime == "ONNX Runtime" and not _lacks_kernel(reason):
            return Proof((), 0, runtime, f"the fixed model does not run: {_text(reason)}")
        try:
            after = _Runner(fixed, reference=True)
        except Exception:
            return Proof((), 0, runtime, f"the fixed model does not run: {_text(reason)}")
    worst: dict[str, list[Difference]] = {name: [] for name in before.outputs}
    for number, feed in enumerate(feeds):
        try:
            expected = before.run(feed)
        except Exception as reason:
            return Proof((), number, runtime, f"the original model refuses these inputs: {_text(reason)}", True)
        try:
            found = after.run(feed)
        except Exception as reason:
            return Proof((), number, runtime, f"the fixed model fails where the original does not: {_text(reason)}")
        for name, old, new in zip(before.outputs, expected, found, strict=True):
            worst[name].append(_compare(name, old, new, tolerance))
    rows = [max(found, key=lambda d: (not d.equal, d.relative)) for found in worst.values() if found]
    return Proof(tuple(rows), max(map(len, worst.values()), default=0), runtime)


class _Runner:
    def __init__(self, path: Path, reference: bool = False) -> None:
        self.session: Any
        if reference:
            from onnx.reference import ReferenceEvaluator

            model = onnx.load(path)
            self.session = ReferenceEvaluator(model)
            self.outputs = [o.name for o in model.graph.output]
            return
        options = ort.SessionOptions()
        options.log_severity_level = _QUIET
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        return list(self.session.run(self.outputs, dict(feed)))


def _compare(name: str, old: Any, new: Any, tolerance: float) -> Difference:
    if isinstance(old, list) or isinstance(new, list) or old is None or new is None:
        return _compare_lists(name, old, new, tolerance)
    one, other = np.asarray(old), np.asarray(new)
    if one.shape != other.shape or one.dtype != other.dtype:
        return Difference(name, float("inf"), float("inf"), False, False)
    if one.dtype.kind not in "biufc" and str(one.dtype) not in _HALF:
        same = bool((one == other).all())
        return Difference(name, 0.0 if same else float("inf"), 0.0 if same else float("inf"), same, same)
    tolerance = max(tolerance, _HALF.get(str(one.dtype), 0.0))
    wide, narrow = map(_as_float64, (one, other))
    exact = bool(np.array_equal(wide, narrow, equal_nan=True))
    if exact or not one.size:
        return Difference(name, 0.0, 0.0, True, True)
    finite = np.isfinite(wide) & np.isfinite(narrow)
    agree = np.array_equal(wide[~finite], narrow[~finite], equal_nan=True)
    gap = np.abs(wide[finite] - narrow[finite])
    most, scale = float(gap.max(initial=0.0)), float(np.abs(wide[finite]).max(initial=0.0))
    relative = most / scale if scale else (0.0 if not most else float("inf"))
    return Difference(name, most, relative, False, bool(agree and relative <= tolerance))


def _as_float64(array: Array) -> Array:
    """Real numbers, complex ones as pairs; masks of both spellings alike."""
    wide = array.astype(np.complex128).view(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)
    return np.where(wide > _MASKED, np.inf, np.where(wide < -_MASKED, -np.inf, wide))


def _lacks_kernel(reason: Exception) -> bool:
    return "NOT_IMPLEMENTED" in str(reason)


def _compare_lists(name: str, old: Any, new: Any, tolerance: float) -> Difference:
    if old is None or new is None or len(old) != len(new):
        same = old is None and new is None
        return Difference(name, 0.0 if same else float("inf"), 0.0 if same else float("inf"), same, same)
    parts = [_compare(name, a, b, tolerance) for a, b in zip(old, new, strict=True)]
    return max(parts, key=lambda d: (not d.equal, d.relative), default=Difference(name, 0.0, 0.0, True, True))


def _text(reason: Exception) -> str:
    return str(reason).strip().splitlines()[0][:300] if str(reason).strip() else type(reason).__name__
