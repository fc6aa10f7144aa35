"""Whole graphs between the two vocabularies: ``to_ge`` (called by atc's select stage) and ``to_onnx`` (by npu).

Both build a new model and leave the given one as it is; weights share their ``const_value`` objects.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, GROUP, MEMBERS, ORIGIN_OPS, Engine
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import CANONICAL_OPSET, Cost, GeOp
from asc_devkit.ops.emit import Emitter, GeEmitter, Names, OnnxEmitter, Rejected, Scope, widened

IR_VERSION = 10
MAX_DEPTH = 32
MAX_LISTED = 200
# What a conversion function raises on a node whose attributes or inputs are not those of its operator.
MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError
)  # fmt: skip


@dataclass(frozen=True)
class Unsupported:
    """An ONNX node that CANN cannot run: where it is, why, and what to do."""

    name: str
    op_type: str
    domain: str
    opset: int
    reason: str
    hint: str


@dataclass(frozen=True)
class ToGeResult:
    """The GE model and the nodes that stayed ONNX (on the host engine)."""

    model: ir.Model
    unsupported: list[Unsupported] = field(default_factory=list)


def to_ge(model: ir.Model, host_ops: bool) -> ToGeResult:
    """ONNX operators (canonical opset) -> GE operators, through the branches of ``If``.

    Nodes that cannot be converted keep their ONNX identity with ``meta[ENGINE] = Engine.HOST`` and are listed in
    ``unsupported``. Without ``host_ops`` the list also holds operators that the toolkit could convert but that the real
    ATC neither parses nor can be given in an exactly rewritten form. Raises ``AscError`` listing all malformed nodes.
    """
    walk = _ToGe(model, host_ops)
    converted = walk.model()
    if walk.problems:
        raise AscError(walk.problems[:MAX_LISTED])
    return ToGeResult(converted, walk.unsupported)


def to_onnx(
    model: ir.Model,
    float_as: ir.DataType | None = None,
    names: MutableMapping[ir.Value, str] | None = None,
) -> ir.Model:
    """GE operators -> ONNX (opset 23), fused groups expanded, executable by ONNX Runtime.

    ``float_as``: replaces fp16 and bf16 everywhere (values, constants lazily, dtype attributes). ``names`` is filled
    with the ONNX value name of every value of the given model, members of groups included. Raises ``AscError`` listing
    all GE operators that cannot be lowered.
    """
    walk = _ToOnnx(model, float_as)
    lowered = walk.model()
    if walk.problems:
        raise AscError(walk.problems[:MAX_LISTED])
    if names is not None:
        names.update((old, new.name or "") for old, new in walk.values.items() if new is not None)
    return lowered


class _Walk:
    """What both directions share: copying values, graphs and foreign nodes, and finishing a converted node."""

    emitter: type[Emitter]
    wide: ir.DataType | None = None

    def __init__(self, source: ir.Model) -> None:
        self.source = source
        self.names = Names(set(_all_names(source.graph, 0)))
        self.values: dict[ir.Value, ir.Value | None] = {}

    def model(self) -> ir.Model:
        graph = self.graph(self.source.graph)
        graph.opset_imports.update(self.opsets())
        made = ir.Model(
            graph,
            ir_version=max(self.source.ir_version or 0, IR_VERSION),
            producer_name=self.source.producer_name,
            producer_version=self.source.producer_version,
            metadata_props=dict(self.source.metadata_props),
        )
        made.meta.update(self.source.meta)
        return made

    def opsets(self) -> dict[str, int]:
        raise NotImplementedError

    def node(self, node: ir.Node, scope: Scope) -> None:
        raise NotImplementedError

    def graph(self, source: ir.Graph, foreign: bool = False) -> ir.Graph:
        """A converted (or, for bodies of host operators, copied) graph; outer values it captures are mapped."""
        scope = Scope()
        inputs = [self.copy_value(v) for v in source.inputs]
        for value in source.initializers.values():
            if value not in self.values:
                scope.initializers.append(self.copy_value(value))
            else:  # an input with a default: the default is dropped, the input stays
                continue
        for node in source:
            if foreign:
                self.copy_node(node, scope)
            else:
                self.node(node, scope)
        outputs = [self.mapped(v, node=None) for v in source.outputs]
        made = ir.Graph(
            inputs,
            [v for v in outputs if v is not None],
            nodes=scope.nodes,
            initializers=scope.initializers,
            doc_string=source.doc_string,
            name=source.name,
            metadata_props=dict(source.metadata_props),
        )
        made.meta.update(source.meta)
        return made

    def copy_value(self, old: ir.Value) -> ir.Value:
        new = ir.Value(name=self.names.keep(old.name or ""), shape=old.shape)
        self.describe(old, new)
        tensor = old.const_value
        if tensor is not None:
            new.const_value = self.tensor(tensor)
        self.values[old] = new
        return new

    def describe(self, old: ir.Value, new: ir.Value) -> None:
        """Give ``new`` the shape, type and meta of ``old``."""
        if old.shape is not None:
            new.shape = old.shape
        if isinstance(old.type, ir.TensorType):
            dtype = widened(old.type.dtype, self.wide)
            assert dtype is not None
            new.type = ir.TensorType(dtype)
        elif old.type is not None:
            new.type = old.type
        new.meta.update(old.meta)

    def tensor(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        return tensor

    def mapped(self, old: ir.Value | None, node: ir.Node | None) -> ir.Value | None:
        if old is None:
            return None
        try:
            return self.values[old]
        except KeyError:
            where = "the graph outputs" if node is None else f"{node.op_type} {node.name}"
            raise AscError(
                Problem(
                    "E14001",
                    f"{where}: value {old.name} is used before it is made",
                    "the nodes of the graph are not in execution order, or a value belongs to another graph",
                    "export the model again",
                    (old.name or "?",),
                    "EE2001",
                )
            ) from None

    def copy_node(self, node: ir.Node, scope: Scope) -> ir.Node:
        """The same operator over mapped values; bodies are copied unconverted."""
        attrs = [
            ir.AttrGraph(a.name, self.graph(a.as_graph(), foreign=True))
            if a.type == ir.AttributeType.GRAPH
            else self.attribute(a)
            for a in node.attributes.values()
        ]
        made = ir.Node(
            node.domain,
            node.op_type,
            [self.mapped(v, node) for v in node.inputs],
            attrs,
            overload=node.overload,
            num_outputs=len(node.outputs),
            name=node.name,
        )
        made.meta.update(node.meta)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            self.bind(old, new)
        scope.nodes.append(made)
        return made

    def attribute(self, attribute: ir.Attr) -> ir.Attr:
        return attribute

    def bind(self, old: ir.Value, new: ir.Value) -> None:
        """Let ``new`` stand for ``old``: name, shape, type, meta."""
        if old.name:
            new.name = self.names.keep(old.name)
        elif new.name is None:
            new.name = ""
        self.describe(old, new)
        self.values[old] = new

    def emit(self, node: ir.Node, scope: Scope) -> Emitter:
        inputs = [self.mapped(v, node) for v in node.inputs]
        return self.emitter(node, inputs, scope, self.names, self.wide)

    def finish(self, e: Emitter, made: ir.Value | Sequence[ir.Value], identity: str) -> None:
        """Bind the results of a conversion function to the node's outputs and name what it created."""
        node = e.node
        results = [made] if isinstance(made, ir.Value) else list(made)
        for index in range(len(results), len(node.outputs)):
            if e.used(index):
                raise Rejected(f"output {index} cannot be computed", "Drop the uses of that output.")
        own = {v for n in e.created for v in n.outputs}
        for old, new in zip(node.outputs, results, strict=False):
            if new not in own:  # an input handed through, or one value for two outputs
                new = e.op(identity, [new])
            else:
                own.remove(new)
            self.bind(old, new)
        base = node.name or node.outputs[0].name or node.op_type
        main = e.created[-1] if not node.outputs else self.values[node.outputs[0]].producer()  # type: ignore[union-attr]
        for created in e.created:
            created.name = base if created is main else self.names.fresh(f"{base}/{created.op_type}")
            for value in created.outputs:
                if value.name is None:
                    value.name = self.names.fresh(f"{base}/{created.op_type}:out")


class _ToGe(_Walk):
    emitter = GeEmitter

    def __init__(self, source: ir.Model, host_ops: bool) -> None:
        super().__init__(source)
        self.host_ops = host_ops
        self.unsupported: list[Unsupported] = []
        self.problems: list[Problem] = []

    def opsets(self) -> dict[str, int]:
        return {**self.source.opset_imports, GE_DOMAIN: 1}

    def node(self, node: ir.Node, scope: Scope) -> None:
        if node.op_type == "Constant" and node.domain in registry.ONNX_DOMAINS:
            self.constant(node, scope)
            return
        if node.op_type == "If" and node.domain in registry.ONNX_DOMAINS:
            self.branches(node, scope)
            return
        op = registry.lookup_onnx(node.op_type, node.domain)
        if op is None or (not self.host_ops and not op.rewritten and registry.atc_support(op.type) is None):
            why = registry.host_reason(node.op_type, node.domain)
            self.keep_on_host(node, scope, why.reason, why.hint)
            return
        mark = len(scope.nodes), len(scope.initializers)
        try:
            if op.raise_ is None:
                self.define(node, scope)
                return
            e = self.emit(node, scope)
            self.finish(e, op.raise_(e), "Identity")
        except Rejected as rejected:
            self.roll_back(scope, *mark)
            self.keep_on_host(node, scope, rejected.reason, rejected.fix)
            return
        except MALFORMED as error:
            self.roll_back(scope, *mark)
            self.malformed(node, error)
            self.copy_node(node, scope)
            return
        self.inherit(node, e.created)

    def malformed(self, node: ir.Node, error: Exception) -> None:
        name = node.name or node.outputs[0].name or "?"
        self.problems.append(
            Problem(
                "E14001",
                f"{node.op_type} node {name}: malformed inputs or attributes ({error})",
                "the operator's attributes are missing, of another kind, or do not fit its inputs",
                "check the model with onnx.checker; export it again if it was cut or edited",
                (name,),
                "EE2001",
            )
        )

    def roll_back(self, scope: Scope, nodes: int, initializers: int) -> None:
        """Take back what was appended to ``scope`` since it had so many nodes and initializers."""
        removed = set(scope.initializers[initializers:])
        for created in reversed(scope.nodes[nodes:]):
            removed.update(created.outputs)
            for index in range(len(created.inputs)):
                created.replace_input_with(index, None)
        self.names.kept.difference_update(value.name or "" for value in removed)
        scope.reshapes = {key: value for key, value in scope.reshapes.items() if value not in removed}
        del scope.nodes[nodes:], scope.initializers[initializers:]

    def define(self, node: ir.Node, scope: Scope) -> None:
        """Convert the nodes of ONNX's own definition of ``node``; all of them, or ``Rejected``."""
        from asc_devkit.ops.functions import body

        found = body(node)
        for value in found.constants:
            scope.initializers.append(self.copy_value(value))
        before = len(self.unsupported)
        origins = node.meta.get(ORIGIN_OPS, ((node.name or "", node.op_type),))
        for inner in found.nodes:
            inner.meta.update(node.meta)
            inner.meta[ORIGIN_OPS] = origins
            self.node(inner, scope)
            if len(self.unsupported) > before:
                (row,) = self.unsupported[before:]
                del self.unsupported[before:]
                raise Rejected(f"{row.op_type} in its definition: {row.reason}", row.hint)
        for output, result in zip(node.outputs, found.results, strict=True):
            if result.name:
                self.values[output] = self.values[result]

    def inherit(self, node: ir.Node, created: list[ir.Node]) -> None:
        """All new nodes carry the old one's meta. A view before a group stays outside: groups start at the work."""
        origins = node.meta.get(ORIGIN_OPS, ((node.name or "", node.op_type),))
        group = node.meta.get(GROUP)
        fed_by_group = group is not None and any(
            v is not None and (p := v.producer()) is not None and p.meta.get(GROUP) == group for v in node.inputs
        )
        leading = True
        for made in created:
            spec = registry.lookup(made.op_type)
            leading = leading and spec is not None and spec.cost is Cost.FREE
            engine = made.meta[ENGINE]
            made.meta.update(node.meta)
            made.meta[ENGINE], made.meta[ORIGIN_OPS] = engine, origins
            if leading and group is not None and not fed_by_group and made is not created[-1]:
                del made.meta[GROUP]

    def keep_on_host(self, node: ir.Node, scope: Scope, reason: str, hint: str) -> None:
        domain = "" if node.domain in registry.ONNX_DOMAINS else node.domain
        opset = self.source.opset_imports.get(node.domain, CANONICAL_OPSET if not domain else 1)
        self.unsupported.append(Unsupported(node.name or "", node.op_type, domain, opset, reason, hint))
        made = self.copy_node(node, scope)
        made.meta[ENGINE] = Engine.HOST
        made.meta.setdefault(ORIGIN_OPS, ((node.name or "", node.op_type),))
        made.meta.pop(GROUP, None)

    def branches(self, node: ir.Node, scope: Scope) -> None:
        """ONNX If -> GE If; the branches are converted and go on capturing outer values."""
        bodies = {name: self.graph(node.attributes[name].as_graph()) for name in ("then_branch", "else_branch")}
        e = self.emit(node, scope)
        self.finish(e, e.op("If", e.inputs, bodies, len(node.outputs)).producer().outputs, "Identity")  # type: ignore[union-attr]
        self.inherit(node, e.created)

    def constant(self, node: ir.Node, scope: Scope) -> None:
        """A Constant node (not canonical, but harmless) becomes an initializer."""
        (attribute,) = node.attributes.values()
        data = attribute.value
        if attribute.type in (ir.AttributeType.STRING, ir.AttributeType.STRINGS):
            tensor: ir.TensorProtocol = ir.tensor(data)
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = data
        else:
            floats = attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS)
            tensor = ir.tensor(np.array(data, np.float32 if floats else np.int64))
        value = ir.Value(shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.bind(node.outputs[0], value)
        scope.initializers.append(value)


class _ToOnnx(_Walk):
    emitter = OnnxEmitter

    def __init__(self, source: ir.Model, wide: ir.DataType | None) -> None:
        super().__init__(source)
        self.wide = wide
        self.problems: list[Problem] = []
        self.depth = 0

    def opsets(self) -> dict[str, int]:
        kept = {d: v for d, v in self.source.opset_imports.items() if d not in (GE_DOMAIN, "", "ai.onnx")}
        return {**kept, "": CANONICAL_OPSET}

    def node(self, node: ir.Node, scope: Scope) -> None:
        if node.domain != GE_DOMAIN:
            self.copy_node(node, scope)
            return
        if MEMBERS in node.attributes:
            self.members(node, scope)
            return
        spec = registry.lookup(node.op_type)
        if spec is None:
            self.fail(node, scope, "the catalogue does not know this GE operator")
            return
        e = self.emit(node, scope)
        try:
            if node.op_type == "If":
                bodies = {n: self.graph(node.attributes[n].as_graph()) for n in ("then_branch", "else_branch")}
                made: ir.Value | Sequence[ir.Value] = list(
                    e.op("If", e.inputs, bodies, len(node.outputs)).producer().outputs  # type: ignore[union-attr]
                )
            else:
                self.equalise(e, spec)
                made = spec.lower(e)
            self.finish(e, made, "Identity")
        except Rejected as rejected:
            self.fail(node, scope, rejected.reason)
            return
        except MALFORMED as error:
            self.fail(node, scope, f"its inputs or attributes are not those of {node.op_type} ({error})")
            return
        for created in e.created:
            created.meta.update(node.meta)

    def equalise(self, e: Emitter, spec: GeOp) -> None:
        """A cube operator that reads fp16 and writes fp32: widen the operands, as its accumulator does."""
        target = e.out_dtype()
        if spec.engine is not Engine.CUBE or target is None or not target.is_floating_point():
            return
        for index, value in enumerate(e.inputs):
            dtype = None if value is None else value.dtype
            if dtype is not None and dtype != target and dtype.is_floating_point():
                e.inputs[index] = e.op("Cast", [value], {"to": int(target)}, dtype=target)

    def members(self, node: ir.Node, scope: Scope) -> None:
        """Inline a fused group; its outputs take the fused node's names."""
        body = node.attributes[MEMBERS].as_graph()
        self.depth += 1
        if self.depth > MAX_DEPTH or len(body.inputs) != len(node.inputs) or len(body.outputs) != len(node.outputs):
            self.fail(node, scope, "its members do not fit its inputs and outputs")
            self.depth -= 1
            return
        for formal, actual in zip(body.inputs, node.inputs, strict=True):
            self.values[formal] = self.mapped(actual, node)
        for value in body.initializers.values():
            scope.initializers.append(self.copy_value(value))
        for member in body:
            self.node(member, scope)
        self.depth -= 1
        taken: set[ir.Value] = set()
        for old, inner in zip(node.outputs, body.outputs, strict=True):
            new = self.mapped(inner, node)
            if new is None or new in taken or new.producer() is None or inner in body.inputs:
                copy = ir.Node("", "Identity", [new], name=self.names.fresh(f"{node.name}/Identity"))
                scope.nodes.append(copy)
                new = copy.outputs[0]
            taken.add(new)
            if new.name != old.name:
                self.bind(old, new)
            else:
                self.describe(old, new)
                self.values[old] = new

    def fail(self, node: ir.Node, scope: Scope, reason: str) -> None:
        self.problems.append(
            Problem(
                "ASC2001",
                f"{node.op_type} {node.name}: {reason}",
                "the .om holds an operator the virtual NPU cannot execute",
                "convert the original model with this toolkit, or cut the operator out",
                (node.name or "?",),
                "EE2001",
            )
        )
        self.copy_node(node, scope)

    def tensor(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        dtype = widened(tensor.dtype, self.wide)
        if dtype == tensor.dtype or dtype is None:
            return tensor
        return ir.LazyTensor(
            lambda: ir.tensor(tensor.numpy().astype(dtype.numpy())),
            dtype=dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name,
        )

    def attribute(self, attribute: ir.Attr) -> ir.Attr:
        """Type codes and tensors of host operators follow ``float_as``."""
        if self.wide is None:
            return attribute
        if attribute.type == ir.AttributeType.TENSOR:
            return ir.AttrTensor(attribute.name, self.tensor(attribute.as_tensor()))
        if attribute.type == ir.AttributeType.INT and attribute.name in ("to", "dtype", "output_dtype"):
            wide = widened(ir.DataType(attribute.as_int()), self.wide)
            return ir.AttrInt64(attribute.name, int(wide or 0))
        return attribute


def _all_names(graph: ir.Graph, depth: int) -> Iterator[str]:
    """Names of all values and nodes, bodies and members included."""
    if depth > MAX_DEPTH:
        raise AscError(Problem("E13014", "control flow is nested too deeply", f"more than {MAX_DEPTH} bodies"))
    for value in (*graph.inputs, *graph.initializers.values()):
        if value.name:
            yield value.name
    for node in graph:
        if node.name:
            yield node.name
        for value in node.outputs:
            if value.name:
                yield value.name
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _all_names(attribute.as_graph(), depth + 1)
