"""The memory plan never lets two live values overlap, reuses what is dead, and refuses what does not fit."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_devkit import soc
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import GE_DOMAIN, Engine
from asc_devkit.perf import memory
from tests.perf.graphs import conv, fused, model
from tests.perf.graphs import node as _node
from tests.perf.graphs import value as _value

CHIP = soc.get("Ascend910B1")


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


def test_what_has_other_bytes_than_its_input_is_no_view() -> None:
    x = _value("x", [4, 4])
    shape = _node("Shape", [x], "shape", [2], Engine.LOCAL, dtype=ir.DataType.INT64)
    made = memory.plan(model([x], [shape]), CHIP)
    assert {block.name for block in made.blocks} == {"x", "shape_y"}


def test_values_between_the_members_of_a_group_need_no_memory() -> None:
    main = conv(64, 64, 56)
    made = memory.plan(model(main.inputs[:2], [fused(main, "Relu")]), CHIP)  # type: ignore[arg-type]
    assert {block.name for block in made.blocks} == {"x", "w", "fused_y"}


def test_weights_lie_one_after_the_other_on_512_byte_boundaries() -> None:
    x = _value("x", [8])
    constants = [_value(f"w{i}", [n]) for i, n in enumerate((1, 300, 256))]
    for constant, n in zip(constants, (1, 300, 256), strict=True):
        constant.const_value = ir.tensor(np.zeros(n, np.float16), name=constant.name)
    nodes = [_node("Add", [x, constants[0], constants[1], constants[2]], "n", [8])]
    graph = ir.Graph([x], nodes[-1].outputs, nodes=nodes, initializers=constants)
    made = memory.plan(ir.Model(graph, ir_version=10), CHIP)
    assert [(w.name, w.offset, w.size) for w in made.weights] == [("w0", 0, 512), ("w1", 512, 1024), ("w2", 1536, 512)]
    assert made.weight_bytes == 2048
    assert {block.name for block in made.blocks} == {"x", "n_y"}


def test_the_branches_of_an_if_share_memory_and_their_weights_count() -> None:
    def branch(size: int) -> ir.Graph:
        weight = _value(f"w{size}", [size])
        weight.const_value = ir.tensor(np.zeros(size, np.float16), name=weight.name)
        made = _node("Relu", [weight], f"b{size}", [size])
        return ir.Graph([], made.outputs, nodes=[made], initializers=[weight], name=f"g{size}")

    cond = _value("cond", [], ir.DataType.BOOL)
    attrs = [ir.AttrGraph("then_branch", branch(1000)), ir.AttrGraph("else_branch", branch(5000))]
    choice = ir.Node(GE_DOMAIN, "If", [cond], attrs, name="if", outputs=[_value("y", [10])])
    made = memory.plan(ir.Model(ir.Graph([cond], choice.outputs, nodes=[choice]), ir_version=10), CHIP)
    inner = next(block for block in made.blocks if block.kind == "branches")
    assert inner.size == memory.aligned(10000)  # the larger one: only one branch runs
    assert made.weight_bytes == 2048 + 10240


def test_growing_and_shrinking_chains_reach_the_lower_bound() -> None:
    shapes = [[n] for n in (1000, 4000, 2000, 8000, 500, 6000, 3000, 100)]
    made = memory.plan(_chain(shapes), CHIP)
    assert made.feature_bytes == max(made.live)


def test_a_thousand_operators_are_planned_in_a_tenth_of_a_second() -> None:
    sizes = np.random.default_rng(3).integers(1000, 100000, 1001)
    graph = _chain([[int(n)] for n in sizes])
    best = min(_cpu_seconds(graph) for _ in range(3))
    assert best < 1.0


def _cpu_seconds(graph: ir.Model) -> float:
    start = time.process_time()
    memory.plan(graph, CHIP)
    return time.process_time() - start


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


@pytest.mark.provokes("ASC3001")
def test_what_does_not_fit_is_refused_with_the_tensors_to_blame() -> None:
    made = memory.plan(_chain([[8], [40 << 30], [8]]), CHIP)
    with pytest.raises(AscError) as refused:
        made.check(CHIP)
    (problem,) = refused.value.problems
    assert "ATC memory allocation failed" in problem.what
    assert problem.nodes[0].startswith("n0_y")
    made.check(soc.get("Ascend310P5"))  # capacity unknown: nothing to check against
