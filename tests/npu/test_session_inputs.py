"""What a session accepts: by name or in order, float32 for fp16; everything wrong is reported at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from asc_devkit import npu
from asc_devkit.errors import AscError
from tests.npu.build import compile_model, proto


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> npu.Session:
    """y = (a + b) * float(n); ``a`` is fed as fp16."""
    import onnx

    nodes = [
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "f"], ["y"]),
    ]
    model = proto(nodes, {"a": (2, 3), "b": (2, 3), "n": (3,)}, {"y": (2, 3)}, dtypes={"n": TensorProto.INT64})
    folder = tmp_path_factory.mktemp("inputs")
    onnx.save(model, folder / "model.onnx")
    return npu.load(compile_model(folder / "model.onnx", folder, input_fp16_nodes="a"), threads=1)


A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
N = np.array([1, 2, 3], np.int64)


def test_inputs_and_outputs_are_described(session: npu.Session) -> None:
    assert [(t.name, t.shape, t.dtype) for t in session.inputs] == [
        ("a", (2, 3), np.float16),
        ("b", (2, 3), np.float32),
        ("n", (3,), np.int64),
    ]
    assert [(t.name, t.shape, t.dtype) for t in session.outputs] == [("y", (2, 3), np.float32)]


def test_by_name_and_in_order(session: npu.Session) -> None:
    wanted = 2 * A * N
    by_name = session.run({"n": N, "b": A, "a": A.astype(np.float16)})
    in_order = session.run([A.astype(np.float16), A, N])
    assert list(by_name) == ["y"]
    assert (by_name["y"] == wanted).all()
    assert (in_order["y"] == wanted).all()


def test_float32_is_rounded_for_an_fp16_input(session: npu.Session) -> None:
    fine = np.full((2, 3), 1 / 3, np.float32)
    zero = np.zeros((2, 3), np.float32)
    got = session.run({"a": fine, "b": zero, "n": np.ones(3, np.int64)})["y"]
    assert (got == np.float32(np.float16(1 / 3))).all()


def test_too_large_float32_saturates_in_an_fp16_input(session: npu.Session) -> None:
    zero = np.zeros((2, 3), np.float32)
    got = session.run({"a": np.full((2, 3), 1e6, np.float32), "b": zero, "n": np.ones(3, np.int64)})["y"]
    assert (got == 65504).all()


def test_several_outputs_may_be_one_tensor(tmp_path: Path) -> None:
    import onnx

    nodes = [helper.make_node("Exp", ["x"], ["e"])]
    nodes += [helper.make_node("Identity", [source], [name]) for source, name in (("e", "y"), ("e", "z"), ("x", "w"))]
    model = proto(nodes, {"x": (4,)}, {"e": (4,), "y": (4,), "z": (4,), "w": (4,)})
    onnx.save(model, tmp_path / "model.onnx")
    session = npu.load(compile_model(tmp_path / "model.onnx", tmp_path), threads=1)
    x = np.linspace(0, 1, 4, dtype=np.float32)
    got = session.run({"x": x})
    assert list(got) == ["e", "y", "z", "w"]
    assert (got["e"] == got["y"]).all()
    assert (got["e"] == got["z"]).all()
    assert (got["w"] == x.astype(np.float16)).all()


def test_arrays_that_are_not_contiguous(session: npu.Session) -> None:
    a = np.asfortranarray(A.astype(np.float16))
    assert (session.run({"a": a, "b": A[:, ::-1][:, ::-1], "n": N})["y"] == 2 * A * N).all()
    _, values = session.run_with_values({"a": a, "b": A[:, ::-1][:, ::-1], "n": N})
    assert values


@pytest.mark.provokes("ASC4010", "ASC4011", "ASC4012")
def test_everything_wrong_is_reported_at_once(session: npu.Session) -> None:
    with pytest.raises(AscError) as caught:
        session.run({"a": A[:1], "n": N.astype(np.int32), "typo": A})
    codes = sorted(p.code for p in caught.value.problems)
    assert codes == ["ASC4010", "ASC4011", "ASC4012", "ASC4012"]
    text = str(caught.value)
    for word in ("typo", "'b'", "'a'", "[1, 3]", "int32"):
        assert word in text


def test_too_many_and_too_few_in_order(session: npu.Session) -> None:
    with pytest.raises(AscError, match="missing"):
        session.run([A, A])
    with pytest.raises(AscError, match="4 inputs"):
        session.run([A, A, N, N])


@pytest.mark.provokes("ASC4006")
def test_unknown_value_names_are_listed(session: npu.Session) -> None:
    with pytest.raises(AscError, match="nope"):
        session.run_with_values({"a": A, "b": A, "n": N}, ["nope"])


def test_values_by_value_and_by_node_name(session: npu.Session) -> None:
    first = session.operators[-1]
    keys = [first.value, first.node, f"{first.node}:0"]
    _, values = session.run_with_values({"a": A, "b": A, "n": N}, keys)
    assert list(values) == keys
    assert len({a.tobytes() for a in values.values()}) == 1


@pytest.mark.provokes("ASC4007", "ASC4008")
def test_wrong_arguments_of_load(tmp_path: Path) -> None:
    for bad in ({"threads": 0}, {"overflow": "wrap"}):
        with pytest.raises(AscError):
            npu.load(tmp_path / "no.om", **bad)  # type: ignore[arg-type]
    with pytest.raises(AscError):
        npu.load(tmp_path / "no.om")


@pytest.mark.provokes("ASC4003")
def test_a_run_time_failure_is_an_error_of_the_user(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    table = np.eye(4, dtype=np.float32)
    model = proto([node], {"i": (2,)}, {"y": (2, 4)}, {"table": table}, {"i": TensorProto.INT64})
    import onnx

    onnx.save(model, tmp_path / "model.onnx")
    session = npu.load(compile_model(tmp_path / "model.onnx", tmp_path), threads=1)
    assert (session.run({"i": np.array([1, 2])})["y"] == table[1:3]).all()
    with pytest.raises(AscError, match="ASC4003"):
        session.run({"i": np.array([1, 9])})
