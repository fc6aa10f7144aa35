"""Whatever the passes do to a random graph, it stays a valid model and computes what it computed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from asc_devkit.ops.infer import infer
from asc_devkit.passes import optimise
from tests.passes.execute import run
from tests.passes.random_graphs import GraphMaker


@pytest.mark.parametrize("block", range(10))
def test_random_graphs_keep_their_results(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        maker = GraphMaker(seed)
        proto = maker.model(steps=8 + seed % 17)
        feeds = maker.feeds()
        model = ir.from_proto(proto)
        infer(model)
        expected = run(model, feeds)
        for value in proto.graph.output:
            mine = next(o for o in model.graph.outputs if o.name == value.name)
            assert list(mine.shape.numpy()) == [d.dim_value for d in value.type.tensor_type.shape.dim], seed
        optimise(model)
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        actual = run(model, feeds)
        assert list(actual) == list(expected), seed
        for name, value in expected.items():
            assert actual[name].shape == value.shape, (seed, name)
            finite = np.isfinite(value)
            scale = max(1.0, float(np.max(np.abs(value[finite]), initial=0)))
            np.testing.assert_allclose(
                actual[name][finite], value[finite], rtol=1e-4, atol=2e-5 * scale, err_msg=f"{seed} {name}"
            )
