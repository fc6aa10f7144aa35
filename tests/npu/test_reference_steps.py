"""Operators for which ONNX Runtime has no kernel are cut out and run by onnx.reference, with the same numerics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from asc_devkit import npu
from asc_devkit.errors import AscError
from asc_devkit.npu import rewrite
from asc_devkit.npu.executor import Executor
from asc_devkit.npu.numerics import Rounding
from tests.npu.build import Array, compiled, proto


def _relu_on_int16(shape: tuple[int, ...]) -> onnx.ModelProto:
    """y = relu(int16(x * 3)) * 0.5 + x: ONNX Runtime has no Relu for int16."""
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["m"], "mul"),
        helper.make_node("Cast", ["m"], ["i"], "to_int", to=TensorProto.INT16),
        helper.make_node("Relu", ["i"], ["r"], "relu"),
        helper.make_node("Cast", ["r"], ["f"], "to_float", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "half"], ["h"], "scale"),
        helper.make_node("Add", ["h", "x"], ["y"], "add"),
    ]
    constants: dict[str, Array] = {"three": np.float32(3), "half": np.float32(0.5)}  # type: ignore[dict-item]
    return proto(nodes, {"x": shape}, {"y": shape}, constants)


def _expected(x: Array) -> Array:
    h = x.astype(np.float16)
    m = (h.astype(np.float32) * 3).astype(np.float16)
    r = np.maximum(m.astype(np.int16), 0).astype(np.float16)
    s = (r.astype(np.float32) * 0.5).astype(np.float16)
    return (s.astype(np.float32) + h.astype(np.float32)).astype(np.float16).astype(np.float32)


def test_a_node_without_kernel_runs_between_two_sessions(tmp_path: Path) -> None:
    om = compiled(_relu_on_int16((2, 9)), tmp_path)
    session = npu.load(om, threads=1)
    assert session.info["reference_operators"] == ["Relu"]
    x = (np.random.default_rng(0).standard_normal((2, 9)) * 40).astype(np.float32)
    assert (session.run({"x": x})["y"] == _expected(x)).all()


def test_values_and_dumps_reach_across_the_cut(tmp_path: Path) -> None:
    session = npu.load(compiled(_relu_on_int16((2, 9)), tmp_path), threads=1)
    x = (np.random.default_rng(1).standard_normal((2, 9)) * 40).astype(np.float32)
    plain = session.run({"x": x})["y"]
    outputs, values = session.run_with_values({"x": x})
    assert values["r"].dtype == np.int16
    assert (values["r"] == np.maximum((x.astype(np.float16) * np.float16(3)).astype(np.int16), 0)).all()
    assert values["m"].dtype == np.float16
    assert outputs["y"].tobytes() == plain.tobytes()
    assert session.run({"x": x}, dump=tmp_path / "dump")["y"].tobytes() == plain.tobytes()
    assert len(list((tmp_path / "dump").glob("*.npy"))) == len(session.operators)


def test_a_second_load_comes_from_the_cache(tmp_path: Path) -> None:
    om = compiled(_relu_on_int16((3, 5)), tmp_path)
    assert not npu.load(om, threads=1).info["cache_hit"]
    again = npu.load(om, threads=1)
    assert again.info["cache_hit"]
    x = np.ones((3, 5), np.float32)
    assert (again.run({"x": x})["y"] == _expected(x)).all()


def test_a_branch_with_such_a_node_is_run_whole(tmp_path: Path) -> None:
    """If(c): relu over int16 of x, else: x + 1/3 rounded; the outer value is captured, not passed."""
    third = helper.make_node("Add", ["x", "third"], ["e"], "plus_third")
    branch = [
        helper.make_node("Cast", ["x"], ["ti"], "ti", to=TensorProto.INT16),
        helper.make_node("Relu", ["ti"], ["tr"], "tr"),
        helper.make_node("Cast", ["tr"], ["t"], "tf", to=TensorProto.FLOAT),
    ]

    def body(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
        return helper.make_graph(nodes, output, [], [helper.make_tensor_value_info(output, 1, [4])])

    choose = helper.make_node(
        "If", ["c"], ["y"], "choose", then_branch=body(branch, "t"), else_branch=body([third], "e")
    )
    nodes = [choose, helper.make_node("Neg", ["y"], ["z"], "neg")]
    model = proto(nodes, {"x": [4], "c": []}, {"z": [4]}, {"third": np.float32(1 / 3)}, {"c": TensorProto.BOOL})  # type: ignore[dict-item]
    roundings = [Rounding("e", ir.DataType.FLOAT16, True)]
    built = rewrite.build(ir.from_proto(onnx.shape_inference.infer_shapes(model)), roundings, {}, tmp_path)
    assert [s.foreign for s in built.steps] == ["If", ""]
    executor = Executor(tmp_path, built.steps, built.outputs, 1, 0)
    x = np.array([1.0, -2.0, 0.7, 300.0], np.float32)
    (taken,) = executor.run({"x": x, "c": np.array(True)})
    assert taken.tolist() == [-1, 0, 0, -300]
    (other,) = executor.run({"x": x, "c": np.array(False)})
    assert (other == -(x + np.float32(1 / 3)).astype(np.float16).astype(np.float32)).all()


def test_a_copy_in_front_of_the_cut_keeps_the_name_the_next_piece_reads(tmp_path: Path) -> None:
    """fp16 -> fp32 copies on the CPU, where both are held in fp32. Probabilities of 0 and 1 leave nothing to chance."""
    draw = helper.make_node("Bernoulli", ["x"], ["y"], "draw", dtype=TensorProto.FLOAT)
    dtypes = {"x": TensorProto.FLOAT16, "y": TensorProto.FLOAT}
    model = proto([draw], {"x": [6]}, {"y": [6]}, dtypes=dtypes)
    om = compiled(model, tmp_path, "Ascend910B2", "must_keep_origin_dtype")
    session = npu.load(om, threads=1)
    assert session.info["reference_operators"] == ["Bernoulli"]
    x = np.array([0, 1, 1, 0, 1, 0], np.float16)
    assert session.run({"x": x})["y"].tolist() == x.tolist()


@pytest.mark.provokes("ASC4002")
def test_operators_that_nobody_can_run_are_all_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Acme", ["x"], ["a"], "first", domain="com.acme"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Emca", ["b"], ["y"], "second", domain="com.acme"),
    ]
    model = proto(nodes, {"x": [2]}, {"y": [2]})
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    with pytest.raises(AscError) as caught:
        rewrite.build(ir.from_proto(model), [], {}, tmp_path)
    assert [p.nodes for p in caught.value.problems] == [("first",), ("second",)]
