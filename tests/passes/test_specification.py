"""ONNX's functions written out in elementary operators (the specification's "expanded" cases) survive the passes."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.frontends.onnx import load
from asc_devkit.ops.infer import infer
from asc_devkit.passes import optimise
from tests.passes.execute import session

# Their functions feed Range with tensors of one dimension: ONNX Runtime's shape inference refuses that once they are
# constants.
LEFT_OUT = ("test_affine_grid",)


def test_expanded_functions_give_the_specifications_results(tmp_path: Path) -> None:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [c for c in collect_testcases() if "_expanded" in c.name and not c.name.startswith(LEFT_OUT)]
    wrong: dict[str, str] = {}
    done = before = after = 0
    for case in cases:
        assert case.model is not None and case.data_sets is not None
        inputs, _ = case.data_sets[0]
        if not all(isinstance(x, np.ndarray | np.generic) for x in inputs):
            continue
        path = tmp_path / "case.onnx"
        onnx.save(case.model, path)
        feeds = {v.name: np.asarray(x) for v, x in zip(case.model.graph.input, inputs, strict=True)}
        try:
            model = load(path).model
            expected = session(ir.to_proto(model).SerializeToString()).run(None, feeds)
        except Exception:  # an operator newer than opset 23, or a type ONNX Runtime cannot run
            continue
        infer(model)
        before += model.graph.num_nodes()
        optimise(model)
        after += model.graph.num_nodes()
        actual = session(ir.to_proto(model).SerializeToString()).run(None, feeds)
        done += 1
        for e, a in zip(expected, actual, strict=True):
            digits = 2e-3 if e.dtype == np.float16 else 1e-4
            if e.shape != a.shape or e.dtype != a.dtype or not _close(e, a, digits):
                wrong[case.name] = ", ".join(n.op_type for n in model.graph)
    assert wrong == {}
    assert done > 350
    assert after < 0.5 * before


def _close(expected: np.ndarray, actual: np.ndarray, digits: float) -> bool:
    if expected.dtype.kind in "OSU":
        return expected.tolist() == actual.tolist()
    return np.allclose(expected.astype(np.float64), actual.astype(np.float64), rtol=digits, atol=1e-6, equal_nan=True)
