"""GE -> ONNX: one walk over the graph, branches and fused groups; see ``ops.convert.to_onnx``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from asc_devkit.errors import Problem
from asc_devkit.ge.desc import GE_DOMAIN, MEMBERS, UNCLEAR, Engine
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import CANONICAL_OPSET, PLUGIN_ATTR, PLUGIN_DOMAIN, GeOp
from asc_devkit.ops.declare import outputs_of
from asc_devkit.ops.emit import Emitter, OnnxEmitter, Rejected, Scope, widened
from asc_devkit.ops.walk import MALFORMED, MAX_DEPTH, Walk

#: Lowers one operator: its catalogue entry, what it may ask and emit -> its results.
Kernel = Callable[[GeOp, Emitter], "ir.Value | Sequence[ir.Value]"]


def declared(spec: GeOp, e: Emitter) -> ir.Value | Sequence[ir.Value]:
    """The lowering that the catalogue declares."""
    return spec.lower(e)


class ToOnnx(Walk):
    emitter = OnnxEmitter

    def __init__(self, source: ir.Model, wide: ir.DataType | None, kernel: Kernel | None = None) -> None:
        super().__init__(source)
        self.wide = wide
        self.kernel = kernel or declared
        self.problems: list[Problem] = []
        self.depth = 0
        self.custom = False

    def opsets(self) -> dict[str, int]:
        kept = {d: v for d, v in self.source.opset_imports.items() if d not in (GE_DOMAIN, "", "ai.onnx")}
        own = {PLUGIN_DOMAIN: 1} if self.custom else {}
        return {**kept, **own, "": CANONICAL_OPSET}

    def node(self, node: ir.Node, scope: Scope) -> None:
        if node.domain != GE_DOMAIN:
            self.copy_node(node, scope)
            return
        if UNCLEAR in node.meta:
            self.fail(node, scope, f"its fused kernel does not say what it computes: {node.meta[UNCLEAR]}")
            return
        if MEMBERS in node.attributes:
            self.members(node, scope)
            return
        spec = registry.lookup(node.op_type)
        if spec is None:
            self.unknown(node, scope)
            return
        self.custom = self.custom or bool(spec.plugin)
        e = self.emit(node, scope)
        try:
            if node.op_type == "If":
                bodies = {n: self.graph(node.attributes[n].as_graph()) for n in ("then_branch", "else_branch")}
                made: ir.Value | Sequence[ir.Value] = outputs_of(e.op("If", e.inputs, bodies, len(node.outputs)))
            else:
                self.equalise(e, spec)
                made = self.kernel(spec, e)
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

    def unknown(self, node: ir.Node, scope: Scope) -> None:
        """An operator that is not in the catalogue: of a plugin that is not loaded, or of the vendor's."""
        label = node.attributes.get(PLUGIN_ATTR)
        if label is None:
            self.fail(node, scope, "the catalogue does not know this GE operator")
            return
        self.problems.append(
            Problem(
                "ASC2013",
                f"Custom operator {node.op_type} ({node.name}): its plugin {label.value} is not loaded.",
                "the .om was converted with an operator plugin, and holds the operator but not its implementation",
                f"give the same plugin again: --op_plugin_path=.../{label.value} (or ASC_OP_PLUGIN_PATH)",
                (node.name or "?",),
                "EE2001",
            )
        )
        self.stand_in(node, scope)

    def fail(self, node: ir.Node, scope: Scope, reason: str) -> None:
        self.problems.append(
            Problem(
                "ASC2001",
                f"{node.op_type} {node.name}: {reason}",
                "the .om holds an operator the virtual NPU cannot execute",
                "convert the original model with this toolkit, cut the operator out, or declare it in a plugin "
                "(--op_plugin_path, docs/plugins.md)",
                (node.name or "?",),
                "EE2001",
            )
        )
        self.stand_in(node, scope)

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
