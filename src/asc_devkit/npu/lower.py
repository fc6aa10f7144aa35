"""From a GE graph to the fp32 ONNX graph that is executed: which values are rounded, which can be dumped.

Works from the graph of the OM and the operator catalogue alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, MEMBERS, ORIGIN_OPS, ORIGIN_TENSOR, Engine
from asc_devkit.npu.intervals import Interval
from asc_devkit.npu.kernels import Kernels
from asc_devkit.npu.numerics import EXACT_INTEGERS, HALVES, Rounding
from asc_devkit.ops import convert

_CASTS: Final = frozenset({"Cast"})


@dataclass(frozen=True, slots=True)
class Output:
    """One output of one operator of the compiled graph.

    ``value`` is its name in the GE graph, ``onnx`` in the executed one; ``dtype`` (device type) and ``shape`` are plain
    for JSON. ``origin`` names the tensor of the user's model it equals, ``members`` the operators fused into the node,
    ``task`` counts the operators that run on the device (-1 for those without a task).
    """

    node: str
    op_type: str
    index: int
    value: str
    onnx: str
    dtype: str
    shape: tuple[int | None, ...]
    origin: str = ""
    engine: str = ""
    task: int = -1
    members: tuple[tuple[str, str], ...] = ()
    origin_ops: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Lowered:
    """The ONNX graph in fp32, its rounding points, known intervals and all operator outputs in execution order.

    ``input_dtypes`` (by name) and ``output_dtypes`` (in order) are those of the device.
    """

    model: ir.Model
    roundings: list[Rounding] = field(default_factory=list)
    known: dict[str, Interval] = field(default_factory=dict)
    input_dtypes: dict[str, ir.DataType] = field(default_factory=dict)
    output_dtypes: list[ir.DataType] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)


def lower(model: ir.Model, saturate: bool) -> Lowered:
    """Lower a GE model. Raises ``AscError`` listing all operators that cannot be executed."""
    names: dict[ir.Value, str] = {}
    kernels = Kernels()
    lowered = Lowered(convert.to_onnx(model, ir.DataType.FLOAT, names, kernels))
    lowered.roundings += [Rounding(v.name or "", ir.DataType.FLOAT16, saturate) for v in kernels.steps]
    lowered.input_dtypes = {names[v]: v.dtype for v in model.graph.inputs if v.dtype is not None}
    lowered.output_dtypes = [v.dtype or ir.DataType.UNDEFINED for v in model.graph.outputs]
    task = 0
    for node in model.graph:
        engine = node.meta.get(ENGINE)
        has_task = engine not in (Engine.LOCAL, Engine.HOST)
        for index, value in enumerate(node.outputs):
            if not value.name or value not in names:
                continue
            lowered.outputs.append(_output(node, index, value, names[value], task if has_task else -1))
        task += has_task
    for node in _all_nodes(model.graph):
        rounds = _rounds(node)
        for value in node.outputs:
            if rounds and isinstance(value.type, ir.TensorType) and value.dtype in HALVES and value in names:
                lowered.roundings.append(Rounding(names[value], value.dtype, saturate))
                bounds = _bounds(node)
                if bounds is not None:
                    lowered.known[names[value]] = bounds
    return lowered


def _all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Nodes of the graph and of the branches in it; members of fused groups are not rounded one by one."""
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and attribute.name != MEMBERS:
                yield from _all_nodes(attribute.as_graph())


def _members(node: ir.Node) -> list[ir.Node]:
    group = node.attributes.get(MEMBERS)
    return [node] if group is None else list(group.as_graph())


def _rounds(node: ir.Node) -> bool:
    """False when every result is representable because the inputs are and the operators only move or select."""
    return not all(_exact(member) for member in _members(node))


def _exact(node: ir.Node) -> bool:
    if node.op_type == "If":
        return True  # hands through what the branches have rounded
    if node.domain != GE_DOMAIN:
        return False
    if node.op_type in _CASTS:
        source, target = node.inputs[0], node.outputs[0].dtype
        if source is None or source.dtype is None or target is None:
            return False
        return source.dtype == target or source.dtype in EXACT_INTEGERS.get(target, frozenset())
    spec = ops.lookup(node.op_type)
    if spec is None or not spec.exact:
        return False
    kinds = {v.dtype for v in node.inputs if v is not None and v.dtype is not None and v.dtype.is_floating_point()}
    return kinds <= {v.dtype for v in node.outputs}


def _bounds(node: ir.Node) -> Interval | None:
    last = _members(node)[-1]
    spec = ops.lookup(last.op_type) if last.domain == GE_DOMAIN else None
    return None if spec is None else spec.bounds


def _output(node: ir.Node, index: int, value: ir.Value, onnx_name: str, task: int) -> Output:
    engine = node.meta.get(ENGINE)
    members = () if MEMBERS not in node.attributes else tuple((m.name or "", m.op_type) for m in _members(node))
    shape = () if value.shape is None else tuple(d if isinstance(d, int) else None for d in value.shape)
    return Output(
        node=node.name or "",
        op_type=node.op_type,
        index=index,
        value=value.name or "",
        onnx=onnx_name,
        dtype="UNDEFINED" if value.dtype is None else value.dtype.name,
        shape=shape,
        origin=str(value.meta.get(ORIGIN_TENSOR, "")),
        engine="" if engine is None else str(engine.value),
        task=task,
        members=members,
        origin_ops=tuple(node.meta.get(ORIGIN_OPS, ())),
    )
