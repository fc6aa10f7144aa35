"""ModelDef -> IR: the inverse of ``encode``, for our files and (as far as they tell) for those of the vendor's ATC."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

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
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om import attributes, mbatch
from asc_devkit.om.container import broken
from asc_devkit.om.encode import BODIES, ENGINE_ATTR, LARGEST, OPSETS, OUTER, TYPE
from asc_devkit.ops.catalogue import CANONICAL_OPSET

ReadWeight = Callable[[str, pb.TensorDescriptor], ir.TensorProtocol]
MAX_DEPTH = 24
_SOURCES = ("Data", "AnnData", "Const", "Constant")
_NODE_FACTS = frozenset(
    {ENGINE_ATTR, "_datadump_original_op_names", "_datadump_original_op_types", "pass_name", "_op_impl_mode_enum",
     BODIES}
)  # fmt: skip


def to_ir(model: pb.ModelDef, read_weight: ReadWeight, gear: int | None = None) -> ir.Model:
    """Rebuild the graph, or that of one gear. ``read_weight`` gives the (lazy) tensor of a Const's description.

    Raises ``AscError`` for references that lead nowhere, cycles, and bodies that are missing, shared or nested too
    deeply.
    """
    if not model.graph:
        raise broken("it has no graph")
    graphs = {graph.name: graph for graph in model.graph[1:]}
    decoder = _Decoder(graphs, read_weight)
    if gear is None:
        made = decoder.graph(model.graph[0], {}, 0)
    else:
        op = case_of(model)
        if op is None or not 0 <= gear < len(op.subgraph_name) or op.subgraph_name[gear] not in graphs:
            raise broken(f"it has no graph for gear {gear}")
        made = decoder.graph(graphs.pop(op.subgraph_name[gear]), {}, 0, mbatch.suffix(gear))
    result = ir.Model(made, ir_version=10)
    made.opset_imports.update({"": CANONICAL_OPSET, **_opsets(model), GE_DOMAIN: 1})
    return result


def case_of(model: pb.ModelDef) -> pb.OpDef | None:
    """The operator that chooses the gear; None for static models."""
    root = model.graph[0].op if model.graph else ()
    found = next((op for op in root if op.type == "Case" and mbatch.COUNT in op.attr), None)
    if found is not None and len(found.subgraph_name) > mbatch.MAX_GEARS:
        raise broken(f"it has {len(found.subgraph_name)} gears, more than {mbatch.MAX_GEARS}")
    return found


def gears_of(model: pb.ModelDef) -> tuple[dict[str, tuple[int, ...]], ...]:
    """Input shapes by name of each gear; empty for static models."""
    op = case_of(model)
    if op is None:
        return ()
    names = {_position(o): o.name for o in model.graph[0].op if o.type in ("Data", "AnnData")}
    graphs = {graph.name: graph for graph in model.graph[1:]}
    found = []
    for body in op.subgraph_name:
        if body not in graphs:
            raise broken(f"the graph {body} of a gear is missing")
        shapes = {}
        for data in graphs[body].op:
            if data.type in ("Data", "AnnData") and data.output_desc and OUTER not in data.attr:
                name = names.get(_position(data), "")
                shapes[name] = tuple(data.output_desc[0].shape.dim)
        found.append(dict(sorted(shapes.items())))
    return tuple(found)


def _position(op: pb.OpDef) -> int:
    """Which input a Data operator is: of the model, or of the Case whose branch it is in."""
    if mbatch.PARENT in op.attr:
        return op.attr[mbatch.PARENT].i - 1
    return op.attr["index"].i if "index" in op.attr else 0


def layout_of(desc: pb.TensorDescriptor) -> TensorDesc | None:
    """Device format, origin format, storage shape and groups; None where the file does not tell the origin."""
    if "origin_format" not in desc.attr:
        return None
    fmt, _, packed = desc.layout.partition(":")
    groups = int(packed) if packed.isascii() and packed.isdigit() and len(packed) < 9 else 1
    plain = desc.attr["origin_format"].s.decode("utf-8", "replace")
    return TensorDesc(fmt, plain, tuple(desc.shape.dim), groups)


class _Decoder:
    """``graphs``: the bodies that no operator has taken yet; each belongs to one operator only."""

    def __init__(self, graphs: dict[str, pb.GraphDef], read_weight: ReadWeight) -> None:
        self.graphs, self.read_weight = graphs, read_weight

    def graph(self, source: pb.GraphDef, outer: Mapping[str, ir.Value], depth: int, suffix: str = "") -> ir.Graph:
        """``outer``: values of enclosing graphs by name, for bodies that capture them; ``suffix``: of a gear's names."""
        if depth > MAX_DEPTH:
            raise broken("its sub-graphs are nested too deeply")
        places: dict[str, ir.Value | None] = {}
        inputs: list[tuple[int, ir.Value]] = []
        constants: list[ir.Value] = []
        nodes: list[ir.Node] = []
        outputs: list[ir.Value] = []
        scope = dict(outer)
        taken: set[str] = set()

        def place(value: ir.Value, op: pb.OpDef, index: int) -> None:
            """Give ``value`` its place and a name of its own (the vendor's files leave many without)."""
            wanted = value.name or (op.name if op.type in _SOURCES else f"{op.name}:{index}")
            if wanted in taken:
                wanted = f"{op.name}:{index}"
            while wanted in taken:
                wanted += "_"
            taken.add(wanted)
            value.name = wanted
            places[f"{op.name}:{index}"] = scope[wanted] = value

        for op in _ordered(source):
            if op.type in ("Data", "AnnData"):
                if OUTER in op.attr:
                    places[f"{op.name}:0"] = _captured(op, outer)
                    continue
                value = self._value(op)
                place(value, op, 0)
                known = "index" in op.attr or mbatch.PARENT in op.attr
                inputs.append((_position(op) if known else len(inputs), value))
            elif op.type in ("Const", "Constant"):
                value = self._const(op)
                place(value, op, 0)
                constants.append(value)
            elif op.type == "NetOutput":
                outputs += [v for v in (self._input(op, text, places) for text in op.input) if v is not None]
            else:
                node = self._node(op, places, scope, depth)
                node.name = op.name.removesuffix(suffix)
                nodes.append(node)
                for index, value in enumerate(node.outputs):
                    place(value, op, index)
        inputs.sort(key=lambda pair: pair[0])
        return ir.Graph(
            [value for _, value in inputs], outputs, nodes=nodes, initializers=constants, name=source.name or "main"
        )

    def _value(self, op: pb.OpDef) -> ir.Value:
        value = ir.Value(name="")
        if op.output_desc:
            _describe(value, op.output_desc[0])
        return value

    def _const(self, op: pb.OpDef) -> ir.Value:
        value = self._value(op)
        if "value" not in op.attr:
            raise broken(f"constant {op.name} has no value")
        stored = op.attr["value"].t
        kind = value.type
        if isinstance(kind, ir.TensorType) and dtypes.find(kind.dtype) is None and kind.dtype.value:
            value.const_value = attributes.foreign_from(stored, kind.dtype)
        elif stored.data or stored.desc.dtype == pb.DT_STRING:
            value.const_value = attributes.inline(stored)
        else:
            value.const_value = self.read_weight(op.name, stored.desc)
        if value.const_value is None:
            raise broken(f"constant {op.name} has a value that does not fit its description")
        value.type = ir.TensorType(value.const_value.dtype)
        value.shape = ir.Shape(value.const_value.shape.numpy())
        return value

    def _input(self, op: pb.OpDef, text: str, places: Mapping[str, ir.Value | None]) -> ir.Value | None:
        if not text or text.endswith(":-1"):
            return None
        if text not in places:
            raise broken(f"operator {op.name} reads {text}, which nothing produces")
        return places[text]

    def _node(
        self, op: pb.OpDef, places: Mapping[str, ir.Value | None], scope: Mapping[str, ir.Value], depth: int
    ) -> ir.Node:
        inputs = [self._input(op, text, places) for text in op.input if not text.endswith(":-1")]
        domain, kind = GE_DOMAIN, op.type
        if "::" in kind:
            domain, _, kind = kind.rpartition("::")
            domain = "" if domain == "ai.onnx" else domain
        found = [attributes.decode(key, op.attr[key]) for key in sorted(op.attr) if key not in _NODE_FACTS]
        attrs = [a for a in found if a is not None]
        gears = kind == "Case" and mbatch.COUNT in op.attr
        names = [f"{mbatch.BRANCH}{i}" for i in range(len(op.subgraph_name))] if gears else _texts(op, BODIES)
        for index, (name, body) in enumerate(zip(names, op.subgraph_name, strict=False)):
            if body not in self.graphs:
                raise broken(f"operator {op.name} has the body {body}, which is missing or another's too")
            closed = gears or name == MEMBERS
            ending = mbatch.suffix(index) if gears else ""
            made = self.graph(self.graphs.pop(body), {} if closed else scope, depth + 1, ending)
            if name == MEMBERS and (len(made.inputs), len(made.outputs)) != (len(inputs), len(op.output_desc)):
                raise broken(f"the fused operator {op.name} and its members differ in inputs or outputs")
            attrs.append(ir.AttrGraph(name, made))
        outputs = [ir.Value(name="") for _ in op.output_desc]
        node = ir.Node(domain, kind, inputs, attrs, outputs=outputs, name=op.name)
        for value, desc in zip(outputs, op.output_desc, strict=True):
            _describe(value, desc)
        self._facts(node, op)
        return node

    def _facts(self, node: ir.Node, op: pb.OpDef) -> None:
        if ENGINE_ATTR in op.attr:
            text = op.attr[ENGINE_ATTR].s.decode("utf-8", "replace")
            node.meta[ENGINE] = next((e for e in Engine if e.value == text), None)
        names, kinds = _texts(op, "_datadump_original_op_names"), _texts(op, "_datadump_original_op_types")
        if names:
            kinds += [""] * (len(names) - len(kinds))
            node.meta[ORIGIN_OPS] = tuple(zip(names, kinds, strict=False))
        if passes := _texts(op, "pass_name"):
            node.meta[PASSES] = tuple(passes)
        mode = impl_modes.name_of(op.attr["_op_impl_mode_enum"].i) if "_op_impl_mode_enum" in op.attr else None
        if mode is not None:
            node.meta[IMPL_MODE] = mode


def _texts(op: pb.OpDef, name: str) -> list[str]:
    if name not in op.attr:
        return []
    return [s.decode("utf-8", "surrogateescape") for s in op.attr[name].list.s]


def _ordered(source: pb.GraphDef) -> list[pb.OpDef]:
    """Operators so that producers come first; the file's order where it already is one. Raises on cycles."""
    position = {op.name: index for index, op in enumerate(source.op)}
    if len(position) != len(source.op):
        raise broken("two operators have the same name")
    needs: list[set[int]] = []
    sorted_already = True
    for index, op in enumerate(source.op):
        sources = {position.get(text.rpartition(":")[0], -1) for text in op.input if text} - {-1}
        sorted_already &= all(s < index for s in sources)
        needs.append(sources)
    if sorted_already:
        return list(source.op)
    waiting = [len(s) for s in needs]
    users: list[list[int]] = [[] for _ in needs]
    for index, sources in enumerate(needs):
        for s in sources:
            users[s].append(index)
    ready = deque(i for i, count in enumerate(waiting) if count == 0)
    order: list[pb.OpDef] = []
    while ready:
        index = ready.popleft()
        order.append(source.op[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    if len(order) != len(source.op):
        raise broken("its operators form a cycle")
    return order


def _describe(value: ir.Value, desc: pb.TensorDescriptor) -> None:
    """Set name, type, origin shape and TensorDesc of ``value`` from its description."""
    value.name = desc.name
    row = dtypes.of_proto(desc.dtype)
    if row is not None and row.ir is not None:
        value.type = ir.TensorType(row.ir)
    if TYPE in desc.attr:
        value.type = attributes.type_from(desc.attr[TYPE].bt)
    origin = tuple(desc.attr["origin_shape"].list.i if "origin_shape" in desc.attr else desc.shape.dim)
    for shape in (origin, tuple(desc.shape.dim)):
        attributes.elements([max(d, 1) for d in shape], f"tensor {desc.name}")
    if -2 not in origin:
        value.shape = ir.Shape([d if d >= 0 else None for d in origin])
    layout = layout_of(desc)
    if layout is not None:
        value.meta[DESC] = layout
    if LARGEST in desc.attr:
        value.meta[MAX_BYTES] = max(desc.attr[LARGEST].i, 0)
    if "_origin_tensor" in desc.attr:
        value.meta[ORIGIN_TENSOR] = desc.attr["_origin_tensor"].s.decode("utf-8", "replace")


def _captured(op: pb.OpDef, outer: Mapping[str, ir.Value]) -> ir.Value:
    name = op.attr[OUTER].s.decode("utf-8", "replace")
    if name not in outer:
        raise broken(f"body node {op.name} captures {name}, which does not exist outside")
    return outer[name]


def _opsets(model: pb.ModelDef) -> dict[str, int]:
    """Versions of the ONNX domains that host operators are written in."""
    found = {}
    for raw in model.attr[OPSETS].list.s if OPSETS in model.attr else ():
        domain, _, version = raw.decode("utf-8", "replace").rpartition(":")
        if version.isascii() and version.isdigit() and len(version) < 9:
            found["" if domain == "ai.onnx" else domain] = int(version)
    return found
