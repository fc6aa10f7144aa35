"""Broken graphs are refused with every fault named; odd but valid ones come out canonical."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import load
from asc_devkit.ge.desc import ORIGIN_OPS, ORIGIN_TENSOR
from asc_devkit.ops.catalogue import CANONICAL_OPSET
from tests.frontends.running import loaded, make, run, run_loaded
from tests.models import REAL_MODELS, example_inputs, model_path

Node = helper.make_node
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def refusal(nodes: list[onnx.NodeProto], folder: Path, outputs: tuple[str, ...] = ("y",), **more: Any) -> AscError:
    with pytest.raises(AscError) as caught:
        loaded(make(nodes, {"x": X}, outputs, 17, **more), folder)
    return caught.value


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.provokes("E13009", "E16001")
def test_faults_of_different_kinds_are_listed_together(tmp_path: Path) -> None:
    nodes = [
        Node("Add", ["x", "ghost"], ["a"], name="n1"),
        Node("Add", ["spook", "a"], ["b"], name="n2"),
        Node("Relu", ["b"], ["a"], name="n3"),
    ]
    text = str(refusal(nodes, tmp_path, ("a", "nowhere")))
    assert "output 'y'" in str(refusal([Node("Relu", ["x"], ["y"])], tmp_path, ("y", "y")))
    assert "'ghost', input of Add 'n1'" in text and "'spook', input of Add 'n2'" in text
    assert "defined more than once: a" in text and "'nowhere'" in text


def test_a_cycle_is_named_by_its_nodes(tmp_path: Path) -> None:
    nodes = [
        Node("Relu", ["x"], ["y"], name="innocent"),
        Node("Add", ["c", "x"], ["a"], name="one"),
        Node("Relu", ["a"], ["b"], name="two"),
        Node("Relu", ["b"], ["c"], name="three"),
    ]
    text = str(refusal(nodes, tmp_path))
    assert "cycle (3 nodes)" in text and all(name in text for name in ("one", "two", "three"))
    assert "innocent" not in text


def test_a_cycle_through_a_branch_is_found(tmp_path: Path) -> None:
    branch = helper.make_graph([Node("Relu", ["late"], ["t"])], "b", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([Node("Relu", ["x"], ["e"])], "e", [], [onnx.ValueInfoProto(name="e")])
    nodes = [
        Node("If", ["flag"], ["y"], then_branch=branch, else_branch=other, name="if"),
        Node("Relu", ["y"], ["late"], name="loop"),
    ]
    assert "cycle (2 nodes)" in str(refusal(nodes, tmp_path, constants={"flag": np.array(True)}))


FAULTS: list[tuple[str, onnx.NodeProto, str, str]] = [
    ("missing input", Node("Add", ["x"], ["y"], name="n"), "E14001", "Add 'n' has 1 inputs, 2 are possible"),
    ("empty input", Node("Add", ["x", ""], ["y"], name="n"), "E14001", "Add 'n' lacks its input 1"),
    ("extra input", Node("Relu", ["x", "x"], ["y"], name="n"), "E14001", "Relu 'n' has 2 inputs"),
    ("extra output", Node("Relu", ["x"], ["y", "z"], name="n"), "E14001", "Relu 'n' has 2 outputs"),
    ("missing attribute", Node("Concat", ["x", "x"], ["y"], name="n"), "E14002", "attribute 'axis' is missing"),
    ("unknown attribute", Node("Relu", ["x"], ["y"], name="n", sharp=1), "E14002", "'sharp' does not exist"),
    ("wrong attribute type", Node("Concat", ["x"], ["y"], name="n", axis=[1]), "E14002", "'axis' is INTS, must be INT"),
    ("no operator type", onnx.NodeProto(input=["x"], output=["y"], name="n"), "E16004", "without an operator type"),
]


@pytest.mark.provokes("E14001", "E14002", "E16004")
def test_nodes_that_break_their_schema_are_named(tmp_path: Path) -> None:
    for fault, node, code, text in FAULTS:
        error = refusal([node], tmp_path)
        assert code in [p.code for p in error.problems] and text in str(error), fault


def test_bodies_that_do_not_fit_their_node_are_named(tmp_path: Path) -> None:
    def body(inputs: int, outputs: int) -> onnx.GraphProto:
        names = [f"i{n}" for n in range(inputs)]
        nodes = [Node("Relu", ["x"], [f"o{n}"]) for n in range(outputs)]
        infos = [[onnx.ValueInfoProto(name=n) for n in group] for group in (names, [f"o{n}" for n in range(outputs)])]
        return helper.make_graph(nodes, "b", *infos)

    nodes = [
        Node("If", ["flag"], ["a"], then_branch=body(0, 1), else_branch=body(1, 2), name="if"),
        Node("Loop", ["", "flag", "x"], ["b"], body=body(2, 3), name="loop"),
        Node("Scan", ["x"], ["y"], body=body(1, 1), num_scan_inputs=2, name="scan"),
    ]
    text = str(refusal(nodes, tmp_path, constants={"flag": np.array(True)}))
    assert "'if': else_branch takes 1 inputs, 0 are handed to it" in text
    assert "'if': else_branch has 2 outputs, 1 are expected" in text and "then_branch" not in text
    assert "'loop': body takes 2 inputs, 3 are handed" in text and "'loop': body has 3 outputs, 2 are" in text
    assert "'scan': num_scan_inputs is 2, it has 1 inputs" in text


@pytest.mark.provokes("E16005")
def test_opsets_and_ir_versions_from_the_future_are_refused(tmp_path: Path) -> None:
    model = make([Node("Relu", ["x"], ["y"])], {"x": X}, ["y"], 17)
    model.opset_import[0].version = 99
    with pytest.raises(AscError, match="imports opset 99; 1 to 28 are known"):
        loaded(model, tmp_path)
    model.opset_import[0].version = 17
    model.ir_version = 15
    with pytest.raises(AscError, match="IR version 15; versions up to 14"):
        loaded(model, tmp_path)
    model.ir_version = 8
    del model.opset_import[:]
    with pytest.raises(AscError, match="imports no opset"):
        loaded(model, tmp_path)


@pytest.mark.parametrize("ir_version", range(3, 15))
def test_every_ir_version_is_read(ir_version: int, tmp_path: Path) -> None:
    model = make([Node("Relu", ["x"], ["y"])], {"x": X}, ["y"], 9)
    model.ir_version = ir_version
    assert loaded(model, tmp_path).original.ir_version == ir_version


def test_inputs_that_are_not_tensors_are_refused(tmp_path: Path) -> None:
    model = make([Node("SequenceAt", ["s", "i"], ["y"])], {"i": np.array(0)}, ["y"], 17)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    model.graph.input.append(helper.make_value_info("s", kind))
    model.graph.input.append(helper.make_tensor_value_info("t", TensorProto.STRING, [1]))
    with pytest.raises(AscError, match="input 's' has type sequence; input 't' holds texts"):
        loaded(model, tmp_path)


def test_functions_that_call_themselves_or_multiply_without_end_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    endless = helper.make_function("f", "F", ["a"], ["b"], [Node("F", ["a"], ["b"], domain="f")], opsets)
    model = make([Node("F", ["x"], ["y"], domain="f")], {"x": X}, ["y"], 17, functions=[endless])
    with pytest.raises(AscError, match="f::F calls itself"):
        loaded(model, tmp_path)
    bomb = [helper.make_function("f", "F0", ["a"], ["b"], [Node("Relu", ["a"], ["b"])], opsets)]
    for level in range(1, 40):
        inner = [Node(f"F{level - 1}", [a], [b], domain="f") for a, b in (("a", "m"), ("m", "b"))]
        bomb.append(helper.make_function("f", f"F{level}", ["a"], ["b"], inner, opsets))
    model = make([Node("F39", ["x"], ["y"], domain="f")], {"x": X}, ["y"], 17, functions=bomb)
    with pytest.raises(AscError, match="at most 1000000"):
        loaded(model, tmp_path)


def test_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    data = make([Node("Relu", ["x"], ["y"], name="NAME")], {"x": X}, ["y"], 17).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data.replace(b"NAME", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(AscError, match="UTF-8"):
        load(path)


# --- canonical form -------------------------------------------------------------------------------------------------


def test_unsorted_nodes_are_sorted_and_names_are_made_unique(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph([Node(op, ["h"], ["same"], name="dup")], "b", [], [value("same", TensorProto.FLOAT, None)])
        for op in ("Abs", "Neg")
    ]
    nodes = [
        Node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1], name="dup"),
        Node("Relu", ["x"], ["h"]),
    ]
    form = loaded(make(nodes, {"x": X}, ["y"], 17, {"flag": np.array(False)}), tmp_path)
    assert [n.op_type for n in form.model.graph] == ["Relu", "If"]
    everything = list(form.model.graph.all_nodes())
    assert len({n.name for n in everything}) == len(everything) == 4
    outputs = [v.name for n in everything for v in n.outputs]
    assert len(set(outputs)) == len(outputs)
    np.testing.assert_array_equal(run_loaded(form, {"x": X})[0], -np.maximum(X, 0))


def test_constants_of_every_kind_become_initializers(tmp_path: Path) -> None:
    forms: dict[str, Any] = {
        "value_int": 3, "value_ints": [1, 2], "value_float": 1.5, "value_floats": [1.0, 2.0],
        "value": helper.make_tensor("t", TensorProto.INT8, [2], [1, -1]),
    }  # fmt: skip
    nodes = [Node("Constant", [], [key], **{key: value}) for key, value in forms.items()]
    nodes.append(Node("Relu", ["x"], ["y"]))
    form = loaded(make(nodes, {"x": X}, ["y", *forms], 17), tmp_path)
    assert [n.op_type for n in form.model.graph] == ["Relu"]
    tensors = {k: v.const_value for k, v in form.model.graph.initializers.items()}
    assert {k: t.dtype.name for k, t in tensors.items() if t is not None} == {
        "value_int": "INT64", "value_ints": "INT64", "value_float": "FLOAT", "value_floats": "FLOAT", "value": "INT8",
    }  # fmt: skip
    assert np.shape(tensors["value_int"]) == () and np.shape(tensors["value_floats"]) == (2,)


def test_unused_weights_are_dropped(tmp_path: Path) -> None:
    form = loaded(make([Node("Relu", ["x"], ["y"])], {"x": X}, ["y"], 17, {"w": X}), tmp_path)
    assert not form.model.graph.initializers


def test_a_branch_that_returns_an_outer_value_gets_a_node_for_it(tmp_path: Path) -> None:
    outer = helper.make_graph([], "o", [], [onnx.ValueInfoProto(name="h")])
    inner = helper.make_graph([Node("Neg", ["h"], ["n"])], "i", [], [onnx.ValueInfoProto(name="n")])
    nodes = [Node("Relu", ["x"], ["h"]), Node("If", ["flag"], ["y"], then_branch=outer, else_branch=inner)]
    form = loaded(make(nodes, {"x": X}, ["y"], 17, {"flag": np.array(True)}), tmp_path)
    np.testing.assert_array_equal(run_loaded(form, {"x": X})[0], np.maximum(X, 0))


def test_a_function_that_hands_its_input_through_keeps_the_outputs_name(tmp_path: Path) -> None:
    function = helper.make_function("f", "Same", ["a"], ["a"], [], [helper.make_opsetid("", 17)])
    nodes = [Node("Relu", ["x"], ["h"]), Node("Same", ["h"], ["y"], domain="f")]
    form = loaded(make(nodes, {"x": X}, ["h", "y"], 17, functions=[function]), tmp_path)
    assert [v.name for v in form.model.graph.outputs] == ["h", "y"]


def test_nodes_and_values_remember_where_they_come_from(tmp_path: Path) -> None:
    nodes = [Node("Softmax", ["x"], ["p"], name="prob", axis=0), Node("Relu", ["p"], ["y"])]
    graph = loaded(make(nodes, {"x": X}, ["y"], 11), tmp_path).model.graph
    assert {n.meta[ORIGIN_OPS] for n in graph} == {(("prob", "Softmax"),), (("Relu_1", "Relu"),)}
    marked = {v.meta[ORIGIN_TENSOR]: v.producer() for n in graph for v in n.outputs if ORIGIN_TENSOR in v.meta}
    assert {name: node.op_type for name, node in marked.items() if node} == {"p": "Reshape", "y": "Relu"}


def test_the_facts_of_the_original_are_reported() -> None:
    form = load(model_path("silero_if"))
    assert (form.original.opset, form.original.ir_version) == (18, 10)
    assert form.original.inputs["input"] == ("FLOAT", ("batch", "sequence"))
    assert form.original.inputs["sr"] == ("INT64", ()) and form.original.outputs == ("output", "stateN")
    assert form.original.nodes["Conv"] == 12 and form.original.nodes["If"] == 1  # both branches are counted


@pytest.mark.parametrize("key", sorted(REAL_MODELS))
def test_real_models_compute_the_same_in_canonical_form(key: str) -> None:
    feeds = {
        k: np.asarray(np.minimum(v, 16000 if k == "sr" else 50)) if v.dtype == np.int64 else v
        for k, v in example_inputs(key).items()
    }
    form = load(model_path(key), REAL_MODELS[key].shapes)
    assert form.model.opset_imports[""] == CANONICAL_OPSET
    assert not any(n.op_type == "Constant" for n in form.model.graph.all_nodes())
    for got, want in zip(run_loaded(form, feeds), run(model_path(key), feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_canonical_model_written_again_loads_unchanged(tmp_path: Path) -> None:
    form = load(model_path("magika"), REAL_MODELS["magika"].shapes)
    again = loaded(ir.serde.serialize_model(form.model), tmp_path)
    assert [(n.op_type, n.name) for n in again.model.graph] == [(n.op_type, n.name) for n in form.model.graph]
    assert not again.warnings
