"""Fused kernels: one node of the vendor's graph back into the operators it stands for.

A fused node keeps the main operator's type, its inputs followed by those of the others, and the names of the user's
operators; attributes are those of the type's defaults, not those of the operator. What the node does is told by
``_datadump_original_op_types``, else by the kernel's name (``te_fused_op_conv2d_hard_swish_<hash>``), else by the names of
the user's operators, which most exporters end with the operator's type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, MEMBERS, ORIGIN_OPS, TensorDesc
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.vendor import geometry
from asc_devkit.om.vendor.guesses import Guess
from asc_devkit.ops import attributes

NAMES: Final = "_datadump_original_op_names"
TYPES: Final = "_datadump_original_op_types"
PASSES: Final = ("pass_name_ub", "pass_name")
#: Passes after which attributes of the node are no longer those of the operator.
_KERNEL: Final = re.compile(r"te_fused_op_(?P<parts>[a-z0-9_]+?)_?(?:[0-9a-f]{32,}.*)?$")
#: ONNX (and older GE) names of operators -> GE type of the member.
FOLLOWERS: Final[dict[str, str]] = {
    "Relu": "Relu", "Relu6": "Relu6", "LeakyRelu": "LeakyRelu", "PRelu": "PRelu", "Elu": "Elu", "Sigmoid": "Sigmoid",
    "Tanh": "Tanh", "Exp": "Exp", "Abs": "Abs", "Sqrt": "Sqrt", "Neg": "Neg", "HardSigmoid": "HardSigmoid",
    "HardSwish": "HardSwish", "Swish": "Swish", "Mish": "Mish", "Gelu": "Gelu", "Softplus": "Softplus",
    "Clip": "ClipByValue", "ClipByValue": "ClipByValue", "ClipByValueV2": "ClipByValue",
    "Add": "Add", "Sub": "Sub", "Mul": "Mul", "Div": "RealDiv", "RealDiv": "RealDiv",
    "Max": "Maximum", "Maximum": "Maximum", "Min": "Minimum", "Minimum": "Minimum",
}  # fmt: skip
MAIN: Final[dict[str, str]] = {
    "Conv": "Conv2D", "Conv2D": "Conv2D", "Gemm": "MatMulV2", "MatMul": "MatMulV2", "MatMulV2": "MatMulV2",
    "BatchMatMulV2": "BatchMatMulV2", "FullyConnection": "FullyConnection",
}  # fmt: skip
#: Attributes that a member cannot do without, and what they are in nearly every model.
ASSUMED: Final[dict[str, dict[str, float]]] = {
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "LeakyRelu": {"negative_slope": 0.01},
    "Elu": {"alpha": 1.0},
}
OPERANDS: Final = {"Add": 1, "Sub": 1, "Mul": 1, "RealDiv": 1, "Maximum": 1, "Minimum": 1, "PRelu": 1, "ClipByValue": 2}
_CUBE: Final = frozenset({"Conv2D", "MatMulV2", "BatchMatMulV2", "FullyConnection"})
_WORDS: Final = {
    re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower(): kind
    for kind in (*FOLLOWERS.values(), *MAIN.values(), "TransData")
} | {"mat_mul": "MatMulV2", "batch_matmul_v2": "BatchMatMulV2", "conv2d": "Conv2D", "matmulv2": "MatMulV2"}


@dataclass(frozen=True, slots=True)
class Step:
    """One member: GE type and the number of operands it reads besides what the member before made."""

    kind: str
    operands: int


class Unclear(Exception):
    """The file does not say what the node does."""


def is_fused(op: pb.OpDef) -> bool:
    """True when the node stands for several operators, or lost its operator's attributes to a fused kernel."""
    if op.type in ("TransData", "Cast", "ConcatD", "SplitD", "StridedSliceD", "ReduceMeanD"):
        return _kernel(op).startswith("te_fused_op")
    steps = list(_steps(op))
    fused = "pass_name" in op.attr and _kernel(op).startswith("te_fused_op")
    return fused or len(steps) > 1 or (op.type == "Conv2D" and "strides" not in op.attr)


def expand(node: ir.Node, op: pb.OpDef, guesses: list[Guess]) -> None:
    """Give ``node`` its members, in place. Raises ``Unclear`` with the reason when they cannot be told."""
    steps = list(_steps(op))
    if not steps:
        raise Unclear("its operators are not named")
    operands = [value for value in node.inputs if value is not None]
    formals = [_like(value, f"in{i}") for i, value in enumerate(operands)]
    taken = list(formals)
    made: list[ir.Node] = []
    previous: ir.Value | None = None
    before: ir.Value | None = None
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        result = _like(node.outputs[0], node.outputs[0].name if last else f"{node.name}/{step.kind}_{number}")
        if previous is None:
            member = _first(step, taken, node, op, result, guesses)
        else:
            member = _follower(step, previous, before, taken, node, result, guesses)
        before = previous if previous is not None else (member.inputs[0] if member.inputs else None)
        previous = result
        made.append(member)
    if taken:
        raise Unclear(f"{len(taken)} of its inputs belong to no operator that it names")
    assert previous is not None
    body = ir.Graph(formals, [previous], nodes=made, name=f"{node.name}/{MEMBERS}")
    for name in list(node.attributes):
        del node.attributes[name]
    while len(node.inputs) > len(operands) or any(v is None for v in node.inputs):
        index = next(i for i, v in enumerate(node.inputs) if v is None)
        for position in range(index, len(node.inputs) - 1):
            node.replace_input_with(position, node.inputs[position + 1])
        node.resize_inputs(len(node.inputs) - 1)
    node.op_type = steps[0].kind
    node.attributes[MEMBERS] = ir.AttrGraph(MEMBERS, body)
    spec = ops.lookup(steps[0].kind)
    if spec is not None:
        node.meta[ENGINE] = spec.engine


def _kernel(op: pb.OpDef) -> str:
    return op.attr["_kernelname"].s.decode("utf-8", "replace") if "_kernelname" in op.attr else ""


def _texts(op: pb.OpDef, name: str) -> list[str]:
    return [s.decode("utf-8", "replace") for s in op.attr[name].list.s] if name in op.attr else []


def _steps(op: pb.OpDef) -> Iterator[Step]:
    """The operators in order, the main one first."""
    names = [re.sub(r"_\d+$", "", text.rsplit("/", 1)[-1]) for text in _texts(op, NAMES)]
    kernel = _KERNEL.match(_kernel(op))
    types = [t for t in _texts(op, TYPES) if t not in ("Const", "TransData")]
    parts = _parts(kernel["parts"]) if kernel is not None else []
    kinds = [p for p in parts if p != "TransData"]
    if not kinds or "fix_pipe" in (kernel["parts"] if kernel is not None else ""):
        listed = types if types else names
        kinds = [k for k in (MAIN.get(t) or FOLLOWERS.get(t) for t in listed) if k is not None]
    main = op.type if op.type in _CUBE else next((k for k in kinds if k in _CUBE), "")
    if main:
        followers = [k for k in kinds if k not in _CUBE]
        yield Step(main, 0)
    else:
        followers = kinds if kinds else [FOLLOWERS.get(op.type, "")]
        if not followers[0]:
            return
        first, *followers = followers
        yield Step(first, OPERANDS.get(first, 0))
    for kind in followers:
        yield Step(kind, OPERANDS.get(kind, 0))


def _parts(text: str) -> list[str]:
    """``conv2d_clip_by_value`` -> the types its words name; words that name none are skipped."""
    words, found, position = text.split("_"), [], 0
    while position < len(words):
        for end in range(len(words), position, -1):
            kind = _WORDS.get("_".join(words[position:end]))
            if kind is not None:
                found.append(kind)
                position = end
                break
        else:
            position += 1
    return found


def _first(
    step: Step, taken: list[ir.Value], node: ir.Node, op: pb.OpDef, result: ir.Value, guesses: list[Guess]
) -> ir.Node:
    """The main operator with the inputs that are its own."""
    count = 2 if step.kind in _CUBE else 1 + step.operands
    if len(taken) < count:
        raise Unclear(f"{step.kind} needs {count} inputs, it has {len(taken)}")
    own = [taken.pop(0) for _ in range(count)]
    facts: dict[str, Any] = dict(ASSUMED.get(step.kind, {}))
    for name in facts:
        if name in op.attr:
            facts[name] = op.attr[name].f
        else:
            guesses.append(Guess(node.name or "", f"{name} of {step.kind} is {facts[name]:.6g}", "the usual value"))
    if step.kind in _CUBE:
        if taken and _is_bias(taken[0], _shape(node.outputs[0]), step.kind):
            own.append(taken.pop(0))
        facts = _CUBE_FACTS[step.kind](own, _shape(node.outputs[0]), node.name or "", op, guesses)
    return _member(step.kind, own, facts, result, f"{node.name}/{step.kind}", node)


def _follower(
    step: Step,
    previous: ir.Value,
    before: ir.Value | None,
    taken: list[ir.Value],
    node: ir.Node,
    result: ir.Value,
    guesses: list[Guess],
) -> ir.Node:
    own = [previous]
    for _ in range(step.operands):
        if taken:
            own.append(taken.pop(0))
        elif before is not None and step.operands == 1:
            own.append(before)
            why = "no input is left for it, as in x * hard_sigmoid(x)"
            guesses.append(Guess(node.name or "", f"{step.kind} reads the value before the last", why))
        else:
            raise Unclear(f"{step.kind} lacks an operand")
    facts = dict(ASSUMED.get(step.kind, {}))
    for name, value in facts.items():
        guesses.append(Guess(node.name or "", f"{name} of {step.kind} is {value:.6g}", "the usual value"))
    return _member(step.kind, own, facts, result, f"{node.name}/{step.kind}", node)


def _member(
    kind: str, inputs: Sequence[ir.Value], facts: dict[str, Any], result: ir.Value, name: str, fused: ir.Node
) -> ir.Node:
    spec = ops.lookup(kind)
    if spec is None:
        raise Unclear(f"the catalogue does not know {kind}")
    made = [attributes.typed(key, value, spec.attrs[key]) for key, value in facts.items()]
    node = ir.Node(GE_DOMAIN, kind, inputs, made, outputs=[result], name=name)
    node.meta[ENGINE] = spec.engine
    node.meta[ORIGIN_OPS] = fused.meta.get(ORIGIN_OPS, ())
    return node


def _like(value: ir.Value, name: str | None) -> ir.Value:
    made = ir.Value(name=name, type=value.type, shape=value.shape)
    if isinstance(desc := value.meta.get(DESC), TensorDesc):
        made.meta[DESC] = desc
    return made


def _shape(value: ir.Value) -> tuple[int, ...]:
    dims = tuple(value.shape or ())
    if value.shape is None or not all(isinstance(d, int) for d in dims):
        raise Unclear("a shape is open")
    return dims  # type: ignore[return-value]


def _is_bias(value: ir.Value, made: tuple[int, ...], kind: str) -> bool:
    channels = made[1] if kind in ("Conv2D", "FullyConnection") and len(made) > 1 else made[-1]
    return _shape(value) == (channels,)


def _conv(own: list[ir.Value], made: tuple[int, ...], name: str, op: pb.OpDef, guesses: list[Guess]) -> dict[str, Any]:
    """Groups follow from the channels; strides and padding from the sizes."""
    x, filters = _shape(own[0]), _shape(own[1])
    if len(x) != 4 or len(filters) != 4 or len(made) != 4 or not filters[1] or x[1] % filters[1]:
        raise Unclear("its shapes are not those of a convolution in NCHW")
    windows = [geometry.window(x[a], filters[a], made[a]) for a in (2, 3)]
    if windows[0] is None or windows[1] is None:
        raise Unclear("no stride and padding lead to its output")
    top, left = windows[0], windows[1]
    pads = [top.before, top.after, left.before, left.after]
    if not (top.certain and left.certain):
        what = f"strides {top.stride},{left.stride}, padding {','.join(map(str, pads))}, no dilation"
        guesses.append(Guess(name, what, f"{x[2]}x{x[3]} becomes {made[2]}x{made[3]} with {filters[2]}x{filters[3]}"))
    return {
        "strides": [1, 1, top.stride, left.stride],
        "pads": pads,
        "dilations": [1, 1, 1, 1],
        "groups": x[1] // filters[1],
        "data_format": "NCHW",
    }


def _matrices(flags: tuple[str, str]) -> Callable[..., dict[str, Any]]:
    def facts(
        own: list[ir.Value], made: tuple[int, ...], name: str, op: pb.OpDef, guesses: list[Guess]
    ) -> dict[str, Any]:
        a, b = _shape(own[0]), _shape(own[1])
        if len(a) < 2 or len(b) < 2 or len(made) < 2:
            raise Unclear("its shapes are not those of matrices")
        moved = op.type == "TransData"  # the operand whose layout was changed on the way comes first
        found = geometry.product(a, b, made, prefer_right=not moved, may_swap=moved)
        if found is None:
            raise Unclear("its shapes are not those of a matrix product")
        if found.swapped:
            own[0], own[1] = own[1], own[0]
        if not found.certain:
            what = f"operands transposed: {found.left}, {found.right}"
            guesses.append(Guess(name, what, f"{list(a)} and {list(b)} become {list(made)} in several ways"))
        return {flags[0]: int(found.left), flags[1]: int(found.right)}

    return facts


def _connection(
    own: list[ir.Value], made: tuple[int, ...], name: str, op: pb.OpDef, guesses: list[Guess]
) -> dict[str, Any]:
    return {"num_output": _shape(own[1])[0], "transpose": 0, "axis": op.attr["axis"].i if "axis" in op.attr else 1}


_CUBE_FACTS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "Conv2D": _conv,
    "MatMulV2": _matrices(("transpose_x1", "transpose_x2")),
    "BatchMatMulV2": _matrices(("adj_x1", "adj_x2")),
    "FullyConnection": _connection,
}
