"""IR -> ModelDef: operators, tensor descriptions, sub-graphs, and the list of weights with their places in the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import onnx_ir as ir

from asc_devkit.ge import dtypes, impl_modes
from asc_devkit.ge.desc import (
    DESC,
    ENGINE,
    GE_DOMAIN,
    IMPL_MODE,
    MAX_BYTES,
    MEMBERS,
    ORIGIN_OPS,
    ORIGIN_TENSOR,
    PASSES,
    Engine,
    TensorDesc,
)
from asc_devkit.ge.formats import PLAIN
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om import attributes, mbatch

POOL_ALIGN: Final = 512
ENGINE_ATTR: Final = "_asc_engine"
OUTER: Final = "_outer_tensor"  # attribute of a Data node in a body: the outer value it stands for
BODIES: Final = "_subgraph_attrs"  # names of the IR attributes that hold the sub-graphs, in order
OPSETS: Final = "asc_onnx_opsets"  # ModelDef attribute: "domain:version" of the domains host operators come from
LARGEST: Final = "_asc_max_bytes"  # attribute of a description: bytes of the value in the largest gear
TYPE: Final = "_onnx_type"  # attribute of a description: a type that GE has no word for (sequences, 4-bit floats, ...)
_L: Final = pb.AttrDef.ListValue


@dataclass(frozen=True)
class MemoryLayout:
    """Where values lie in device memory: byte offset and size by value name, and the totals.

    ``gears`` has the places of each gear's own graph, which share the memory: one gear runs at a time.
    """

    offsets: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    memory_size: int = 0
    workspace_size: int = 0
    gears: tuple[Mapping[str, tuple[int, int]], ...] = ()

    @classmethod
    def from_plan(cls, plan: Any, gears: Sequence[Any] = ()) -> MemoryLayout:
        """From ``perf.memory.MemoryPlan`` (blocks with name, offset, size; feature and workspace bytes).

        ``gears``: the plans of all gears, ``plan`` being that of the largest.
        """
        return cls(
            _places(plan),
            plan.feature_bytes + plan.workspace_bytes,
            plan.workspace_bytes,
            tuple(_places(gear) for gear in gears),
        )


def _places(plan: Any) -> dict[str, tuple[int, int]]:
    return {b.name: (b.offset, b.size) for b in plan.blocks}


@dataclass(frozen=True)
class Weight:
    """One constant of the pool."""

    value: ir.Value
    offset: int
    size: int


class Place(NamedTuple):
    """Where a value comes from: operator, its output, the byte offset in device memory; and its name in the graph."""

    op: str
    port: int
    address: int
    name: str


class _Unique:
    """Hands out names that differ: the wanted one, or that with a number behind it when it is taken."""

    def __init__(self, suffix: str = "") -> None:
        self._taken: dict[str, int] = {}
        self._suffix = suffix

    def __call__(self, wanted: str) -> str:
        name, number = wanted, self._taken.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number + 1}"
        self._taken[wanted] = number
        self._taken.setdefault(name, 0)
        return name + self._suffix


def tensor_size(desc_bytes: int) -> int:
    """Size field of a tensor as real files have it: rounded up to 32, plus 32."""
    return -(-desc_bytes // 32) * 32 + 32


def storage(value: ir.Value) -> tuple[int, ...] | None:
    """Static shape in memory, None when unknown."""
    desc = value.meta.get(DESC)
    if isinstance(desc, TensorDesc) and desc.format not in PLAIN:
        return desc.storage_shape
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(d) for d in value.shape)  # type: ignore[arg-type]


def value_bytes(value: ir.Value) -> int:
    """Bytes of the stored tensor, of the largest gear where gears differ; 0 when unknown or without fixed size."""
    shape = storage(value)
    if shape is None and isinstance(most := value.meta.get(MAX_BYTES), int):
        return most
    if shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        return 0
    count = 1
    for dim in shape:
        count *= dim
    return dtypes.nbytes(count, value.dtype)


class Encoder:
    """Builds the GraphDefs of one model; ``weights`` fills up as constants are met."""

    def __init__(self, memory: MemoryLayout) -> None:
        self.memory = memory
        self.weights: list[Weight] = []
        self.pool = 0
        self.graphs: list[pb.GraphDef] = []
        self._graph_name = _Unique()
        self._offsets = memory.offsets
        self._described: dict[ir.Value, pb.TensorDescriptor] = {}
        self._shared: dict[bytes, int] | None = None  # places in the pool by content, for models with gears

    def root(self, graph: ir.Graph, name: str) -> pb.GraphDef:
        """Encode the root graph (and its bodies behind it)."""
        made = pb.GraphDef(name=self._graph_name(name))
        self.graphs.append(made)
        if mbatch.case(graph) is not None:
            self._shared = {}
        self._graph(graph, made, {})
        return made

    def _graph(self, graph: ir.Graph, out: pb.GraphDef, outer: Mapping[ir.Value, str], suffix: str = "") -> None:
        """Fill ``out``; ``outer`` maps values of enclosing graphs to their names, for captured values.

        ``suffix`` ends the names of all operators.
        """
        name = _Unique(suffix)  # inputs come first, then nodes, so that these keep the names they have
        inputs = [name(value.name or "data") for value in graph.inputs]
        nodes = [name(node.name or node.op_type) for node in graph]
        places: dict[ir.Value, Place] = {}
        scope = dict(outer)
        for index, value in enumerate(graph.inputs):
            op = self._data(out, value, inputs[index], index, suffix)
            out.input.append(f"{op.name}:0")
            places[value] = Place(op.name, 0, op.output_i[0], op.name)
        for value in self._captured(graph, outer):
            op = self._data(out, value, name(value.name or "data"), -1)
            op.attr[OUTER].s = outer[value].encode()
            places[value] = Place(op.name, 0, op.output_i[0], value.name or "")
        for value in graph.initializers.values():
            if value.const_value is not None:
                op = self._const(out, value, name(value.name or "const"))
                places[value] = Place(op.name, 0, op.output_i[0] if op.output_i else 0, value.name or "")
        for group in (graph.inputs, graph.initializers.values()):
            scope.update((value, value.name or "") for value in group)
        for node, called in zip(graph, nodes, strict=True):
            scope.update((value, value.name or "") for value in node.outputs)
            self._node(node, out.op.add(name=called), places, scope)
            places.update((v, Place(called, i, self._address(v), v.name or "")) for i, v in enumerate(node.outputs))
        self._net_output(graph, out.op.add(name=name("NetOutput"), type="NetOutput"), out, places)
        for number, op in enumerate(out.op):
            op.id = number

    def _address(self, value: ir.Value) -> int:
        return self._offsets.get(value.name or "", (0, 0))[0]

    def _captured(self, graph: ir.Graph, outer: Mapping[ir.Value, str]) -> list[ir.Value]:
        found: dict[ir.Value, None] = {}
        for node in ir.traversal.RecursiveGraphIterator(graph):
            found.update((v, None) for v in node.inputs if v is not None and v in outer)
        found.update((v, None) for v in graph.outputs if v in outer)
        return list(found)

    def _data(self, out: pb.GraphDef, value: ir.Value, name: str, index: int, suffix: str = "") -> pb.OpDef:
        op = out.op.add(name=name, type="Data")
        if index >= 0:
            op.attr["index"].i = index
        desc = op.output_desc.add()
        self._desc(value, desc)
        if index >= 0:
            desc.name = name.removesuffix(
                suffix
            )  # a group may be handed the same value twice: its inputs still need two names
        op.input_desc.add().CopyFrom(desc)
        op.output_i.append(self._address(value))
        return op

    def _const(self, out: pb.GraphDef, value: ir.Value, name: str) -> pb.OpDef:
        op = out.op.add(name=name, type="Const")
        desc = op.output_desc.add()
        self._desc(value, desc)
        stored = op.attr["value"].t
        if value.dtype == ir.DataType.STRING:
            assert value.const_value is not None
            attributes.tensor(value.const_value, stored)
            return op
        if value.dtype is not None and dtypes.find(value.dtype) is None:
            assert value.const_value is not None
            attributes.foreign(value.const_value, stored)
            return op
        size = value_bytes(value)
        stored.desc.CopyFrom(desc)
        stored.desc.weight_size = size
        offset = self._place(value, size)
        stored.desc.data_offset = offset
        op.output_i.append(self.memory.memory_size + offset)
        return op

    def _place(self, value: ir.Value, size: int) -> int:
        """Offset of a constant in the pool; gears that need the same bytes in the same layout share them."""
        if self._shared is not None:
            key = _content(value)
            if key in self._shared:
                return self._shared[key]
            self._shared[key] = self.pool
        offset = self.pool
        self.weights.append(Weight(value, offset, size))
        self.pool += -(-size // POOL_ALIGN) * POOL_ALIGN
        return offset

    def _node(
        self, node: ir.Node, op: pb.OpDef, places: Mapping[ir.Value, Place], scope: Mapping[ir.Value, str]
    ) -> None:
        op.type = node.op_type if node.domain == GE_DOMAIN else f"{node.domain or 'ai.onnx'}::{node.op_type}"
        for index, value in enumerate(node.inputs):
            self._input(op, index, value, places)
        for value in node.outputs:
            self._desc(value, op.output_desc.add())
            op.output_i.append(self._address(value))
        attributes.encode(node, op.attr)
        self._facts(node, op)
        self._bodies(node, op, scope)

    def _input(self, op: pb.OpDef, index: int, value: ir.Value | None, places: Mapping[ir.Value, Place]) -> None:
        """All parallel lists of inputs get an entry, also for an input that is absent."""
        place = Place("", 0, 0, "") if value is None else places[value]
        op.input.append(f"{place.op}:{place.port}" if value is not None else "")
        op.input_name.append(f"x{index}")
        op.src_name.append(place.op)
        op.src_index.append(place.port)
        op.input_i.append(place.address)
        desc = op.input_desc.add()
        if value is not None:
            self._desc(value, desc)
            desc.name = place.name
        op.is_input_const.append(value is not None and value.const_value is not None)

    def _facts(self, node: ir.Node, op: pb.OpDef) -> None:
        engine = node.meta.get(ENGINE)
        if isinstance(engine, Engine):
            op.attr[ENGINE_ATTR].s = engine.value.encode()
        if origin := node.meta.get(ORIGIN_OPS):
            _strings(op, "_datadump_original_op_names", [name or "" for name, _ in origin])
            _strings(op, "_datadump_original_op_types", [kind for _, kind in origin])
        if passes := node.meta.get(PASSES):
            _strings(op, "pass_name", list(passes))
        if mode := node.meta.get(IMPL_MODE):
            op.attr["_op_impl_mode_enum"].i = impl_modes.BITS.get(mode, impl_modes.DEFAULT)

    def _bodies(self, node: ir.Node, op: pb.OpDef, scope: Mapping[ir.Value, str]) -> None:
        names: list[str] = []
        offsets, self._offsets = self._offsets, {}  # the plan places values of the root graph and of gears only
        gears = mbatch.is_case(node)
        for attribute in node.attributes.values():
            if attribute.type != ir.AttributeType.GRAPH:
                continue
            body = attribute.as_graph()
            made = pb.GraphDef(name=self._graph_name(f"{op.name}/{attribute.name}"))
            self.graphs.append(made)
            if gears:
                self._gear(body, made, len(names))
            else:
                self._graph(body, made, {} if attribute.name == MEMBERS else scope)
            op.subgraph_name.append(made.name)
            names.append(attribute.name)
        self._offsets = offsets
        if names:
            _strings(op, BODIES, names)

    def _gear(self, graph: ir.Graph, out: pb.GraphDef, index: int) -> None:
        places = self.memory.gears
        self._offsets = places[index] if index < len(places) else {}
        self._graph(graph, out, {}, mbatch.suffix(index))
        self._offsets = {}
        for op in out.op:
            if op.type == "Data":
                op.attr[mbatch.PARENT].i = op.attr["index"].i + 1  # the Case's first input is the gear's number
            elif op.type == "NetOutput":
                for port, desc in enumerate(op.input_desc):
                    desc.attr[mbatch.PARENT].i = port

    def _net_output(self, graph: ir.Graph, op: pb.OpDef, out: pb.GraphDef, places: Mapping[ir.Value, Place]) -> None:
        for index, value in enumerate(graph.outputs):
            self._input(op, index, value, places)
            out.output.append(op.input[index])

    def _desc(self, value: ir.Value, out: pb.TensorDescriptor) -> None:
        made = self._described.get(value)  # once per value, however many operators read it
        if made is None:
            made = self._described[value] = pb.TensorDescriptor()
            _describe(value, made)
        out.CopyFrom(made)


def _content(value: ir.Value) -> bytes:
    """What decides the bytes of a constant in the pool: its elements, type and layout."""
    assert value.const_value is not None
    array = np.ascontiguousarray(value.const_value.numpy())
    facts = repr((value.dtype, value.meta.get(DESC), array.dtype, array.shape)).encode()
    return blake2b(array.reshape(-1).view(np.uint8).data, digest_size=32, key=blake2b(facts).digest()).digest()


def _describe(value: ir.Value, out: pb.TensorDescriptor) -> None:
    out.name = value.name or ""
    out.device_type = "NPU"
    row = None if value.dtype is None else dtypes.find(value.dtype)
    if row is not None:
        out.dtype = row.proto  # type: ignore[assignment]
    if value.type is not None and (row is None or not isinstance(value.type, ir.TensorType)):
        out.attr[TYPE].bt = attributes.type_bytes(value.type)
    desc = value.meta.get(DESC)
    out.layout = "ND"
    stored = storage(value)
    if stored is not None:
        out.shape.dim.extend(stored)
        out.size = tensor_size(value_bytes(value))
    elif value.shape is not None:
        out.shape.dim.extend(d if isinstance(d, int) else -1 for d in value.shape)
    else:
        out.shape.dim.append(-2)
    if stored is None and MAX_BYTES in value.meta:
        out.size = tensor_size(value_bytes(value))
        out.attr[LARGEST].i = value_bytes(value)
    if isinstance(desc, TensorDesc):
        out.layout = f"{desc.format}:{desc.groups}" if desc.groups > 1 else desc.format
        out.attr["origin_format"].s = desc.origin_format.encode()
        if desc.format not in PLAIN and value.shape is not None:
            out.attr["origin_shape"].list.i.extend(int(d) for d in value.shape)  # type: ignore[arg-type]
            out.attr["origin_shape"].list.val_type = _L.VT_LIST_INT
    if origin := value.meta.get(ORIGIN_TENSOR):
        out.attr["_origin_tensor"].s = str(origin).encode()


def _strings(op: pb.OpDef, name: str, values: list[str]) -> None:
    op.attr[name].list.s.extend(v.encode("utf-8", "surrogateescape") for v in values)
    op.attr[name].list.val_type = _L.VT_LIST_STRING
