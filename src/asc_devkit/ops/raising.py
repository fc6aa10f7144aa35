"""ONNX -> GE: one walk over the graph and the branches of If; see ``ops.convert.to_ge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, GROUP, ORIGIN_OPS, Engine
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import CANONICAL_OPSET, Cost
from asc_devkit.ops.declare import outputs_of
from asc_devkit.ops.emit import Emitter, GeEmitter, Rejected, Scope
from asc_devkit.ops.walk import MALFORMED, Walk


@dataclass(frozen=True)
class Unsupported:
    """An ONNX node that CANN cannot run: where it is, why, and what to do."""

    name: str
    op_type: str
    domain: str
    opset: int
    reason: str
    hint: str


def _has_word(kind: ir.TypeProtocol | None) -> bool:
    """Whether GE can describe a value of this type."""
    return kind is None or (isinstance(kind, ir.TensorType) and dtypes.find(kind.dtype) is not None)


class ToGe(Walk):
    emitter = GeEmitter

    def __init__(self, source: ir.Model, host_ops: bool) -> None:
        super().__init__(source)
        self.host_ops = host_ops
        self.unsupported: list[Unsupported] = []
        self.problems: list[Problem] = []

    def opsets(self) -> dict[str, int]:
        return {**self.source.opset_imports, GE_DOMAIN: 1}

    def node(self, node: ir.Node, scope: Scope) -> None:
        mark = len(scope.nodes), len(scope.initializers)
        try:
            self.convert(node, scope)
        except Rejected as rejected:
            self.roll_back(scope, *mark)
            self.keep_on_host(node, scope, rejected.reason, rejected.fix)
        except MALFORMED as error:
            self.roll_back(scope, *mark)
            self.malformed(node, error, scope)

    def convert(self, node: ir.Node, scope: Scope) -> None:
        """Append the GE form of ``node``; ``Rejected`` when there is none."""
        strange = [v.dtype for v in (*node.inputs, *node.outputs) if v is not None and not _has_word(v.type)]
        if strange:
            kinds = ", ".join(sorted({"a sequence or optional" if d is None else d.name for d in strange}))
            raise Rejected(f"CANN has no element type for {kinds}", "Cast the tensors to another type.")
        standard = node.domain in registry.ONNX_DOMAINS
        if standard and node.op_type == "Constant":
            self.constant(node, scope)
            return
        op = registry.lookup_onnx(node.op_type, node.domain)
        if op is None:
            why = registry.host_reason(node.op_type, node.domain)
            raise Rejected(why.reason, why.hint)
        if op.raise_ is None:
            self.define(node, scope)
            return
        e = self.emit(node, scope)
        made = self.branches(node, e) if op.type == "If" else op.raise_(e)
        self.finish(e, made, "Identity")
        self.inherit(node, e.created)

    def malformed(self, node: ir.Node, error: Exception, scope: Scope) -> None:
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
        self.stand_in(node, scope)

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
                row = self.unsupported[before]
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
        self.report(node, reason, hint)
        if not self.host_ops:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    self.report_body(attribute.as_graph())
        made = self.copy_node(node, scope)
        made.meta[ENGINE] = Engine.HOST
        made.meta.setdefault(ORIGIN_OPS, ((node.name or "", node.op_type),))
        made.meta.pop(GROUP, None)

    def report(self, node: ir.Node, reason: str, hint: str) -> None:
        domain = "" if node.domain in registry.ONNX_DOMAINS else node.domain
        opset = self.source.opset_imports.get(node.domain, CANONICAL_OPSET if not domain else 1)
        self.unsupported.append(Unsupported(node.name or "", node.op_type, domain, opset, reason, hint))

    def report_body(self, graph: ir.Graph) -> None:
        """Name what CANN lacks inside the body of an operator that it lacks: rewriting the outer one is not enough."""
        for node in ir.traversal.RecursiveGraphIterator(graph):
            known = node.op_type == "Constant" or registry.lookup_onnx(node.op_type, node.domain) is not None
            if not known:
                why = registry.host_reason(node.op_type, node.domain)
                self.report(node, why.reason, why.hint)

    def branches(self, node: ir.Node, e: Emitter) -> Sequence[ir.Value]:
        """ONNX If -> GE If; the branches are converted and go on capturing outer values."""
        bodies = {name: self.graph(node.attributes[name].as_graph()) for name in ("then_branch", "else_branch")}
        return outputs_of(e.op("If", e.inputs, bodies, len(node.outputs)))

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
