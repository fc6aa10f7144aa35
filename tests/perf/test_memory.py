"""The memory plan never lets two live values overlap, reuses what is dead, and refuses what does not fit."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_devkit import soc
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, Engine
from asc_devkit.perf import memory

CHIP = soc.get("Ascend910B1")


def _value(name: str, shape: list[int]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT16))


def _node(kind: str, inputs: list[ir.Value], name: str, shape: list[int], engine: Engine = Engine.VECTOR) -> ir.Node:
    node = ir.Node(GE_DOMAIN, kind, inputs, name=name, outputs=[_value(f"{name}_y", shape)])
    node.meta[ENGINE] = engine
    return node


def _chain(shapes: list[list[int]]) -> ir.Model:
    x = _value("x", shapes[0])
    nodes: list[ir.Node] = []
    for index, shape in enumerate(shapes[1:]):
        nodes.append(_node("Relu", [nodes[-1].outputs[0] if nodes else x], f"n{index}", shape))
    return ir.Model(ir.Graph([x], [nodes[-1].outputs[0]], nodes=nodes), ir_version=10)


def test_sizes_follow_compiled_models() -> None:
    assert memory.aligned(49152) == 49664  # 49152 -> 49184 -> 49664, read from a compiled model
    assert memory.aligned(3072) == 3584


def test_a_chain_needs_two_buffers() -> None:
    made = memory.plan(_chain([[1000]] * 12), CHIP)
    assert made.feature_bytes == 2 * memory.aligned(2000)
    assert memory.plan(_chain([[1000]] * 12), CHIP, reuse=False).feature_bytes == 12 * memory.aligned(2000)


def test_a_view_shares_its_input_and_keeps_it_alive() -> None:
    x = _value("x", [64])
    a = _node("Relu", [x], "a", [64])
    view = _node("Reshape", [a.outputs[0]], "view", [8, 8], Engine.LOCAL)
    b = _node("Relu", [view.outputs[0]], "b", [8, 8])
    made = memory.plan(ir.Model(ir.Graph([x], [b.outputs[0]], nodes=[a, view, b]), ir_version=10), CHIP)
    assert {block.name for block in made.blocks} == {"x", "a_y", "b_y"}
    assert next(block for block in made.blocks if block.name == "a_y").last == 2


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3000), st.lists(st.integers(0, 30), min_size=1, max_size=3)), min_size=1, max_size=30
    )
)
def test_live_blocks_never_overlap(rows: list[tuple[int, list[int]]]) -> None:
    x = _value("x", [17])
    values = [x]
    nodes = []
    for index, (size, sources) in enumerate(rows):
        node = _node("Add", [values[s % len(values)] for s in sources], f"n{index}", [size])
        nodes.append(node)
        values.append(node.outputs[0])
    model = ir.Model(ir.Graph([x], [values[-1], values[len(values) // 2]], nodes=nodes), ir_version=10)
    made = memory.plan(model, CHIP)
    for i, a in enumerate(made.blocks):
        assert a.offset % 512 == 0 and a.offset + a.size <= made.feature_bytes
        for b in made.blocks[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset, (a, b)
    assert made.feature_bytes >= max(made.live)


def test_what_does_not_fit_is_refused_with_the_tensors_to_blame() -> None:
    made = memory.plan(_chain([[8], [40 << 30], [8]]), CHIP)
    with pytest.raises(AscError) as refused:
        made.check(CHIP)
    (problem,) = refused.value.problems
    assert "ATC memory allocation failed" in problem.what
    assert problem.nodes[0].startswith("n0_y")
    made.check(soc.get("Ascend310P5"))  # capacity unknown: nothing to check against
