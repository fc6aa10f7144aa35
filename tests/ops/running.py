"""Take a canonical model through GE and back and run the result; the corpus of ONNX's operator tests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from asc_devkit import ops
from asc_devkit.frontends.onnx import load

Arrays = Mapping[str, Any]

ort.set_default_logger_severity(4)


@dataclass(frozen=True)
class Case:
    """One of ONNX's operator tests: a one-node model, its inputs and the outputs the specification asks for."""

    name: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def op_type(self) -> str:
        return self.model.graph.node[-1].op_type


@lru_cache(maxsize=1)
def corpus() -> tuple[Case, ...]:
    """Every operator test of the installed onnx, without the copies in which functions are expanded."""
    from onnx.backend.test.loader import load_model_tests

    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            if case.model is None or not case.data_sets or "_expanded" in case.name:
                continue
            inputs, outputs = case.data_sets[0]
            arrays = tuple(map(_array, inputs)), tuple(map(_array, outputs))
            found.append(Case(case.name, case.model, *arrays, case.rtol, case.atol))
    return tuple(found)


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def canonical(model: onnx.ModelProto, folder: Path) -> ir.Model:
    """The model as the front end reads it, with shapes."""
    from asc_devkit.ops.infer import infer

    path = folder / "case.onnx"
    path.write_bytes(model.SerializeToString())
    loaded = load(path).model
    infer(loaded)
    return loaded


def freeze(model: ir.Model, values: Arrays) -> None:
    """Make integer inputs behind the first (sizes, axes, positions) constants, as a real export has them."""
    graph = model.graph
    for value in list(graph.inputs)[1:]:
        array = values.get(value.name or "")
        if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.size <= 64:
            graph.inputs.remove(value)
            value.const_value = ir.tensor(array, name=value.name)
            graph.register_initializer(value)


def there_and_back(model: ir.Model) -> ir.Model:
    """ONNX -> GE -> ONNX; fails when an operator was left out on the way."""
    result = ops.convert.to_ge(model, host_ops=False)
    assert result.unsupported == [], result.unsupported
    return ops.convert.to_onnx(result.model)


def run(model: ir.Model | str | Path, feeds: Arrays, optimised: bool = False) -> Sequence[Any]:
    """Outputs by ONNX Runtime, or by ONNX's reference where the runtime lacks the operator for these types."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto = str(model) if isinstance(model, str | Path) else ir.serde.serialize_model(model).SerializeToString()
    if not any(_is_small_type(v) for v in feeds.values()):
        try:
            session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
            names = {i.name for i in session.get_inputs()}
            return list(session.run(None, {k: v for k, v in feeds.items() if k in names}))
        except Exception as error:
            # Only what the runtime has not got: a malformed graph must fail.
            if not any(mark in str(error) for mark in _NOT_IN_RUNTIME):
                raise
    evaluator = ReferenceEvaluator(ir.serde.serialize_model(model) if isinstance(model, ir.Model) else proto)
    names = set(evaluator.input_names)
    with np.errstate(all="ignore"):
        return list(evaluator.run(None, {k: v for k, v in feeds.items() if k in names}))


# What ONNX Runtime says when it has no kernel, or no numpy form, for these element types.
_NOT_IN_RUNTIME = ("NOT_IMPLEMENTED", "No corresponding Numpy type", "Type Error: Type 'tensor(")


def _is_small_type(value: Any) -> bool:
    """bfloat16, fp8, int4, ...: numpy types the runtime does not take."""
    return (isinstance(value, np.ndarray) and value.dtype.kind == "V") or str(getattr(value, "dtype", "")) in _SMALL


_SMALL = frozenset({"bfloat16", "int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float8_e8m0fnu", "float8_e4m3fn",
                    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})  # fmt: skip


def close(got: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Equal within the tolerances; lists element by element, text exactly."""
    if isinstance(expected, list | tuple):
        return len(got) == len(expected) and all(close(a, b, rtol, atol) for a, b in zip(got, expected, strict=True))
    if expected is None or got is None:
        return expected is got
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape:
        return False
    if a.dtype != b.dtype:
        if a.dtype.itemsize != b.dtype.itemsize:
            return False
        a = a.view(b.dtype)  # the runtime hands small floats out as integers
    if b.dtype.kind in "OSU":
        return bool((a == b).all())
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    if b.dtype.kind in "iub":
        return bool((a.astype(object) == b.astype(object)).all())
    return bool(np.allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=atol, equal_nan=True))
