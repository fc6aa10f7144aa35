"""Rounding points in the fp32 graph before ONNX Runtime optimises it: clamps, casts that cannot wait, pins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from asc_devkit.npu.intervals import Bounds, Interval
from asc_devkit.npu.numerics import LIMITS, Rounding


class Points:
    """Prepares ``model`` (changed in place) so that every rounding point survives optimisation as a graph output.

    ``known`` gives intervals (by value name) that the graph alone does not show. After ``place``: ``pinned`` are the
    roundings still to be inserted after optimisation, ``placed`` counts those inserted already, ``clamps`` the clamps.
    """

    def __init__(self, model: ir.Model, roundings: Sequence[Rounding], known: Mapping[str, Interval]) -> None:
        self.graph = model.graph
        self.roundings = {r.value: r for r in roundings}
        self.known = known
        self.pinned: list[Rounding] = []
        self.placed = 0
        self.clamps = 0

    def place(self, dumps: Iterable[str]) -> list[str]:
        """Do it; ``dumps`` names the values that can be asked for. Returns the names of the model's own outputs."""
        self._name_nodes()
        own = self._own_outputs()
        top = {v.name or "": v for node in self.graph for v in node.outputs}
        constant = _constant_values(self.graph)
        limits = {r.value: LIMITS[r.dtype] for r in self.roundings.values() if r.saturate}
        bounds = Bounds(self.graph, limits, self.known) if limits else None
        for rounding in self.roundings.values():
            value = top.get(rounding.value)
            if value is None:
                continue
            limit, folded = LIMITS[rounding.dtype], value in constant
            if rounding.saturate and not (bounds is not None and bounds.within(value, limit)):
                value = self._clamp(value, limit)
            if folded:
                self._cast_here(value, rounding.dtype)
            else:
                self.pinned.append(rounding)
                self._pin_source(value)
        self._bodies(self.graph)
        self._pin([*dumps, *(r.value for r in self.pinned)])
        return own

    def _name_nodes(self) -> None:
        """Unique names, so that a node ONNX Runtime complains about can be found."""
        taken: set[str] = set()
        for node in self.graph.all_nodes():
            if not node.name or node.name in taken:
                node.name = f"{node.name or node.op_type}/{len(taken)}"
            taken.add(node.name)

    def _own_outputs(self) -> list[str]:
        """Every output of the model is the output of a node of its own name, each once."""
        names: list[str] = []
        for index, value in enumerate(self.graph.outputs):
            if value.producer() is None or value.name in names:
                node = ir.Node("", "Identity", [value], name=f"{value.name}/output {index}")
                node.outputs[0].name, node.outputs[0].shape = node.name, value.shape
                node.outputs[0].type = value.type
                self.graph.append(node)
                self.graph.outputs[index] = node.outputs[0]
            names.append(self.graph.outputs[index].name or "")
        return names

    def _clamp(self, value: ir.Value, limit: float) -> ir.Value:
        """Clamp ``value`` for all its readers; a Relu or Clip that made it is replaced. Returns the clamped value."""
        self.clamps += 1
        node = value.producer()
        assert node is not None
        low, high, source = -limit, limit, value
        if node.op_type == "Relu" and node.domain == "" and node.inputs[0] is not None:
            low, source = 0.0, node.inputs[0]
        elif node.op_type == "Clip" and node.domain == "" and node.inputs[0] is not None:
            edges = [None if v is None else _scalar(v) for v in (*node.inputs[1:], None, None)[:2]]
            fixed = all(v is None or e is not None for v, e in zip(node.inputs[1:], edges, strict=False))
            floor = max(low, edges[0]) if edges[0] is not None else low
            ceil = min(high, edges[1]) if edges[1] is not None else high
            if fixed and floor <= ceil:
                low, high, source = floor, ceil, node.inputs[0]
        clip = ir.Node("", "Clip", [source, self._number(low), self._number(high)], name=f"{value.name}/clamp")
        _replace(value, [clip])
        if source is not value and node.graph is not None:
            node.graph.remove(node, safe=True)  # a second reader of the source would keep the clamp from being fused
        return clip.outputs[0]

    def _cast_here(self, value: ir.Value, dtype: ir.DataType) -> None:
        self.placed += 1
        _replace(value, cast_pair(value, dtype))

    def _pin_source(self, value: ir.Value) -> None:
        """A view of a value that others read unrounded: keep both apart by pinning the source too."""
        node = value.producer()
        while node is not None and node.op_type in ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast"):
            source = node.inputs[0]
            if source is None or source.producer() is None:
                return
            if len(source.uses()) > 1 and not source.is_graph_output():
                self.graph.outputs.append(source)
                return
            node = source.producer()

    def _bodies(self, graph: ir.Graph) -> None:
        """Inside branches and loop bodies values cannot be pinned: clamp and cast in place."""
        for node in list(graph):
            for attribute in node.attributes.values():
                if attribute.type != ir.AttributeType.GRAPH:
                    continue
                body = attribute.as_graph()
                self._bodies(body)
                for value in [v for inner in body for v in inner.outputs]:
                    rounding = self.roundings.get(value.name or "")
                    if rounding is not None:
                        clamped = self._clamp(value, LIMITS[rounding.dtype]) if rounding.saturate else value
                        self._cast_here(clamped, rounding.dtype)

    def _pin(self, outputs: Iterable[str]) -> None:
        made = {v.name or "": v for node in self.graph for v in node.outputs}
        names = {v.name for v in self.graph.outputs}
        for name in outputs:
            if name in made and name not in names:
                names.add(name)
                self.graph.outputs.append(made[name])

    def _number(self, number: float) -> ir.Value:
        """A scalar constant of the main graph (bodies see it too)."""
        name = f"npu/{number!r}"
        found = self.graph.initializers.get(name)
        if found is None:
            tensor = ir.tensor(np.array(number, np.float32), name=name)
            found = ir.Value(name=name, shape=ir.Shape(()), type=ir.TensorType(tensor.dtype), const_value=tensor)
            self.graph.register_initializer(found)
        return found


def cast_pair(value: ir.Value, dtype: ir.DataType) -> list[ir.Node]:
    """Casts of ``value`` to ``dtype`` and back to fp32, not yet in a graph."""
    down = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], name=f"{value.name}/round")
    half = down.outputs[0]
    half.name, half.shape, half.type = f"{value.name}/half", value.shape, ir.TensorType(dtype)
    up = ir.Node("", "Cast", [half], [ir.AttrInt64("to", int(ir.DataType.FLOAT))], name=f"{value.name}/widen")
    return [down, up]


def _replace(value: ir.Value, chain: list[ir.Node]) -> None:
    """Put ``chain`` behind the producer of ``value``; its last output takes the name and the readers of ``value``."""
    node, result = value.producer(), chain[-1].outputs[0]
    assert node is not None and node.graph is not None
    graph = node.graph
    result.name, value.name = value.name, f"{value.name}/before {chain[-1].op_type}"
    result.shape, result.type = value.shape, value.type
    graph.insert_after(node, chain)
    for user, index in list(value.uses()):
        if user not in chain:
            user.replace_input_with(index, result)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result


def _constant_values(graph: ir.Graph) -> set[ir.Value]:
    """Values that depend on constants only: ONNX Runtime folds them, so they must be rounded before."""
    constant: set[ir.Value] = set()
    for node in graph:
        if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()) or node.op_type.startswith("Random"):
            continue
        if all(v is None or v in constant or (v.producer() is None and v.const_value is not None) for v in node.inputs):
            constant.update(node.outputs)
    return constant


def _scalar(value: ir.Value) -> float | None:
    if value.producer() is not None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))
