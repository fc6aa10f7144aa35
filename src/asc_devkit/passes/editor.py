"""The graph as passes see and change it: questions about constants, shapes and uses; edits that keep names and origins.

Every edit happens between ``begin`` and ``commit`` of one rewrite. Nodes that an edit leaves without users vanish in
the same rewrite, so a pass only says what replaces what.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import GROUP, ORIGIN_OPS, ORIGIN_TENSOR, PASSES
from asc_devkit.ops.infer import infer_node
from asc_devkit.passes.report import Rewrite

Array = np.ndarray[Any, Any]
# Constants that rewrites make may together have this many bytes more than this many times the model's own: a weight that
# many convolutions share is copied for each of them that takes up a scale.
CREATED_FACTOR = 4
CREATED_BYTES = 1 << 30
FLOATS = frozenset(
    (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE),
)


class Editor:
    """Access to one model while passes run."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.rewrites: list[Rewrite] = []
        self.growth = 0  # bytes by which folded constants exceed what they replaced
        self.folded = 0  # bytes of all constants computed by folding
        self._created = 0  # bytes of all constants made by rewrites
        self._pass = ""
        self._groups = 0
        self._anchor: ir.Node | None = None
        self._added: list[ir.Node] = []
        self._removed: list[ir.Node] = []
        self._touched: dict[ir.Node, None] = {}
        self._explicit: set[ir.Node] = set()
        self._arrays: dict[ir.Value, Array] = {}
        self._wanted: dict[ir.Node, str] = {}
        self._named: set[ir.Value] = set()
        self._constant_bytes = 0
        self._names: set[str] = set()
        self._node_names: set[str] = set()
        self._next: dict[str, int] = {}
        for graph in model.graphs():
            self._names.update(v.name for v in graph.inputs if v.name)
            self._names.update(graph.initializers)
            constants = (v.const_value for v in graph.initializers.values())
            self._constant_bytes += sum(c.nbytes for c in constants if c is not None and c.dtype != ir.DataType.STRING)
            for node in graph:
                self._names.update(v.name for v in node.outputs if v.name)
                name = node.name or ""
                if not name or name in self._node_names:
                    name = self._fresh(name or node.op_type, self._node_names)
                    node.name = name
                self._node_names.add(name)
                if ORIGIN_OPS not in node.meta:
                    node.meta[ORIGIN_OPS] = ((name, node.op_type),)
                self._groups = max(self._groups, node.meta.get(GROUP, 0))

    # --- questions ---------------------------------------------------------------------------------------------------

    @staticmethod
    def is_const(value: ir.Value | None) -> bool:
        """True for an initializer that is no graph input."""
        return value is not None and value.is_initializer() and not value.is_graph_input()

    def const(self, value: ir.Value | None) -> Array | None:
        """Content of a constant, else None. Do not modify it."""
        if value is None or not value.is_initializer() or value.is_graph_input() or value.const_value is None:
            return None
        found = self._arrays.get(value)
        if found is None:
            found = value.const_value.numpy()
            self._arrays[value] = found
        return found

    def scalar(self, value: ir.Value | None) -> float | None:
        """The number in a constant of one element, else None (large constants are not read)."""
        if value is None or not value.is_initializer() or value.is_graph_input() or value.const_value is None:
            return None
        tensor = value.const_value
        if tensor.size != 1 or tensor.dtype == ir.DataType.STRING:
            return None
        array = self.const(value)
        return None if array is None else float(array.reshape(-1)[0])

    def ints(self, value: ir.Value | None) -> list[int] | None:
        """A constant integer vector as a list, else None."""
        array = self.const(value)
        return None if array is None or array.dtype.kind not in "iu" else [int(v) for v in array.reshape(-1)]

    @staticmethod
    def dims(value: ir.Value | None) -> tuple[int, ...] | None:
        """Static shape, else None."""
        if value is None or value.shape is None:
            return None
        dims = value.shape.dims
        return dims if all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]

    @staticmethod
    def rank(value: ir.Value | None) -> int | None:
        return None if value is None or value.shape is None else len(value.shape)

    @staticmethod
    def producer(value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The standard node of one of ``op_types`` that makes ``value``, else None."""
        node = None if value is None else value.producer()
        return node if node is not None and node.op_type in op_types and not node.domain else None

    def sole_producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """Like ``producer``, but None when anything besides one node input reads ``value``."""
        node = self.producer(value, *op_types)
        return node if node is not None and value is not None and self.used_once(value) else None

    @staticmethod
    def used_once(value: ir.Value) -> bool:
        return not value.is_graph_output() and len(value.uses()) == 1

    @staticmethod
    def attr(node: ir.Node, name: str, default: Any = None) -> Any:
        """Attribute as a Python value."""
        found = node.attributes.get(name)
        return default if found is None else found.value

    @staticmethod
    def input(node: ir.Node, index: int) -> ir.Value | None:
        return node.inputs[index] if index < len(node.inputs) else None

    def dominates(self, value: ir.Value, node: ir.Node) -> bool:
        """True when ``value`` belongs to the graph of ``node``: rewrites never move work into the body of a loop."""
        producer = value.producer()
        graph = producer.graph if producer is not None else value.graph
        return graph is node.graph

    @staticmethod
    def first_of(nodes: Sequence[ir.Node]) -> ir.Node:
        """The one of ``nodes`` (of one graph) that comes first."""
        wanted = set(nodes)
        graph = nodes[0].graph
        assert graph is not None
        return next(n for n in graph if n in wanted)

    # --- one rewrite -------------------------------------------------------------------------------------------------

    def begin(self, pass_name: str, anchor: ir.Node) -> None:
        """Start a rewrite; new nodes go in front of ``anchor``."""
        self._pass, self._anchor = pass_name, anchor

    def rollback(self) -> None:
        """Give up a rewrite that has only added nodes so far."""
        for node in reversed(self._added):
            if node.graph is not None:
                _detach(node)
                node.graph.remove(node)
                self._node_names.discard(node.name or "")
        self._reset()

    def _reset(self) -> None:
        self._anchor = None
        self._added, self._removed, self._explicit, self._touched = [], [], set(), {}
        self._wanted, self._named = {}, set()

    def commit(self) -> list[ir.Node]:
        """Finish the rewrite: record it, hand on origins; returns the nodes to look at again."""
        gone = self._removed[::-1]
        kept = [n for n in self._added if n.graph is not None]
        for node, name in self._wanted.items():
            if node.graph is not None and name not in self._node_names:
                self._node_names.discard(node.name or "")
                self._node_names.add(name)
                node.name = name
        origins = tuple(dict.fromkeys(o for n in gone for o in n.meta.get(ORIGIN_OPS, ())))
        heirs = [n for n in kept if n not in self._explicit]
        if heirs and not self._explicit:
            heirs[-1].meta[ORIGIN_OPS] = origins
        history = tuple(dict.fromkeys(p for n in gone for p in n.meta.get(PASSES, ())))
        for node in kept:
            if ORIGIN_OPS not in node.meta:
                node.meta[ORIGIN_OPS] = ()
            node.meta[PASSES] = (*(p for p in history if p != self._pass), self._pass)
        self.rewrites.append(Rewrite(self._pass, tuple(map(_label, gone)), tuple(map(_label, kept))))
        touched = dict.fromkeys(kept)
        touched.update(self._touched)
        for node in kept:
            for out in node.outputs:
                touched.update(dict.fromkeys(u.node for u in out.uses()))
        self._reset()
        return [n for n in touched if n.graph is not None]

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | Array | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        name: str = "",
        of: Iterable[ir.Node] = (),
        before: ir.Node | None = None,
    ) -> ir.Value:
        """Insert a standard node in front of ``before`` (default: the anchor) and return its first output.

        Arrays become constants. Shape and dtype are inferred. ``name``: the name the node is to have once the node that
        has it now is gone. ``of`` names the nodes whose origins it takes; by
        default the last node of a rewrite takes those of everything that vanishes. Raises ``AscError`` when the
        new node is inconsistent.
        """
        anchor = before or self._anchor
        assert anchor is not None and anchor.graph is not None
        values = [self.constant(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x for x in inputs]
        base = name or anchor.name or op_type
        made = [ir.Value(name=self._fresh(f"{base}_{op_type.lower()}_out")) for _ in range(outputs)]
        node = ir.Node(
            "",
            op_type,
            values,
            [_attribute(k, v) for k, v in (attrs or {}).items() if v is not None],
            outputs=made,
            name=self._fresh(f"{base}_{op_type.lower()}", self._node_names),
        )
        if name:
            self._wanted[node] = name
        anchor.graph.insert_before(anchor, node)
        self._added.append(node)
        origins = tuple(o for n in of for o in n.meta.get(ORIGIN_OPS, ()))
        if origins:
            node.meta[ORIGIN_OPS] = origins
            self._explicit.add(node)
        try:
            infer_node(node)
        except AscError:
            self._drop(node)
            raise
        return made[0]

    def constant(self, array: Array, name: str = "") -> ir.Value:
        """A new initializer of the anchor's graph. Raises ``AscError`` when rewrites have made too many of them."""
        assert self._anchor is not None
        self._created += array.nbytes
        if self._created > CREATED_FACTOR * self._constant_bytes + CREATED_BYTES:
            raise AscError(Problem("ASC1001", "rewrites would make the constants of the model many times larger"))
        graph = self._anchor.graph
        assert isinstance(graph, ir.Graph)
        label = self._fresh(name or f"{self._anchor.name}_const")
        tensor = ir.Tensor(np.ascontiguousarray(array) if array.ndim else array, name=label)
        value = ir.Value(name=label, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        graph.initializers[label] = value
        self._arrays[value] = tensor.numpy()
        return value

    def become_constant(self, old: ir.Value, array: Array) -> None:
        """Replace a computed value by a constant that keeps its name; the graph must not output it."""
        name = old.name or ""
        old.name = None
        self._names.discard(name)
        new = self.constant(array, name)
        if ORIGIN_TENSOR in old.meta:
            new.meta[ORIGIN_TENSOR] = old.meta[ORIGIN_TENSOR]
        for user, index in old.uses():
            self._touched[user] = None
            user.replace_input_with(index, new)

    def inline(self, body: ir.Graph) -> None:
        """Move constants and nodes of ``body`` in front of the anchor; the body is left empty, without outputs."""
        anchor = self._anchor
        assert anchor is not None
        graph = anchor.graph
        assert isinstance(graph, ir.Graph)
        body.outputs.clear()
        for value in list(body.initializers.values()):
            del body.initializers[value.name or ""]
            if value.name in graph.initializers:
                value.name = self._fresh(value.name or "const")
            graph.initializers.add(value)
        for node in list(body):
            body.remove(node)
            graph.insert_before(anchor, node)
            self._touched[node] = None

    def can_replace(self, old: ir.Value, new: ir.Value) -> bool:
        """False when ``old`` is a graph output and ``new`` cannot be one in its place."""
        if not old.is_graph_output():
            return True
        producer, before = new.producer(), old.producer()
        return (
            producer is not None and before is not None and producer.graph is before.graph and not new.is_graph_output()
        )

    def replace(self, old: ir.Value, new: ir.Value, unless: Container[ir.Node] = ()) -> None:
        """Let readers of ``old`` read ``new``; the producer of ``old`` vanishes if nothing else needs it.

        A value made in this rewrite takes the name of the first value it replaces; any value that becomes a graph
        output takes the name of that output. Readers in ``unless`` go on reading ``old``.
        """
        output_of = old.graph if old.is_graph_output() else None
        fresh = new.producer() in self._added and new not in self._named
        if output_of is not None or fresh:
            self._take_name(old, new)
            self._named.add(new)
        for user, index in old.uses():
            if user not in unless:
                self._touched[user] = None
                user.replace_input_with(index, new)
        if output_of is not None:
            for i, out in enumerate(output_of.outputs):
                if out is old:
                    output_of.outputs[i] = new
        if new.shape is None or not new.shape.is_static():
            new.shape = old.shape if old.shape is not None else new.shape
        if new.type is None:
            new.type = old.type
        source = new.producer()
        if source is not None:
            self._touched[source] = None
        producer = old.producer()
        if producer is not None:
            self.remove_if_dead(producer)

    def alias(self, old: ir.Value, new: ir.Value) -> None:
        """Like ``replace``, through an Identity where a graph output cannot be given to ``new`` directly."""
        self.replace(old, new if self.can_replace(old, new) else self.op("Identity", [new]))

    def set_input(self, node: ir.Node, index: int, value: ir.Value) -> None:
        """Change one input in place; what fed it vanishes if nothing else needs it."""
        old = node.inputs[index]
        node.replace_input_with(index, value)
        self._touched[node] = None
        producer = None if old is None else old.producer()
        if producer is not None:
            self.remove_if_dead(producer)
            self._look_again(old)

    def remove_if_dead(self, node: ir.Node) -> None:
        """Remove ``node`` and, in turn, its producers, as long as nothing reads their outputs."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node.graph is None or any(o.is_graph_output() or o.uses() for o in node.outputs):
                continue
            feeds = [v for v in _all_inputs(node) if v is not None]
            self._drop(node)
            for value in feeds:
                producer = value.producer()
                if producer is not None:
                    stack.append(producer)
                self._look_again(value)

    def next_group(self) -> int:
        """A fused-group number that is new in the model."""
        self._groups += 1
        return self._groups

    def record_group(self, pass_name: str, members: Sequence[ir.Node]) -> None:
        """Record a fused group as a rewrite (the nodes stay)."""
        fused = f"{members[0].name} ({'+'.join(n.op_type for n in members)})"
        self.rewrites.append(Rewrite(pass_name, tuple(map(_label, members)), (fused,)))

    def _look_again(self, value: ir.Value | None) -> None:
        """Nodes around a value that lost a reader may match now (patterns ask for a single use)."""
        if value is None:
            return
        producer = value.producer()
        if producer is not None:
            self._touched[producer] = None
            uses = value.uses()
            if len(uses) <= 4:
                self._touched.update(dict.fromkeys(u.node for u in uses))

    def _drop(self, node: ir.Node) -> None:
        graph = node.graph
        assert graph is not None
        _detach(node)
        graph.remove(node)
        self._node_names.discard(node.name or "")
        if node in self._added:
            self._added.remove(node)
        else:
            self._removed.append(node)

    def _take_name(self, old: ir.Value, new: ir.Value) -> None:
        name = old.name
        old.name = None
        new.name = name
        if ORIGIN_TENSOR in old.meta:
            new.meta[ORIGIN_TENSOR] = old.meta[ORIGIN_TENSOR]

    def forget_name(self, value: ir.Value) -> None:
        """``value`` no longer equals the user's tensor of its name: give it a fresh one."""
        value.name = self._fresh(f"{value.name}_rewritten")
        value.meta.pop(ORIGIN_TENSOR, None)

    def _fresh(self, base: str, taken: set[str] | None = None) -> str:
        taken = self._names if taken is None else taken
        name, i = base, self._next.get(base, 0)
        while name in taken:
            i += 1
            name = f"{base}_{i}"
        self._next[base] = i
        taken.add(name)
        return name


def _all_inputs(node: ir.Node) -> list[ir.Value | None]:
    """Inputs of ``node`` and everything its bodies read."""
    found = list(node.inputs)
    for attr in node.attributes.values():
        if attr.type == ir.AttributeType.GRAPH:
            for inner in attr.as_graph().all_nodes():
                found.extend(inner.inputs)
    return found


def _detach(node: ir.Node) -> None:
    """Take ``node`` off the use lists of the values it reads, and empty its bodies."""
    node.resize_inputs(0)
    for attr in node.attributes.values():
        if attr.type == ir.AttributeType.GRAPH:
            for inner in list(attr.as_graph().all_nodes()):
                inner.resize_inputs(0)
                if inner.graph is not None:
                    inner.graph.remove(inner)


def _label(node: ir.Node) -> str:
    return f"{node.name} ({node.op_type})"


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, int):
        return ir.AttrInt64(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.Tensor(value))
    return ir.AttrInt64s(name, list(value))
