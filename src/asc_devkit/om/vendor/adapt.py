"""A decoded graph of the vendor's into one the catalogue understands, in place."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, UNCLEAR, Engine, TensorDesc
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.vendor import fused
from asc_devkit.om.vendor.guesses import Guess

#: Operators that only prepare memory.
_HOUSEKEEPING: Final = frozenset({"AtomicAddrClean", "MemSet", "NoOp", "StreamActive", "Send", "Recv"})
#: Operators that change layout only: the values in origin order stay as they are.
_LAYOUT: Final = frozenset({"TransData", "ReFormat", "TransDataRNN"})


def adapt(graph: ir.Graph, definition: pb.GraphDef) -> list[Guess]:
    """Take fused nodes apart, make implied reshapes explicit, drop what only prepares memory.

    ``definition`` is what ``graph`` was decoded from. Nodes that stay unclear are left as they are, the reason in their
    meta, and whoever needs them says so. Returns what was assumed.
    """
    guesses: list[Guess] = []
    by_name = {op.name: op for op in definition.op}
    for node in list(graph):
        op = by_name.get(node.name or "")
        if op is None or node.domain != GE_DOMAIN:
            continue
        if node.op_type in _HOUSEKEEPING and not any(v.uses() or v.is_graph_output() for v in node.outputs):
            graph.remove(node, safe=True)
            continue
        _reshape_inputs(graph, node, op)
        if fused.is_fused(op):
            try:
                fused.expand(node, op, guesses)
            except fused.Unclear as unclear:
                node.meta[UNCLEAR] = str(unclear)
        elif node.op_type in _LAYOUT or _only_layout(node):
            _identity(node)
        _normalise(node)
    return guesses


def _reshape_inputs(graph: ir.Graph, node: ir.Node, op: pb.OpDef) -> None:
    """Where the reader sees another shape than the producer made, the compiler dropped a reshape."""
    data = [text for text in op.input if not text.endswith(":-1")]
    for index, (value, desc) in enumerate(zip(list(node.inputs), _descs(op, data), strict=False)):
        wanted = _origin(desc)
        have = None if value is None else _static(value)
        if value is None or wanted is None or have is None or have == wanted or prod(have) != prod(wanted):
            continue
        shape = ir.Value(
            name=f"{node.name}/shape_{index}",
            type=ir.TensorType(ir.DataType.INT64),
            shape=ir.Shape((len(wanted),)),
            const_value=ir.Tensor(np.array(wanted, np.int64)),
        )
        graph.initializers.add(shape)
        output = ir.Value(name=f"{node.name}/reshaped_{index}", type=value.type, shape=ir.Shape(wanted))
        output.meta[DESC] = TensorDesc("ND", "ND", wanted)
        made = ir.Node(GE_DOMAIN, "Reshape", [value, shape], outputs=[output], name=f"{node.name}/Reshape_{index}")
        made.meta[ENGINE] = Engine.LOCAL
        graph.insert_before(node, made)
        node.replace_input_with(index, output)


def _descs(op: pb.OpDef, data: list[str]) -> list[pb.TensorDescriptor]:
    """Descriptions of the inputs, absent ones included; none when the file does not describe all."""
    return list(op.input_desc) if len(op.input_desc) >= len(data) else []


def _origin(desc: pb.TensorDescriptor) -> tuple[int, ...] | None:
    if "origin_shape" in desc.attr:
        dims = tuple(desc.attr["origin_shape"].list.i)
    elif desc.layout in ("ND", "NCHW", "NHWC"):
        dims = tuple(desc.shape.dim)
    else:
        return None
    return dims if dims and all(d > 0 for d in dims) else None


def _static(value: ir.Value) -> tuple[int, ...] | None:
    dims = tuple(value.shape) if value.shape is not None else None
    return dims if dims is not None and all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]


def _only_layout(node: ir.Node) -> bool:
    """A transpose that the compiler made to change the layout: the origin shape stays."""
    if node.op_type not in ("Transpose", "TransposeD") or not node.inputs or node.inputs[0] is None:
        return False
    before, after = node.inputs[0].meta.get(DESC), node.outputs[0].meta.get(DESC)
    return (
        isinstance(before, TensorDesc)
        and isinstance(after, TensorDesc)
        and before.format != after.format
        and _static(node.inputs[0]) == _static(node.outputs[0])
    )


def _identity(node: ir.Node) -> None:
    """A change of layout; with another origin shape also a reshape."""
    source = node.inputs[0]
    if source is None:
        return
    node.resize_inputs(1)
    for name in list(node.attributes):
        del node.attributes[name]
    node.op_type = "TransData"
    before, after = _static(source), _static(node.outputs[0])
    if before != after and before is not None and after is not None and prod(before) == prod(after):
        graph = node.graph
        assert graph is not None
        shape = ir.Value(
            name=f"{node.name}/shape",
            type=ir.TensorType(ir.DataType.INT64),
            shape=ir.Shape((len(after),)),
            const_value=ir.Tensor(np.array(after, np.int64)),
        )
        graph.initializers.add(shape)
        node.op_type = "Reshape"
        node.resize_inputs(2)
        node.replace_input_with(1, shape)


_CHANNELS_LAST: Final[Mapping[str, tuple[str, ...]]] = {"Conv2D": ("strides", "dilations")}


def _normalise(node: ir.Node) -> None:
    """Facts the vendor leaves to its own conventions: the engine, and the axis order of windows over NCHW values."""
    spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
    if spec is not None and node.meta.get(ENGINE) is None:
        node.meta[ENGINE] = spec.engine
    if node.op_type == "Cast" and node.domain == GE_DOMAIN and node.outputs[0].dtype is not None:
        node.attributes["dst_type"] = ir.AttrInt64(
            "dst_type", int(node.outputs[0].dtype)
        )  # the vendor's number is GE's
    layout = node.attributes.get("data_format")
    desc = node.outputs[0].meta.get(DESC) if node.outputs else None
    if layout is None or layout.value != "NHWC" or not isinstance(desc, TensorDesc) or desc.origin_format != "NCHW":
        return
    names = _CHANNELS_LAST.get(node.op_type)
    if names is None:
        return
    for name in names:
        found = node.attributes.get(name)
        if found is not None and len(found.as_ints()) == 4:
            n, h, w, c = found.as_ints()
            node.attributes[name] = ir.AttrInt64s(name, [n, c, h, w])
    node.attributes["data_format"] = ir.AttrString("data_format", "NCHW")
