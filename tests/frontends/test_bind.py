"""``--input_shape`` and ``--out_nodes``: the text, the binding, and every mistake named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import Loaded, load
from asc_devkit.frontends.shapes import parse_input_shape, parse_shape_range
from tests.frontends.running import make, save
from tests.models import REAL_MODELS, model_path

Node = helper.make_node
A, B = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)


def codes(error: AscError) -> list[str]:
    return [p.code for p in error.problems]


# --- the text -------------------------------------------------------------------------------------------------------

GOOD: list[tuple[str, dict[str, tuple[int, ...]]]] = [
    ("a:1,3,224,224", {"a": (1, 3, 224, 224)}),
    ("a:1,3;b:2", {"a": (1, 3), "b": (2,)}),
    (" a : 1 , 3 ; b:2; ", {"a": (1, 3), "b": (2,)}),
    ("sr:", {"sr": ()}),
    ("serving_default_x:0:1,64;sr:0:", {"serving_default_x:0": (1, 64), "sr:0": ()}),
    ("a:-1,3", {"a": (-1, 3)}),
    ("a:[1,3];b:(2)", {"a": (1, 3), "b": (2,)}),
    ("图像:1,3", {"图像": (1, 3)}),
]


@pytest.mark.parametrize(("text", "shapes"), GOOD)
def test_the_option_text_is_understood(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert parse_input_shape(text) == shapes


BAD: list[tuple[str, list[str], str]] = [
    ("", ["E10002"], "empty"),
    ("1,3,224,224", ["E10002"], "input name"),
    (":1,2", ["E10002"], "input name"),
    ("a:1,x", ["E10002"], "'x'"),
    ("a:1,,2", ["E10002"], "''"),
    ("a:1;a:2", ["E10002"], "twice"),
    ("a:0,3", ["E10011"], "0"),
    ("a:-2,3;b:0", ["E10011", "E10011"], "-2"),
    ("a:99999999999", ["E10011"], "99999999999"),
    ("a:1~8,3", ["E10055"], "range"),
    ("a:[1,3~x]", ["E10048"], "neither a number nor a range"),
    ("a:[1,8~3]", ["E10048"], "ends before it starts"),
    ("a:1x3x224x224", ["E10002"], "commas"),
    ("a：1，3", ["E10002"], "full-width"),
    ("a:" + "1," * 40 + "1", ["E10002"], "at most"),
    ("a:1.5", ["E10002"], "whole number"),
]


@pytest.mark.provokes("E10002", "E10011", "E10048", "E10055")
def test_every_mistake_of_the_text_is_named_with_an_example() -> None:
    for text, expected, word in BAD:
        with pytest.raises(AscError) as caught:
            parse_input_shape(text)
        assert codes(caught.value) == expected, text
        assert word in str(caught.value) and all(p.fix for p in caught.value.problems), text


def test_ranges_are_read_as_smallest_and_largest_size() -> None:
    read = parse_shape_range("a:[1~8,3,-1];b:1~-1,16")
    assert read == {"a": ((1, 8), (3, 3), (0, -1)), "b": ((1, -1), (16, 16))}


@pytest.mark.parametrize("text", ["", "[1~8]", "a:[1~]", "a:[8~1]", "a:[x]"])
def test_a_range_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(AscError, match="E10048"):
        parse_shape_range(text)


# --- binding --------------------------------------------------------------------------------------------------------


def two_inputs(folder: Path, **arguments: Any) -> Loaded:
    declare = {"image": ["batch", 3], "mask": ["batch", "?"]}
    feeds = {"image": A, "mask": B}
    nodes = [Node("Relu", ["image"], ["y"]), Node("Relu", ["mask"], ["z"])]
    return load(save(make(nodes, feeds, ["y", "z"], 17, declare=declare), folder), **arguments)


def shapes(form: Loaded) -> dict[str, list[Any]]:
    return {
        v.name or "": [d if isinstance(d, int) else d.value for d in v.shape or ()] for v in form.model.graph.inputs
    }


def test_open_axes_are_reported_until_they_are_bound(tmp_path: Path) -> None:
    assert two_inputs(tmp_path).dynamic == {"image": (0,), "mask": (0, 1)}
    assert two_inputs(tmp_path, input_shapes={"image": (4, 3), "mask": (4, 9)}).dynamic == {}
    assert two_inputs(tmp_path, input_shapes={"image": (-1, 3), "mask": (4, -1)}).dynamic == {"mask": (1,)}


def test_an_axis_follows_its_symbol_and_says_so(tmp_path: Path) -> None:
    form = two_inputs(tmp_path, input_shapes={"image": (4, 3)})
    assert shapes(form) == {"image": [4, 3], "mask": [4, "?"]}
    assert any("'mask'" in w and "'batch'" in w for w in form.warnings)


def test_different_sizes_for_one_symbol_are_warned_about(tmp_path: Path) -> None:
    form = two_inputs(tmp_path, input_shapes={"image": (4, 3), "mask": (5, 9)})
    assert any("'batch'" in w and "[4, 5]" in w for w in form.warnings)


@pytest.mark.provokes("E10016", "E10017")
def test_all_contradictions_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(AscError) as caught:
        two_inputs(tmp_path, input_shapes={"imag": (1, 3), "image": (1, 4), "mask": (1, 2, 3), "y": (1,)})
    assert codes(caught.value) == ["E10016", "E10001", "E10001", "E10017"]
    text = str(caught.value)
    assert "did you mean 'image'?" in text and "axis 1: 3 in the model, 4 given" in text and "2 axes" in text


def test_shapes_declared_inside_the_file_are_not_trusted(tmp_path: Path) -> None:
    model = make([Node("Relu", ["x"], ["h"]), Node("Relu", ["h"], ["y"])], {"x": A}, ["y"], 17, declare={"x": ["n", 3]})
    model.graph.value_info.append(helper.make_tensor_value_info("h", 1, [7, 7]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [9, 3]))
    form = load(save(model, tmp_path), {"x": (2, 3)})
    assert all(v.shape is None for node in form.model.graph for v in node.outputs)


def test_default_values_of_inputs_are_constants(tmp_path: Path) -> None:
    model = make([Node("Add", ["x", "w"], ["y"])], {"x": A, "w": A}, ["y"], 17, {"w": A})
    form = load(save(model, tmp_path))
    assert list(shapes(form)) == ["x"] and list(form.model.graph.initializers) == ["w"]


@pytest.mark.parametrize("key", sorted(REAL_MODELS))
def test_the_example_shapes_bind_every_real_model(key: str) -> None:
    form = load(model_path(key), parse_input_shape(REAL_MODELS[key].input_shape))
    assert form.dynamic == {}


# --- outputs --------------------------------------------------------------------------------------------------------


def chain(folder: Path, **arguments: Any) -> Loaded:
    nodes = [
        Node("Relu", ["x"], ["h"], name="first"),
        Node("Split", ["h"], ["l", "r:0"], name="second", axis=0),
        Node("Add", ["r:0", "w"], ["y"], name="third"),
    ]
    return load(save(make(nodes, {"x": A}, ["y"], 13, {"w": np.ones(3, np.float32)}), folder), **arguments)


def test_outputs_are_chosen_by_node_and_by_tensor(tmp_path: Path) -> None:
    form = chain(tmp_path, out_nodes=["second:1", "h", "h"])
    assert [v.name for v in form.model.graph.outputs] == ["r:0", "h"]
    assert [n.name for n in form.model.graph] == ["first", "second"] and not form.model.graph.initializers
    assert [v.name for v in chain(tmp_path, out_nodes=["r:0"]).model.graph.outputs] == ["r:0"]


def test_all_unknown_outputs_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(AscError) as caught:
        chain(tmp_path, out_nodes=["secnd:0", "second:2", "nothing"])
    assert codes(caught.value) == ["E10016"] * 3
    assert "did you mean 'second'?" in str(caught.value) and "2 output(s)" in str(caught.value)
