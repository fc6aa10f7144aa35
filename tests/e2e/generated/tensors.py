"""Steps around them: indices, logic, casts, shapes, branches, reductions, quantisation, odd outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.e2e.generated.maker import BOOL, FLOAT, INT64, ModelMaker, need
from tests.passes.random_graphs import Shape


def indices(g: ModelMaker, x: str, shape: Shape) -> None:
    """Integer results and what is done with them."""
    need(len(shape) >= 1)
    axis = g.axis(shape)
    form = g.number(0, 4)
    if form == 0:
        k = g.number(1, shape[axis])
        _, where = g.make("TopK", [x, g.ints(k)], 2, axis=axis, largest=g.number(0, 1))
        if g.chance(0.5):
            g.make("GatherElements", [x, where], axis=axis)
    elif form == 1:
        (where,) = g.make(g.choose("ArgMax", "ArgMin"), [x], axis=axis, keepdims=g.number(0, 1))
        g.make("Cast", [where], to=FLOAT)
    elif form == 2:
        (where,) = g.make("ArgMax", [x], axis=axis, keepdims=0)
        (hot,) = g.make("OneHot", [where, g.const(shape[axis], np.int64), g.const([0.5, 2.0])], axis=axis)
        same = [v for v in g.values if v[0] == hot and v[1] == shape]
        if same:
            g.make("Mul", [hot, x])
    elif form == 3:
        count = g.number(1, 3)
        rows = g.const(g.rng.integers(-shape[axis], shape[axis], (count, g.number(1, 2))), np.int64)
        g.make("Gather", [x, rows], axis=axis)
    else:
        rows = g.const(g.rng.integers(0, shape[0], (2, 1)), np.int64)
        (y,) = g.make("GatherND", [x, rows])
        g.make("ScatterND", [x, rows, y], **({"reduction": g.choose("add", "max")} if g.chance(0.5) else {}))


def logic(g: ModelMaker, x: str, shape: Shape) -> None:
    other = [v for v, s in g.values if s == shape]
    (a,) = g.make(g.choose("Greater", "Less", "GreaterOrEqual", "LessOrEqual"), [x, g.pick(other)])
    if g.chance(0.5):
        (b,) = g.make("Less", [x, g.const(0.3)])
        (a,) = g.make(g.choose("And", "Or", "Xor"), [a, b])
    if g.chance(0.4):
        (a,) = g.make("Not", [a])
    form = g.number(0, 2)
    if form == 0:
        g.make("Where", [a, x, g.pick(other)])
    elif form == 1:
        g.make("Where", [a, g.const(g.rng.standard_normal(())), x])
    else:
        g.make("Cast", [a], to=FLOAT)


def casts(g: ModelMaker, x: str, shape: Shape) -> None:
    y = x
    for _ in range(g.number(1, 2)):
        to = g.pick(
            (
                TensorProto.INT32,
                INT64,
                TensorProto.INT8,
                TensorProto.DOUBLE,
                TensorProto.FLOAT16,
                TensorProto.UINT8,
                BOOL,
            )
        )
        if to == TensorProto.UINT8:
            (y,) = g.make("Cast", [y], keep=0, to=FLOAT)
            (y,) = g.make("Abs", [y], keep=0)
        (y,) = g.make("Cast", [y], to=to)
    if g.chance(0.3) and to in (TensorProto.INT32, INT64, TensorProto.DOUBLE):
        (y,) = g.make(g.choose("Add", "Mul", "Sub"), [y, y])
    g.make("Cast", [y], to=FLOAT)


def shapes(g: ModelMaker, x: str, shape: Shape) -> None:
    """Reshape to what Shape, Gather and Concat compute, as exporters write it."""
    need(len(shape) >= 2)
    (s,) = g.make("Shape", [x])
    if g.chance(0.5):
        (d,) = g.make("Gather", [s, g.ints(0)])
    else:
        (d,) = g.make("Slice", [s, g.ints(0), g.ints(1)])
    if g.chance(0.3):
        (d,) = g.make("Mul", [d, g.ints(1)])
    (target,) = g.make("Concat", [d, g.ints(-1)], axis=0)
    g.make("Reshape", [x, target])


def spread(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) >= 1)
    form = g.number(0, 7)
    axis = g.axis(shape)
    if form == 0 and shape[axis] > 2:
        first = g.number(0 if g.chance(0.1) else 1, shape[axis] - 1)
        sizes = g.ints(first, shape[axis] - first)
        g.make("Split", [x, sizes], 2, axis=axis - (len(shape) if g.chance(0.5) else 0))
    elif form == 1 and shape[axis] > 2:
        g.make("Split", [x], -(-shape[axis] // 2), axis=axis, num_outputs=-(-shape[axis] // 2))
    elif form == 2:
        g.make("Tile", [x, g.ints(*(g.number(1, 2) for _ in shape))])
    elif form == 3:
        g.make("CumSum", [x, g.const(axis, np.int64)], exclusive=g.number(0, 1), reverse=g.number(0, 1))
    elif form == 4 and len(shape) >= 2:
        g.make("Trilu", [x, g.const(g.number(-2, 2), np.int64)], upper=g.number(0, 1))
    elif form == 5:
        starts, ends, steps = (-1, -1000, -g.number(1, 2)) if g.chance(0.5) else (g.number(0, 1), 2**62, g.number(1, 3))
        g.make("Slice", [x, g.ints(starts), g.ints(ends), g.ints(axis), g.ints(steps)])
    elif form == 6:
        pads = g.ints(*(g.number(0, 1) for _ in range(2 * len(shape))))
        need(min(shape) > 1)
        g.make("Pad", [x, pads], mode=g.choose("reflect", "edge", *(["wrap"] if g.opset >= 19 else [])))
    elif form == 7 and len(shape) == 4:
        if shape[1] % 4 == 0 and g.chance(0.6):
            g.make("DepthToSpace", [x], blocksize=2, mode=g.choose("DCR", "CRD"))
        elif shape[2] % 2 == 0 and shape[3] % 2 == 0:
            g.make("SpaceToDepth", [x], blocksize=2)


def variadic(g: ModelMaker, x: str, shape: Shape) -> None:
    def dims() -> list[int]:
        return [d if g.chance(0.5) else 1 for d in shape][g.number(0, len(shape)) :]

    others = [g.normal(*dims()) for _ in range(g.number(0, 2))] + [
        v for v, s in g.values[-6:] if s == shape and g.chance(0.3)
    ]
    names = [x, *others]
    g.rng.shuffle(names)
    g.make(g.choose("Sum", "Mean", "Max", "Min"), names)


def broadcast(g: ModelMaker, x: str, shape: Shape) -> None:
    """Two values of different shapes."""
    others = [n for n, s in g.values if s != shape and _broadcasts(s, shape)]
    need(bool(others))
    pair = [x, g.pick(others)]
    g.rng.shuffle(pair)
    g.make(g.choose("Add", "Sub", "Mul", "Max", "PRelu" if pair[0] == x and len(shape) > 3 else "Min"), pair)


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


def smooth(g: ModelMaker, x: str, shape: Shape) -> None:
    kinds = ["Softplus", "Softsign", "Elu", "Selu", "Celu", "Erf", "Sin", "Cos", "HardSwish", "Mish", "ThresholdedRelu"]
    kinds += ["Sigmoid", "Atan"] + ["Gelu"] * (g.opset >= 20)
    kind = g.pick(kinds)
    g.make(kind, [x], **({"alpha": g.pick((0.3, 1.0, 1.7))} if kind in ("Elu", "Celu", "ThresholdedRelu") else {}))


def powers(g: ModelMaker, x: str, shape: Shape) -> None:
    (a,) = g.make("Abs", [x], keep=0)
    (a,) = g.make("Add", [a, g.const(0.5)], keep=0)
    form = g.number(0, 4)
    if form == 0:
        g.make("Pow", [a, g.const(g.pick((0.5, 2.0, 3.0, -1.0, -0.5)))])
    elif form == 1:
        g.make(g.choose("Sqrt", "Log", "Reciprocal"), [a])
    elif form == 2:
        g.make("Div", [x, a])
    elif form == 3:
        g.make("Exp", [g.make("Neg", [a], keep=0)[0]])
    else:
        g.make("Pow", [x, g.const(2, np.int64 if g.chance(0.3) else np.float32)])


def quantised(g: ModelMaker, x: str, shape: Shape) -> None:
    kind = g.pick((np.int8, np.uint8))
    scale, zero = 0.04, 0 if kind is np.int8 else 128
    if len(shape) >= 2 and g.chance(0.4):
        args = [g.const(0.02 + 0.05 * g.rng.random(shape[1])), g.const([zero] * shape[1], kind)]
    else:
        args = [g.const(scale), g.const(zero, kind)]
    (q,) = g.make("QuantizeLinear", [x, *args], axis=1 if len(shape) > 1 else 0)
    (y,) = g.make("DequantizeLinear", [q, *args], axis=1 if len(shape) > 1 else 0)
    if len(shape) == 2 and g.chance(0.5):
        weights = g.const(g.rng.integers(-120, 120, (shape[1], 3)), np.int8)
        (w,) = g.make("DequantizeLinear", [weights, g.const(0.01), g.const(0, np.int8)], keep=0)
        g.make("MatMul", [y, w])


def branches(g: ModelMaker, x: str, shape: Shape) -> None:
    """If, one level or two, on a condition known at run time only, or constant."""
    need(len(shape) >= 1)
    if g.chance(0.2):
        condition = g.const(g.chance(0.5), np.bool_)
    else:
        (total,) = g.make("ReduceSum", [x], keep=0, keepdims=0)
        (condition,) = g.make("Greater", [total, g.const(0.0)])
    number = len(g.nodes)
    weight = g.normal(shape[-1])

    def body(name: str, nodes: list[onnx.NodeProto], constants: dict[str, Any] | None = None) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, shape)
        held = [numpy_helper.from_array(np.float32(v), k) for k, v in (constants or {}).items()]
        return helper.make_graph(nodes, name, [], [result], held)

    def simple(name: str) -> onnx.GraphProto:
        kind = g.choose("Add", "Mul", "Sub")
        inner = helper.make_node(kind, [x, weight], [f"{name}_a"], name=f"{name}_first")
        if g.chance(0.5):
            return body(name, [inner, helper.make_node("Relu", [f"{name}_a"], [f"{name}_b"], name=f"{name}_second")])
        return body(name, [helper.make_node("Mul", [x, f"{name}_c"], [f"{name}_y"])], {f"{name}_c": 1.5})

    first = simple(f"then{number}")
    if g.chance(0.4):
        inner = helper.make_node("If", [condition], [f"inner{number}"], then_branch=simple(f"deep{number}"),
                                 else_branch=simple(f"deeper{number}"))  # fmt: skip
        last = helper.make_node("Tanh", [f"inner{number}"], [f"inner{number}_y"])
        second = body(f"else{number}", [inner, last])
    else:
        second = body(f"else{number}", [helper.make_node("Identity", [x], [f"same{number}"])])
    if g.chance(0.5):
        first, second = second, first
    g.make("If", [condition], then_branch=first, else_branch=second)


def more_reduce(g: ModelMaker, x: str, shape: Shape) -> None:
    need(len(shape) >= 1)
    kind = g.choose(
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
    )
    keep = g.number(0, 1)
    form = g.number(0, 2)
    if form == 0:
        g.make(kind, [x], keepdims=keep)
    elif form == 1:
        g.make(
            kind,
            [x, g.const([], np.int64)],
            keepdims=keep,
            noop_with_empty_axes=g.number(0, 1) if kind in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin") else 0,
        )
    else:
        axes = sorted(g.rng.choice(len(shape), g.number(1, len(shape)), replace=False).tolist())
        g.make(kind, [x, g.ints(*(a - (len(shape) if g.chance(0.5) else 0) for a in axes))], keepdims=keep)


def loose_end(g: ModelMaker, x: str, shape: Shape) -> None:
    """Something that is no float at the end of the model."""
    form = g.number(0, 3)
    if form == 0:
        name, kind, dims = g.make("Shape", [x])[0], INT64, (len(shape),)
        need(len(shape) > 0)
    elif form == 1:
        name, kind, dims = g.make("Greater", [x, g.const(0.1)])[0], BOOL, shape
    elif form == 2:
        name, kind, dims = g.make("Cast", [x], to=TensorProto.FLOAT16)[0], TensorProto.FLOAT16, shape
    else:
        name, kind, dims = g.make("Cast", [x], to=TensorProto.INT32)[0], TensorProto.INT32, shape
    g.extra.append(helper.make_tensor_value_info(name, kind, dims))


STEPS = (
    indices,
    logic,
    casts,
    shapes,
    spread,
    variadic,
    broadcast,
    smooth,
    powers,
    quantised,
    branches,
    more_reduce,
    loose_end,
)
