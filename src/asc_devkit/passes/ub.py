"""UB fusion: groups of operators that run as one kernel and keep their intermediate values in the unified buffer.

A group is an annotation (``meta[GROUP]``); the nodes stay. What makes a group valid, and the code below keeps to it:
every value computed inside is read only inside, except the one of the last member; so no path leaves the group and
comes back, and the group has a single output. All members work on floats of one dtype and (but for the operands of the
main operator) on the shape of the result.
"""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ge.desc import GROUP, PASSES
from asc_devkit.passes.declare import UB, GraphPass
from asc_devkit.passes.editor import FLOATS, Editor

MAX_MEMBERS = 6  # source: TbeEltwiseFusionPass description, "a maximum of six consecutive nodes"

# fmt: off
ACTIVATIONS = frozenset((
    "Abs", "Celu", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu",
    "Reciprocal", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu", "Log",
))
BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Pow"))
# fmt: on
ELEMENTWISE = ACTIVATIONS | BINARY


class _Grouping(GraphPass):
    """Common to the UB passes: what may be a member, and the annotation."""

    group = UB
    numerics = "values inside the group are not rounded to the device dtype"

    def annotate(self, members: list[ir.Node], ed: Editor) -> None:
        """Make ``members`` (in graph order) one group."""
        number = ed.next_group()
        for node in members:
            node.meta[GROUP] = number
            node.meta[PASSES] = (*node.meta.get(PASSES, ()), self.name)
        ed.record_group(self.name, members)


def _member(node: ir.Node, like: ir.Value, ed: Editor, kinds: frozenset[str] = ELEMENTWISE) -> bool:
    """True when ``node`` may join a group whose result looks like ``like``."""
    if node.domain or node.op_type not in kinds or GROUP in node.meta or node.graph is None or len(node.outputs) != 1:
        return False
    out = node.outputs[0]
    dims = ed.dims(like)
    return dims is not None and ed.dims(out) == dims and out.dtype in FLOATS and out.dtype == like.dtype


def _followers(value: ir.Value, ed: Editor) -> list[ir.Node]:
    """The elementwise nodes that take over ``value``: its only reader, or two where one feeds the other (x gate(x))."""
    if value.is_graph_output():
        return []
    readers = list(value.consumers())
    if len(readers) == 1:
        return readers if _member(readers[0], value, ed) else []
    if len(readers) == 2:
        for gate, join in (readers, readers[::-1]):
            result = gate.outputs[0]
            if result.is_graph_output() or result.consumers() != (join,) or join.op_type not in BINARY:
                continue
            if _member(gate, value, ed, ACTIVATIONS) and _member(join, value, ed):
                return [gate, join]
    return []


class _CubeElementwise(_Grouping):
    """A cube operator and the elementwise operators behind it."""

    main: tuple[str, ...] = ()

    def accepts(self, node: ir.Node, ed: Editor) -> bool:
        return node.op_type in self.main

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        for node in graph:
            if node.domain or GROUP in node.meta or not self.accepts(node, ed):
                continue
            value = node.outputs[0]
            if value.dtype not in FLOATS or ed.dims(value) is None:
                continue
            members = [node]
            while True:
                more = _followers(value, ed)
                if not more or len(members) + len(more) > MAX_MEMBERS:
                    break
                members.extend(more)
                value = more[-1].outputs[0]
            if len(members) > 1:
                self.annotate(members, ed)


def _is_depthwise(node: ir.Node, ed: Editor) -> bool:
    weight, groups = ed.dims(node.inputs[1]), int(ed.attr(node, "group", 1))
    return weight is not None and groups > 1 and weight[1] == 1 and groups == weight[0]


class TbeConvCommonRules2(_CubeElementwise):
    """Conv or ConvTranspose + elementwise operators: activation, residual Add, Add + Relu, x * sigmoid(x), ..."""

    name = "TbeConvCommonRules2FusionPass"
    main = ("Conv", "ConvTranspose")

    def accepts(self, node: ir.Node, ed: Editor) -> bool:
        return node.op_type in self.main and not (node.op_type == "Conv" and _is_depthwise(node, ed))


class TbeDepthwiseConvElemwise(_CubeElementwise):
    """Depthwise Conv + elementwise operators."""

    name = "TbeDepthwiseConvElemwiseFusionPass"
    main = ("Conv",)

    def accepts(self, node: ir.Node, ed: Editor) -> bool:
        return node.op_type == "Conv" and _is_depthwise(node, ed)


class ATbeMatmulElemwise(_CubeElementwise):
    """Gemm or MatMul of matrices + elementwise operators (bias, residual, activation)."""

    name = "ATbeMatmulElemwiseFusionPass"
    main = ("Gemm", "MatMul")

    def accepts(self, node: ir.Node, ed: Editor) -> bool:
        return node.op_type == "Gemm" or (node.op_type == "MatMul" and ed.rank(node.outputs[0]) == 2)


class TbeBatchMatmulElementWise(_CubeElementwise):
    """MatMul of batches + elementwise operators."""

    name = "TbeBatchMatmulElementWiseFusionPass"
    main = ("MatMul",)


class TbeEltwise(_Grouping):
    """Up to six elementwise operators that end in one: Add + Relu, Mul + Add, Sigmoid + Mul, ..."""

    name = "TbeEltwiseFusionPass"

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        order = {node: i for i, node in enumerate(graph)}
        for root in reversed(graph):
            if not _member(root, root.outputs[0], ed):
                continue
            like, members, queue = root.outputs[0], [root], [root]
            while queue and len(members) < MAX_MEMBERS:
                for value in queue.pop(0).inputs:
                    node = None if value is None else value.producer()
                    if node is None or node in members or node.graph is not graph or not _member(node, like, ed):
                        continue
                    result = node.outputs[0]
                    if result.is_graph_output() or any(u not in members for u in result.consumers()):
                        continue
                    if len(members) < MAX_MEMBERS:
                        members.append(node)
                        queue.append(node)
            if len(members) > 1:
                self.annotate(sorted(members, key=order.__getitem__), ed)
