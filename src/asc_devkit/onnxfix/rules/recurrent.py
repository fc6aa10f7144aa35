"""The plain recurrent layer, step by step: h = f(x W^T + h R^T + b)."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

MOST_STEPS: Final = 512
_ACTIVATIONS: Final = ("Tanh", "Relu", "Sigmoid", "Softsign", "Softplus")  # those without parameters


def rnn(e: Edit) -> None:
    shape, weights = e.shape(0), e.shape(1)
    batch_first = bool(e.attr("layout", 0))
    if shape is None or len(shape) != 3 or weights is None or None in weights:
        raise Refusal("the shapes of its inputs are unknown; give --input-shape")
    steps, batch = (shape[1], shape[0]) if batch_first else (shape[0], shape[1])
    if steps is None or batch is None or steps > MOST_STEPS:
        raise Refusal(f"it has {steps or 'an unknown number of'} steps; up to {MOST_STEPS} are written out")
    lengths = e.const(4)
    if e.input(4) is not None and (lengths is None or (lengths != steps).any()):
        raise Refusal("its sequences have different lengths (sequence_lens)")
    if e.attr("clip") is not None:
        raise Refusal("it clips its activations")
    directions = int(weights[0] or 1)
    functions = [_name(f) for f in e.attr("activations", ["Tanh"] * directions)]
    if len(functions) != directions or any(f not in _ACTIVATIONS for f in functions):
        raise Refusal(f"it uses the activations {', '.join(functions)}")
    x = e.before("Transpose", [e.input(0)], {"perm": [1, 0, 2]}) if batch_first else e.input(0)
    backward = [e.attr("direction", "forward") == "reverse" or d == 1 for d in range(directions)]
    states = []
    for d in range(directions):
        states.append(_direction(e, x, d, steps, functions[d], backward[d], batch_first))
    _results(e, states, backward, batch_first)


def _direction(
    e: Edit, x: ir.Value | None, d: int, steps: int, function: str, backward: bool, batch_first: bool
) -> list[ir.Value]:
    """States of one direction in time order."""

    def part(index: int) -> ir.Value:
        return e.before("Gather", [e.input(index), np.array(d, np.int64)], {"axis": 0})

    product = e.before("MatMul", [x, e.before("Transpose", [part(1)], {"perm": [1, 0]})])
    recurrence = e.before("Transpose", [part(2)], {"perm": [1, 0]})
    if e.input(3) is not None:
        halves = e.before("Reshape", [part(3), np.array([2, -1], np.int64)])
        bias = e.before("ReduceSum", [halves, np.array([0], np.int64)], {"keepdims": 0})
        product = e.before("Add", [product, bias])
    state = None
    if e.input(5) is not None:
        axis = 1 if batch_first else 0
        state = e.before("Gather", [e.input(5), np.array(d, np.int64)], {"axis": axis})
    found: dict[int, ir.Value] = {}
    for step in reversed(range(steps)) if backward else range(steps):
        total = e.before("Gather", [product, np.array(step, np.int64)], {"axis": 0})
        if state is not None:
            total = e.before("Add", [total, e.before("MatMul", [state, recurrence])])
        state = found[step] = e.before(function, [total])
    return [found[step] for step in range(steps)]


def _results(e: Edit, states: list[list[ir.Value]], backward: list[bool], batch_first: bool) -> None:
    """Y: (steps, directions, batch, hidden), Y_h: (directions, batch, hidden); batch first when asked."""
    one = np.array([1], np.int64)
    zero = np.array([0], np.int64)
    sequence = [
        e.before("Unsqueeze", [e.before("Concat", [e.before("Unsqueeze", [s, zero]) for s in line], {"axis": 0}), one])
        for line in states
    ]
    y = e.before("Concat", sequence, {"axis": 1})
    last = [line[0] if back else line[-1] for line, back in zip(states, backward, strict=True)]
    y_h = e.before("Concat", [e.before("Unsqueeze", [h, zero]) for h in last], {"axis": 0})
    if batch_first:
        y = e.before("Transpose", [y], {"perm": [2, 0, 1, 3]})
        y_h = e.before("Transpose", [y_h], {"perm": [1, 0, 2]})
    hand_over(e, [y, y_h])


def hand_over(e: Edit, results: list[ir.Value]) -> None:
    """Let ``results`` stand for the outputs of the node, which goes."""
    for old, new in zip(e.node.outputs, results, strict=False):
        copy = e.before("Identity", [new])
        old_name = old.name
        old.replace_all_uses_with(copy, replace_graph_outputs=True)
        old.name = e.names.value(f"{e.node.name}/gone")
        if old_name:
            copy.name, copy.type, copy.shape = old_name, old.type, old.shape
    e.graph.remove(e.node, safe=True)


def _name(function: str) -> str:
    return next((known for known in _ACTIVATIONS if known.lower() == function.lower()), function)


RULES = {"RNN": rnn}
