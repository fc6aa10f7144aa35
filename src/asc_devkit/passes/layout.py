"""Transposes around regions of operators that do not care about the order of dimensions.

A *region* is a connected set of nodes (elementwise operators, Concat, Softmax, reductions, ...) which computes on
permuted data just as well. Computing it in the layout before a Transpose ``p`` removes the Transposes that enter with
``p`` and those that leave with its inverse, and needs new ones where other values enter or leave. The region is taken
over when that makes fewer Transposes. Afterwards none is left between the convolutions of a network exported with
channels last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import GraphPass
from asc_devkit.passes.editor import Array, Editor
from asc_devkit.passes.transposes import inverse, perm_of

# fmt: off
_UNARY = frozenset((
    "Abs", "Cast", "Ceil", "Celu", "Clip", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
    "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid",
    "Sign", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu", "Sin", "Cos",
))
_BROADCAST = frozenset((
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor", "PRelu",
))
_ALONG_AXIS = frozenset(("Concat", "Softmax", "LogSoftmax", "LpNormalization", "Split"))
_REDUCE = frozenset((
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
))
_PARAMETERS = frozenset(("Slice", "Pad"))
# fmt: on
_MAX_READERS = 128  # keeps the time linear in the size of the graph
FREE = _UNARY | _BROADCAST | _ALONG_AXIS | _REDUCE | _PARAMETERS


@dataclass
class _Region:
    """Nodes to be computed in the layout before ``perm`` and what their border costs."""

    perm: list[int]
    back: list[int]
    nodes: dict[ir.Node, None] = field(default_factory=dict)


class PermuteFusion(GraphPass):
    """Transpose(p), operators that do not care, Transpose(p^-1) -> the operators alone, if fewer Transposes result."""

    name = "PermuteFusionPass"

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        tried: set[tuple[ir.Node, tuple[int, ...]]] = set()
        position = {node: i for i, node in enumerate(graph)}
        for transpose in [n for n in graph if n.op_type == "Transpose" and not n.domain]:
            if transpose.graph is None:
                continue
            perm = perm_of(transpose, ed)
            if perm is None:
                continue
            for start, direction in ((transpose.outputs[0], perm), (transpose.inputs[0], inverse(perm))):
                if start is None:
                    continue
                seeds = [u.node for u in start.uses()] if direction is perm else [start.producer()]
                for seed in seeds:
                    if seed is None or seed.graph is not graph or (seed, tuple(direction)) in tried:
                        continue
                    region = self._grow(seed, direction, graph, ed)
                    tried.update((n, tuple(direction)) for n in region.nodes)
                    self._trim(region, ed)
                    if region.nodes and _gain(region, ed) > 0:
                        nodes = sorted(region.nodes, key=lambda n: position.get(n, 0))
                        self._permute(region.perm, nodes, ed, position)
                if transpose.graph is None:
                    break

    def _grow(self, seed: ir.Node, perm: list[int], graph: ir.Graph, ed: Editor) -> _Region:
        """All nodes connected with ``seed`` that can be computed in the other layout."""
        region = _Region(perm, inverse(perm))
        stack = [seed]
        while stack:
            node = stack.pop()
            if node in region.nodes or node.graph is not graph or not _is_free(node, len(perm), ed):
                continue
            region.nodes[node] = None
            for value in node.inputs:
                producer = None if value is None else value.producer()
                if producer is not None:
                    stack.append(producer)
            for out in node.outputs:
                stack.extend(u.node for u in out.uses())
        return region

    @staticmethod
    def _trim(region: _Region, ed: Editor) -> None:
        """Give up nodes at the border as long as that saves Transposes."""
        queue = list(region.nodes)
        while queue:
            node = queue.pop()
            if node not in region.nodes:
                continue
            around = _values_of(node)
            before = sum(_value_gain(v, region, ed) for v in around)
            del region.nodes[node]
            after = sum(_value_gain(v, region, ed) for v in around)
            if after <= before:
                region.nodes[node] = None
                continue
            for value in around:
                producer = value.producer()
                if producer is not None:
                    queue.append(producer)
                queue.extend(u.node for u in value.uses())

    def _permute(self, perm: list[int], nodes: list[ir.Node], ed: Editor, position: dict[ir.Node, int]) -> None:
        """Compute ``nodes`` (in graph order) in the layout before ``perm``."""
        inside, back = set(nodes), inverse(perm)
        moved: dict[ir.Value, ir.Value] = {}
        outside: list[tuple[ir.Value, ir.Value, ir.Node]] = []
        for node in nodes:
            ed.begin(self.name, node)
            inputs = [None if v is None else self._input(v, node, perm, back, moved, ed) for v in _data_inputs(node)]
            made = _rebuild(node, inputs, perm, ed)
            for old, new in zip(node.outputs, made, strict=True):
                moved[old] = new
            outside.extend((o, m, node) for o, m in zip(node.outputs, made, strict=True))
            for out in made:
                producer = out.producer()
                if producer is not None:
                    position[producer] = position.get(node, 0)
        for old, new, node in outside:
            self._output(old, new, node, inside, perm, back, ed)
        for node in reversed(nodes):
            ed.remove_if_dead(node)
        ed.commit()

    @staticmethod
    def _input(
        value: ir.Value, node: ir.Node, perm: list[int], back: list[int], moved: dict[ir.Value, ir.Value], ed: Editor
    ) -> ir.Value | Array:
        """``value`` in the new layout."""
        known = moved.get(value)
        if known is not None:
            return known
        rank = ed.rank(value)
        if ed.is_const(value):
            array = ed.const(value)
            assert array is not None
            if array.size == 1 and array.ndim <= 1 and node.op_type != "Concat":
                return value
            wide = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
            return np.ascontiguousarray(wide.transpose(back))
        if rank == 0:
            return value
        producer = ed.producer(value, "Transpose")
        if producer is not None and perm_of(producer, ed) == perm and producer.inputs[0] is not None:
            return producer.inputs[0]
        moved[value] = ed.op("Transpose", [value], {"perm": back})
        return moved[value]

    @staticmethod
    def _output(
        old: ir.Value, new: ir.Value, node: ir.Node, inside: set[ir.Node], perm: list[int], back: list[int], ed: Editor
    ) -> None:
        """Serve the readers of ``old`` that stay in the old layout."""
        for user in old.consumers():
            undone = user.op_type == "Transpose" and user not in inside and perm_of(user, ed) == back
            if undone and ed.can_replace(user.outputs[0], new):
                ed.replace(user.outputs[0], new)
        if old.is_graph_output() or any(u.node not in inside for u in old.uses()):
            ed.replace(old, ed.op("Transpose", [new], {"perm": perm}, before=node), unless=inside)


def _data_inputs(node: ir.Node) -> list[ir.Value | None]:
    """Inputs that carry data in the region's layout (the others are parameters)."""
    if node.op_type in _REDUCE or node.op_type in _PARAMETERS or node.op_type in ("Clip", "Split"):
        return [node.inputs[0]]
    return list(node.inputs)


def _is_free(node: ir.Node, rank: int, ed: Editor) -> bool:
    """True when ``node`` can be computed on permuted data of ``rank`` dimensions."""
    if node.domain or node.op_type not in FREE:
        return False
    if any(ed.rank(o) != rank or len(o.uses()) > _MAX_READERS for o in node.outputs):
        return False
    for value in _data_inputs(node):
        if value is None:
            return False
        if ed.is_const(value):
            if value.dtype == ir.DataType.STRING or (ed.rank(value) or 0) > rank:
                return False
        elif ed.rank(value) not in (0, rank):
            return False
    if node.op_type in _REDUCE:
        axes = ed.input(node, 1)
        return bool(ed.attr(node, "keepdims", 1)) and axes is not None and bool(ed.ints(axes))
    if node.op_type == "Slice":
        return all(v is None or ed.ints(v) is not None for v in node.inputs[1:]) and len(node.inputs) >= 3
    if node.op_type == "Pad":
        return ed.ints(ed.input(node, 1)) is not None and (
            ed.input(node, 3) is None or ed.ints(node.inputs[3]) is not None
        )
    if node.op_type == "PRelu":
        return ed.is_const(node.inputs[1])
    return True


def _values_of(node: ir.Node) -> list[ir.Value]:
    return [*dict.fromkeys(v for v in _data_inputs(node) if v is not None), *node.outputs]


def _gain(region: _Region, ed: Editor) -> int:
    """Transposes saved when the region is computed in the layout before its permutation."""
    return sum(_value_gain(v, region, ed) for v in dict.fromkeys(v for n in region.nodes for v in _values_of(n)))


def _value_gain(value: ir.Value, region: _Region, ed: Editor) -> int:
    """What ``value`` contributes to the gain: it is made inside, or made outside and read inside, or neither."""
    if ed.is_const(value) or ed.rank(value) == 0:
        return 0
    nodes, producer = region.nodes, value.producer()
    users = value.consumers()
    if producer in nodes:
        others = [u for u in users if u not in nodes]
        leaving = sum(u.op_type == "Transpose" and perm_of(u, ed) == region.back for u in others)
        return leaving - (value.is_graph_output() or leaving < len(others))
    if not any(u in nodes and value in _data_inputs(u) for u in users):
        return 0
    if producer is not None and producer.op_type == "Transpose" and perm_of(producer, ed) == region.perm:
        return int(not value.is_graph_output() and all(u in nodes for u in users))
    return -1


def _rebuild(node: ir.Node, data: list[ir.Value | Array | None], perm: list[int], ed: Editor) -> list[ir.Value]:
    """``node`` on permuted inputs; axis ``a`` of the old layout is axis ``perm[a]`` of the new one."""
    attrs: dict[str, object] = dict(node.attributes)
    inputs: list[ir.Value | Array | None] = [*data, *node.inputs[len(data) :]]
    rank = len(perm)
    if node.op_type in _ALONG_AXIS:
        default = 0 if node.op_type == "Split" else -1
        attrs["axis"] = perm[int(ed.attr(node, "axis", default)) % rank]
    elif node.op_type in _REDUCE:
        inputs[1] = np.array([perm[a % rank] for a in ed.ints(node.inputs[1]) or ()], dtype=np.int64)
    elif node.op_type == "Slice":
        axes = ed.ints(ed.input(node, 3)) if ed.input(node, 3) is not None else list(range(rank))[: _length(node, ed)]
        inputs = [*inputs[:3], np.array([perm[a % rank] for a in axes or ()], dtype=np.int64), *inputs[4:]]
    elif node.op_type == "Pad":
        axes = ed.ints(ed.input(node, 3)) if ed.input(node, 3) is not None else list(range(rank))
        inputs = [
            *inputs[:3],
            *[None] * (3 - len(inputs)),
            np.array([perm[a % rank] for a in axes or ()], dtype=np.int64),
        ]
    first = ed.op(node.op_type, inputs, attrs, outputs=len(node.outputs), name=node.name or "", of=(node,))
    producer = first.producer()
    assert producer is not None
    return list(producer.outputs)


def _length(node: ir.Node, ed: Editor) -> int:
    return len(ed.ints(node.inputs[1]) or ())
