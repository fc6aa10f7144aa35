"""ONNX's backend suite with ``precision_mode=force_fp16``: every float32 and float16 output, element by element.

A test is *close* when each element is within 2 fp16 units or 1e-3 relative of the expected value. fp16 rounds inputs and
weights too, and some operators enlarge what that does (a difference of near numbers, a power); so tests that are not close
are judged again with values that onnx.reference computes from rounded inputs and weights. What is close in neither way
must stand in ``fp16_gaps.csv`` with its reason, and what stands there must need it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

from asc_devkit.backend import VirtualNpuBackend
from tests.conformance.test_onnx_backend import KNOWN_GAPS

HERE = Path(__file__).parent
GAPS = HERE / "fp16_gaps.csv"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
LARGEST = 65504.0
Case = tuple[str, onnx.ModelProto, list[tuple[list[Any], list[Any]]]]


def _plain(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    kind = info.type.WhichOneof("value")
    proto: Any = onnx.SequenceProto() if kind == "sequence_type" else onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_list(proto) if kind == "sequence_type" else numpy_helper.to_array(proto)


def _cases() -> Iterator[Case]:
    """Name, model and data of every test that has a float output and needs no download."""
    for case in (case for kind in KINDS for case in load_model_tests(kind=kind)):
        if case.model is not None and case.data_sets is not None:
            model = case.model
            sets = [([_plain(v) for v in given], [_plain(v) for v in made]) for given, made in case.data_sets]
        elif case.model_dir is not None:
            folder = Path(case.model_dir)
            model = onnx.load(folder / "model.onnx")
            weights = {t.name for t in model.graph.initializer}
            inputs = [v for v in model.graph.input if v.name not in weights]
            sets = []
            for data in sorted(folder.glob("test_data_set_*")):
                given = [
                    _read(data / f"input_{i}.pb", v) for i, v in enumerate(inputs) if (data / f"input_{i}.pb").exists()
                ]
                sets.append((given, [_read(data / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)]))
        else:
            continue
        if any(v.type.tensor_type.elem_type in FLOATS for v in model.graph.output):
            yield case.name, model, sets


def distance(actual: Sequence[Any], expected: Sequence[Any]) -> float:
    """Largest distance of float elements in units of what is allowed: 1 is the limit."""
    worst = 0.0
    for one, other in zip(actual, expected, strict=True):
        if not isinstance(other, np.ndarray) or other.dtype not in (np.float32, np.float16):
            continue
        got, wanted = np.asarray(one).astype(np.float64), other.astype(np.float64)
        if got.shape != wanted.shape:
            return float("inf")
        with np.errstate(all="ignore"):
            unit = np.spacing(np.minimum(np.abs(wanted), LARGEST).astype(np.float16)).astype(np.float64)
            same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
            off = np.where(same, 0.0, np.abs(got - wanted) / np.maximum(2 * unit, 1e-3 * np.abs(wanted)))
        worst = max(worst, float(np.where(np.isnan(off), np.inf, off).max(initial=0)))
    return worst


def _rounded(value: Any) -> Any:
    """Float inputs as the device stores them."""
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        with np.errstate(over="ignore"):
            return value.astype(np.float16).astype(np.float32)
    return value


def _stored(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with its float weights as the device stores them."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for index, weight in enumerate(made.graph.initializer):
        if weight.data_type == onnx.TensorProto.FLOAT:
            made.graph.initializer[index].CopyFrom(
                numpy_helper.from_array(_rounded(numpy_helper.to_array(weight)), weight.name)
            )
    return made


def _judge(model: onnx.ModelProto, sets: list[tuple[list[Any], list[Any]]]) -> str:
    """ "close", "close to the reference on rounded inputs", or how far it is."""
    rep = VirtualNpuBackend.prepare(model, precision_mode="force_fp16")
    said = "close"
    for given, expected in sets:
        actual = rep.run(list(given))
        first = distance(actual, expected)
        if first <= 1:
            continue
        names = [v.name for v in rep.inputs]
        try:
            again = ReferenceEvaluator(_stored(model)).run(None, dict(zip(names, map(_rounded, given), strict=False)))
            second = distance(actual, again)
        except Exception:
            second = first  # onnx.reference lacks the operator
        if second > 1:
            return f"off by {first:.3g} and {second:.3g} times the limit"
        said = "close on rounded inputs"
    return said


def _table(path: Path) -> dict[str, str]:
    with path.open(newline="", encoding="utf-8") as handle:
        return {row["test"]: row["reason"] for row in csv.DictReader(handle)}


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore")
def test_every_float_test_of_the_backend_suite_is_close_in_fp16_or_explained() -> None:
    gaps, never = _table(GAPS), _table(KNOWN_GAPS)
    assert all(len(reason) > 20 for reason in gaps.values())
    found: dict[str, str] = {}
    for name, model, sets in _cases():
        if name not in never:
            try:
                found[name] = _judge(model, sets)
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"[:300]
    counts = Counter(said if said.startswith("close") else "explained" for said in found.values())
    print(f"\n{len(found)} float tests in fp16: {dict(counts)}")

    apart = {name: said for name, said in found.items() if not said.startswith("close")}
    assert {name: said for name, said in apart.items() if name not in gaps} == {}
    assert sorted(set(gaps) - set(apart)) == []
    assert counts["close"] + counts["close on rounded inputs"] > 0.93 * len(found)
