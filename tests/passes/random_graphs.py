"""Random float graphs in which the passes' patterns occur often, with their neighbours in every combination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
INPUT_SHAPES: tuple[Shape, ...] = ((1, 4, 6, 6), (2, 3, 4), (1, 6, 6, 4))


class GraphMaker:
    """Grows a graph node by node; a value is its name and shape."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.values: list[tuple[str, Shape]] = []
        self.inputs: list[tuple[str, Shape]] = []
        for i in range(int(self.rng.integers(1, 3))):
            self.inputs.append((f"in{i}", INPUT_SHAPES[int(self.rng.integers(len(INPUT_SHAPES)))]))
        self.values.extend(self.inputs)

    def model(self, steps: int) -> onnx.ModelProto:
        kinds = list(STEPS)
        for _ in range(steps):
            back = min(int(self.rng.exponential(2.5)), len(self.values) - 1)
            x, shape = self.values[-1 - back]
            STEPS[kinds[int(self.rng.integers(len(kinds)))]](self, x, shape)
        read = {name for node in self.nodes for name in node.input}
        made = [v for v in self.values if v not in self.inputs]
        ends = [v for v in made if v[0] not in read]
        inner = [v for v in made if v[0] in read]
        if inner and self.rng.random() < 0.5:
            ends.append(inner[int(self.rng.integers(len(inner)))])
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)

    def feeds(self) -> dict[str, Array]:
        return {name: self.rng.standard_normal(shape).astype(np.float32) for name, shape in self.inputs}

    # --- bricks ---

    def node(self, op_type: str, inputs: list[str], shape: Any, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"node_{name}", **attrs))
        self.values.append((name, tuple(int(d) for d in shape)))
        return name

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(numbers, np.int64)

    def choose(self, *names: str) -> str:
        return names[int(self.rng.integers(len(names)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def axis(self, shape: Shape) -> int:
        return int(self.rng.integers(len(shape)))


def unary(g: GraphMaker, x: str, shape: Shape) -> None:
    g.node(g.choose("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "HardSigmoid", "LeakyRelu"), [x], shape)


def binary(g: GraphMaker, x: str, shape: Shape) -> None:
    same = [n for n, s in g.values if s == shape]
    other = same[int(g.rng.integers(len(same)))]
    g.node(g.choose("Add", "Sub", "Mul", "Max", "Min"), [x, other], shape)


def with_constant(g: GraphMaker, x: str, shape: Shape) -> None:
    dims = [d if g.chance(0.5) else 1 for d in shape]
    if g.chance(0.3):
        dims = dims[int(g.rng.integers(len(dims) + 1)) :]
    array = {"normal": g.rng.standard_normal(dims), "zero": np.zeros(dims), "one": np.ones(dims)}[
        g.choose("normal", "normal", "zero", "one")
    ]
    op_type = g.choose("Add", "Sub", "Mul", "Div")
    constant = g.const(np.abs(array) + 0.5 if op_type == "Div" else array)
    swap = op_type != "Div" and g.chance(0.4)
    g.node(op_type, [constant, x] if swap else [x, constant], shape)


def constant_chain(g: GraphMaker, x: str, shape: Shape) -> None:
    for _ in range(2):
        with_constant(g, x, shape)
        x = g.values[-1][0]


def transpose(g: GraphMaker, x: str, shape: Shape) -> None:
    perm = [int(i) for i in g.rng.permutation(len(shape))]
    g.node("Transpose", [x], [shape[p] for p in perm], perm=perm)
    if g.chance(0.5):
        for _ in range(int(g.rng.integers(3))):
            (unary if g.chance(0.5) else with_constant)(g, *g.values[-1])
        y, between = g.values[-1]
        back = [perm.index(i) for i in range(len(perm))]
        g.node("Transpose", [y], [between[b] for b in back], perm=back)


def reshape(g: GraphMaker, x: str, shape: Shape) -> None:
    left, dims = int(np.prod(shape)), []
    while left > 1 and len(dims) < 3:
        divisors = [k for k in range(1, left + 1) if left % k == 0]
        dims.append(divisors[int(g.rng.integers(len(divisors)))])
        left //= dims[-1]
    dims.append(left)
    g.node("Reshape", [x, g.ints(*dims)], dims)


def unit_dimension(g: GraphMaker, x: str, shape: Shape) -> None:
    if 1 in shape and g.chance(0.5):
        at = shape.index(1)
        g.node("Squeeze", [x, g.ints(at)], shape[:at] + shape[at + 1 :])
    elif len(shape) < 5:
        at = int(g.rng.integers(len(shape) + 1))
        g.node("Unsqueeze", [x, g.ints(at)], (*shape[:at], 1, *shape[at:]))


def cut(g: GraphMaker, x: str, shape: Shape) -> None:
    axis = int(np.argmax(shape)) if shape else 0
    if not shape or shape[axis] < 2:
        return
    if g.chance(0.5):
        at = int(g.rng.integers(1, shape[axis]))
        for low, high in ((0, at), (at, shape[axis])):
            part = (*shape[:axis], high - low, *shape[axis + 1 :])
            g.node("Slice", [x, g.ints(low), g.ints(high), g.ints(axis)], part)
        return
    low = int(g.rng.integers(shape[axis]))
    high = int(g.rng.integers(low + 1, shape[axis] + 1))
    step = int(g.rng.integers(1, 3))
    part = (*shape[:axis], len(range(low, high, step)), *shape[axis + 1 :])
    g.node("Slice", [x, g.ints(low), g.ints(high), g.ints(axis), g.ints(step)], part)


def concat(g: GraphMaker, x: str, shape: Shape) -> None:
    if not shape:
        return
    axis = g.axis(shape)

    def rest(s: Shape) -> Shape:
        return s[:axis] + s[axis + 1 :]

    fits = [(n, s) for n, s in g.values if len(s) == len(shape) and rest(s) == rest(shape)]
    parts = [fits[int(g.rng.integers(len(fits)))] for _ in range(int(g.rng.integers(1, 4)))]
    total = sum(s[axis] for _, s in parts)
    if total < 40:
        g.node("Concat", [n for n, _ in parts], (*shape[:axis], total, *shape[axis + 1 :]), axis=axis)


def reduce(g: GraphMaker, x: str, shape: Shape) -> None:
    if not shape:
        return
    axis, keep = g.axis(shape), g.chance(0.7)
    after = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
    kind = g.choose("ReduceMean", "ReduceSum", "ReduceMax")
    g.node(kind, [x, g.ints(axis - len(shape))], after, keepdims=int(keep))


def softmax(g: GraphMaker, x: str, shape: Shape) -> None:
    if shape:
        g.node(g.choose("Softmax", "LogSoftmax"), [x], shape, axis=g.axis(shape))


def pad(g: GraphMaker, x: str, shape: Shape) -> None:
    if not shape or np.prod(shape) > 500:
        return
    amounts = [int(a) for a in g.rng.integers(0, 2, 2 * len(shape))]
    if len(shape) == 4:
        amounts[0] = amounts[1] = amounts[4] = amounts[5] = 0
    sums = [amounts[i] + amounts[i + len(shape)] for i in range(len(shape))]
    g.node("Pad", [x, g.ints(*amounts)], [d + s for d, s in zip(shape, sums, strict=True)])


def gather(g: GraphMaker, x: str, shape: Shape) -> None:
    if not shape:
        return
    axis = g.axis(shape)
    index = int(g.rng.integers(-shape[axis], shape[axis]))
    y = g.node("Gather", [x, g.const(index, np.int64)], shape[:axis] + shape[axis + 1 :], axis=axis)
    if g.chance(0.6):
        g.node("Unsqueeze", [y, g.ints(axis)], (*shape[:axis], 1, *shape[axis + 1 :]))


def no_operation(g: GraphMaker, x: str, shape: Shape) -> None:
    g.node(g.choose("Identity", "Dropout"), [x], shape)


def bounds(g: GraphMaker, x: str, shape: Shape) -> None:
    if g.chance(0.5):
        g.node(g.choose("Max", "Min"), [x, g.const(g.rng.random())], shape)
    else:
        g.node("Clip", [x, g.const(-0.5), g.const(g.rng.random())], shape)


def convolution(g: GraphMaker, x: str, shape: Shape) -> None:
    if len(shape) != 4 or min(shape[2:]) < 2:
        return
    channels, kernel, padding = shape[1], int(g.rng.integers(1, 3)), int(g.rng.integers(0, 2))
    group = channels if g.chance(0.3) else 1
    out = channels if group > 1 else int(g.rng.integers(1, 6))
    bias = [g.const(g.rng.standard_normal(out))] if g.chance(0.5) else []
    if group == 1 and g.chance(0.2):
        weight = g.const(g.rng.standard_normal((channels, out, kernel, kernel)) / 2)
        spatial = [d + kernel - 1 for d in shape[2:]]
        g.node("ConvTranspose", [x, weight, *bias], (shape[0], out, *spatial))
    else:
        weight = g.const(g.rng.standard_normal((out, channels // group, kernel, kernel)) / 2)
        spatial = [d + 2 * padding - kernel + 1 for d in shape[2:]]
        g.node("Conv", [x, weight, *bias], (shape[0], out, *spatial), group=group, pads=[padding] * 4)
    if g.chance(0.6):
        y, after = g.values[-1]
        constant = g.const(g.rng.standard_normal((out, 1, 1)))
        g.node(g.choose("Mul", "Add", "Sub"), [y, constant] if g.chance(0.7) else [constant, y], after)


def batch_norm(g: GraphMaker, x: str, shape: Shape) -> None:
    if len(shape) >= 2:
        numbers = [g.const(g.rng.standard_normal(shape[1])) for _ in range(3)]
        g.node("BatchNormalization", [x, *numbers, g.const(g.rng.random(shape[1]) + 0.2)], shape)


def matmul(g: GraphMaker, x: str, shape: Shape) -> None:
    if len(shape) < 2:
        return
    n = int(g.rng.integers(1, 6))
    y = g.node("MatMul", [x, g.const(g.rng.standard_normal((shape[-1], n)) / 2)], (*shape[:-1], n))
    if g.chance(0.6):
        g.node("Add", [y, g.const(g.rng.standard_normal(n))], (*shape[:-1], n))


def expand(g: GraphMaker, x: str, shape: Shape) -> None:
    if shape and np.prod(shape) < 300:
        target = [d if d > 1 or g.chance(0.6) else 2 for d in shape]
        g.node("Expand", [x, g.ints(*target)], target)


def gates(g: GraphMaker, x: str, shape: Shape) -> None:
    """Hard swish, gelu or swish in elementary operators."""
    kind = g.choose("hard swish", "gelu", "swish")
    if kind == "hard swish":
        a = g.node("Add", [x, g.const(3)], shape)
        b = g.node("Clip", [a, g.const(0), g.const(6)], shape)
        if g.chance(0.5):
            g.node("Div", [g.node("Mul", [x, b], shape), g.const(6)], shape)
        else:
            g.node("Mul", [g.node("Div", [b, g.const(6)], shape), x], shape)
    elif kind == "gelu":
        a = g.node("Erf", [g.node("Div", [x, g.const(2**0.5)], shape)], shape)
        b = g.node("Add", [a, g.const(1)], shape)
        g.node("Mul", [g.node("Mul", [x, b], shape), g.const(0.5)], shape)
    else:
        g.node("Mul", [x, g.node("Sigmoid", [x], shape)], shape)


def layer_norm(g: GraphMaker, x: str, shape: Shape) -> None:
    if not shape or shape[-1] < 2:
        return
    axes, row = g.ints(-1), (*shape[:-1], 1)
    centred = g.node("Sub", [x, g.node("ReduceMean", [x, axes], row)], shape) if g.chance(0.7) else x
    square = g.node("Mul", [centred, centred], shape)
    variance = g.node("Add", [g.node("ReduceMean", [square, axes], row), g.const(0.01)], row)
    y = g.node("Div", [centred, g.node("Sqrt", [variance], row)], shape)
    if g.chance(0.7):
        y = g.node("Mul", [y, g.const(g.rng.standard_normal(shape[-1]))], shape)
    if g.chance(0.7):
        g.node("Add", [g.const(g.rng.standard_normal(shape[-1])), y], shape)


STEPS: dict[str, Callable[[GraphMaker, str, Shape], None]] = {
    step.__name__: step
    for step in (
        unary,
        binary,
        with_constant,
        constant_chain,
        transpose,
        reshape,
        unit_dimension,
        cut,
        concat,
        reduce,
        softmax,
        pad,
        gather,
        no_operation,
        bounds,
        convolution,
        batch_norm,
        matmul,
        expand,
        gates,
        layer_norm,
    )
}
