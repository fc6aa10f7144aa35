"""Things that are there twice: constants with the same content, nodes with the same inputs and attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from asc_devkit.passes.declare import GraphPass
from asc_devkit.passes.editor import Array, Editor

_SAMPLE_BYTES = 256
_COMPARED = 4  # tensors that differ although their samples agree are rare unless made to be
_NONDETERMINISTIC = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")
)


class RemoveSameConst(GraphPass):
    """Constants of equal dtype, shape and content -> one of them.

    Tensors are compared byte by byte only when dtype, shape and a sample of their bytes agree.
    """

    name = "RemoveSameConstPass"

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        alike: dict[Hashable, list[ir.Value]] = defaultdict(list)
        for value in graph.initializers.values():
            if (
                ed.is_const(value)
                and value.uses()
                and not value.is_graph_output()
                and value.dtype != ir.DataType.STRING
            ):
                tensor = value.const_value
                if tensor is not None:
                    alike[tensor.dtype, tuple(tensor.shape.numpy())].append(value)
        for values in alike.values():
            if len(values) < 2:
                continue
            kept: dict[bytes, list[ir.Value]] = defaultdict(list)
            for value in values:
                bytes_ = _raw(ed, value)
                key = bytes_[:_SAMPLE_BYTES].tobytes() + bytes_[-_SAMPLE_BYTES:].tobytes()
                twin = next((k for k in kept[key][:_COMPARED] if np.array_equal(_raw(ed, k), bytes_)), None)
                if twin is None:
                    kept[key].append(value)
                else:
                    self._merge(value, twin)

    @staticmethod
    def _merge(value: ir.Value, twin: ir.Value) -> None:
        for user, index in value.uses():
            user.replace_input_with(index, twin)


def _raw(ed: Editor, value: ir.Value) -> Array:
    array = ed.const(value)
    assert array is not None
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class CommonSubexpressionElimination(GraphPass):
    """Two nodes with the same operator, attributes and inputs -> the first one."""

    name = "CommonSubexpressionEliminationPass"

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        seen: dict[Hashable, ir.Node] = {}
        for node in graph:
            if node.op_type in _NONDETERMINISTIC or not node.outputs:
                continue
            key = _key(node)
            if key is None:
                continue
            first = seen.setdefault(key, node)
            if first is node or not all(ed.can_replace(a, b) for a, b in zip(node.outputs, first.outputs, strict=True)):
                continue
            if sum(o.is_graph_output() for o in (*node.outputs, *first.outputs)) > 0 and len(node.outputs) > 1:
                continue
            ed.begin(self.name, node)
            for out, same in zip(node.outputs, first.outputs, strict=True):
                ed.replace(out, same)
            ed.remove_if_dead(node)
            ed.commit()


_UNCOMPARED = frozenset(
    getattr(ir.AttributeType, name) for name in ("GRAPH", "GRAPHS", "TENSORS", "TYPE_PROTO", "TYPE_PROTOS")
)


def _key(node: ir.Node) -> Hashable | None:
    attrs = []
    for name, attr in node.attributes.items():
        if attr.type in _UNCOMPARED:
            return None
        value = attr.value
        if attr.type == ir.AttributeType.TENSOR:
            if value.dtype == ir.DataType.STRING or value.nbytes > _SAMPLE_BYTES:
                return None
            value = (value.dtype, tuple(value.shape.numpy()), value.tobytes())
        elif isinstance(value, (list, tuple)):
            value = tuple(value)
        attrs.append((name, value))
    attrs.sort(key=lambda a: a[0])
    return (node.domain, node.op_type, tuple(map(id, node.inputs)), len(node.outputs), tuple(attrs))
