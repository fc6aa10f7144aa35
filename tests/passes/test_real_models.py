"""The passes on the real models: results stay, nodes go, names keep their meaning."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit.ge.desc import GROUP, ORIGIN_OPS
from asc_devkit.passes import PassContext, Switches, all_passes, optimise
from tests.models import REAL_MODELS, example_inputs, model_path
from tests.passes.execute import difference, real, run, run_everything, session

# Fewest nodes (constants excluded) that onnxsim 0.8.1, onnxslim 0.1.98 or ONNX Runtime 1.32's basic level leave, with
# the example shapes bound: `benchmarks/node_counts.py` prints the table.
BEST_OF_OTHERS = {
    "ppocr_det": 297,
    "ppocr_rec": 365,
    "ppocr_cls": 179,
    "open_nsfw": 287,
    "yolox": 272,
    "crnn_int8": 252,
    "siamese": 72,
    "minilm": 114,
    "t5_int8": 557,
    "gru_encoder": 20,
    "gru_decoder": 60,
    "silero_lstm": 25,
    "silero_if": 4,
    "basic_pitch": 154,
    "melspectrogram": 18,
    "magika": 74,
    "bilstm_int8": 40,
}
TOLERANCE = 1e-5


def tolerance(key: str, expected: dict[str, np.ndarray]) -> float:
    """1e-5, or three times what ONNX Runtime's own basic optimisation moves the results by where that is more.

    The text detector ends in a steep sigmoid: at the edges of letters any other order of its sums moves a pixel by more
    than 1e-4 (onnxsim and onnxslim move it as far).
    """
    if key != "ppocr_det":
        return TOLERANCE
    loaded = session(str(model_path(key)), "ORT_ENABLE_BASIC")
    others = loaded.run(None, example_inputs(key))
    return max(TOLERANCE, *(3 * difference(e, o) for e, o in zip(expected.values(), others, strict=True)))


def original_results(key: str) -> dict[str, np.ndarray]:
    loaded = session(str(model_path(key)))
    return dict(zip([o.name for o in loaded.get_outputs()], loaded.run(None, example_inputs(key)), strict=True))


@pytest.mark.parametrize("key", REAL_MODELS)
def test_all_passes_together_keep_results_and_leave_no_more_nodes_than_others(key: str) -> None:
    expected = original_results(key)
    model = real(key)
    report = optimise(model)
    assert model.graph.num_nodes() <= BEST_OF_OTHERS[key]
    assert report.nodes_after <= report.nodes_before
    actual = run(model, example_inputs(key))
    assert list(actual) == list(expected)
    limit = tolerance(key, expected)
    assert {n: d for n, e in expected.items() if (d := difference(e, actual[n])) > limit} == {}


@pytest.mark.parametrize("key", REAL_MODELS)
def test_each_pass_alone_keeps_results(key: str) -> None:
    expected = original_results(key)
    limit = tolerance(key, expected)
    wrong = {}
    for name in {p.name: None for p in all_passes()}:
        model = real(key)
        report = optimise(model, PassContext(Switches().only(name)))
        if not report.rewrites or report.count(name).group == "ub":
            continue
        assert {r.pass_name for r in report.rewrites} == {name}
        actual = run(model, example_inputs(key))
        worst = max(difference(e, actual[n]) for n, e in expected.items())
        if worst > limit:
            wrong[name] = worst
    assert wrong == {}


@pytest.mark.parametrize("key", ["ppocr_rec", "open_nsfw", "minilm", "t5_int8", "basic_pitch", "yolox", "gru_decoder"])
def test_a_value_that_keeps_its_name_keeps_its_content(key: str) -> None:
    model = real(key)
    before = run_everything(model, example_inputs(key))
    optimise(model)
    after = run_everything(model, example_inputs(key))
    shared = [n for n in after if n in before]
    assert len(shared) >= 0.4 * len(after)
    assert {n: d for n in shared if (d := difference(before[n], after[n])) > 1e-4} == {}


@pytest.mark.parametrize("key", ["ppocr_det", "open_nsfw", "t5_int8", "crnn_int8"])
def test_nodes_remember_the_nodes_of_the_users_model(key: str) -> None:
    model = real(key)
    users = {n.name for n in model.graph}
    optimise(model)
    names = [n.name for n in model.graph]
    assert len(names) == len(set(names))
    for node in model.graph:
        origins = [name for name, _ in node.meta[ORIGIN_OPS]]
        assert set(origins) <= users
        assert origins or node.op_type == "Transpose", node.name


@pytest.mark.parametrize("key", ["ppocr_det", "ppocr_rec", "yolox", "open_nsfw", "minilm", "gru_decoder", "magika"])
def test_fused_groups_are_convex_with_one_output(key: str) -> None:
    model = real(key)
    optimise(model)
    groups: dict[int, list[ir.Node]] = {}
    for node in model.graph:
        if GROUP in node.meta:
            groups.setdefault(node.meta[GROUP], []).append(node)
    assert groups
    reach = _descendants(model.graph)
    for members in groups.values():
        inside = set(members)
        assert len(members) >= 2
        for node in members[:-1]:
            for out in node.outputs:
                assert not out.is_graph_output()
                assert {u.node for u in out.uses()} <= inside
        outside = set().union(*(reach[n] for n in members)) - inside
        assert all(not (reach[n] & inside) for n in outside), "a path leaves the group and comes back"


def _descendants(graph: ir.Graph) -> dict[ir.Node, set[ir.Node]]:
    reach: dict[ir.Node, set[ir.Node]] = {}
    for node in reversed(graph):
        mine: set[ir.Node] = set()
        for out in node.outputs:
            for use in out.uses():
                mine |= {use.node} | reach[use.node]
        reach[node] = mine
    return reach


def test_the_largest_models_take_little_time() -> None:
    for key, limit in (("ppocr_rec", 3.5), ("open_nsfw", 3.5), ("t5_int8", 6.0)):
        best = min(_seconds(key) for _ in range(3))
        assert best <= limit, key


def _seconds(key: str) -> float:
    from asc_devkit.frontends.onnx import load
    from asc_devkit.ops.infer import infer

    model = load(REAL_MODELS[key].path, input_shapes=REAL_MODELS[key].shapes).model
    started = time.process_time()
    infer(model)
    optimise(model)
    return time.process_time() - started
