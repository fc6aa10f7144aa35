"""From an fp32 ONNX graph and its rounding points to graphs that ONNX Runtime executes with the device's numerics.

1. Clamp values that saturate, then declare every rounding point and every value that may be dumped as a graph
   output: ONNX Runtime then fuses nothing across them, but still fuses the clamp into the convolution before it.
2. ONNX Runtime optimises for this CPU and saves the graph (blocked convolution kernels included).
3. In the saved graph each rounding point gets fp32 -> 16 bit -> fp32 casts, on the blocked tensor where there is one.
4. ``run.onnx`` keeps only what the model's outputs need, ``dump.onnx`` adds outputs: both run the same nodes.

Both files are loaded with optimisation off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.npu import ort
from asc_devkit.npu.intervals import Bounds
from asc_devkit.npu.numerics import LIMITS, Rounding, rounded

RUN: Final = "run.onnx"
DUMP: Final = "dump.onnx"
WEIGHTS: Final = "weights.bin"
_SOURCE, _SOURCE_WEIGHTS, _OPTIMISED = "source.onnx", "source.bin", "optimised.onnx"
#: Nodes that only move elements: rounding before them equals rounding after them.
MOVES: Final = frozenset(
    {"ReorderOutput", "ReorderInput", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"}
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What was inserted: shown in ``Session.info``."""

    roundings: int
    clamps: int


def build(model: ir.Model, roundings: Sequence[Rounding], outputs: Mapping[str, ir.DataType], folder: Path) -> Counts:
    """Write ``run.onnx``, ``dump.onnx`` and their weights into ``folder``. ``model`` is changed.

    ``outputs``: every value that can be asked for (name -> device dtype), the model's own outputs included.
    """
    points = _Points(model, roundings)
    points.place(outputs)
    _save(model, folder / _SOURCE, _SOURCE_WEIGHTS)
    own = [v.name or "" for v in points.own_outputs]
    ort.optimise(folder / _SOURCE, folder / _OPTIMISED, WEIGHTS)
    optimised = ir.load(folder / _OPTIMISED)
    rewriter = _Rewriter(optimised, outputs)
    for rounding in points.pinned:
        rewriter.round(rounding)
    rewriter.write([n for n in outputs if n not in own], own, folder)
    for name in (_SOURCE, _SOURCE_WEIGHTS, _OPTIMISED):
        (folder / name).unlink(missing_ok=True)
    return Counts(len(points.pinned) + points.placed, points.clamps)


def _save(model: ir.Model, path: Path, weights: str) -> None:
    ir.save(model, path, external_data=weights, size_threshold_bytes=256)


class _Points:
    """Rounding points in the graph before optimisation."""

    def __init__(self, model: ir.Model, roundings: Sequence[Rounding]) -> None:
        self.graph = model.graph
        self.own_outputs = list(model.graph.outputs)
        self.roundings = {r.value: r for r in roundings}
        self.pinned: list[Rounding] = []
        self.clamps = 0
        self.placed = 0

    def place(self, outputs: Iterable[str]) -> None:
        top = {v.name or "": v for node in self.graph for v in node.outputs}
        constant = _constant_values(self.graph)
        limits = {r.value: LIMITS[r.dtype] for r in self.roundings.values() if r.saturate}
        bounds = Bounds(self.graph, limits) if limits else None
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
        self._bodies(self.graph)
        self._pin(outputs)

    def _clamp(self, value: ir.Value, limit: float) -> ir.Value:
        """Clamp ``value`` for all its readers; a Relu or Clip that made it is replaced. Returns the clamped value."""
        self.clamps += 1
        node = value.producer()
        assert node is not None and node.graph is not None
        low, high, source = -limit, limit, None
        if node.op_type == "Relu" and node.domain == "":
            low, source = 0.0, node.inputs[0]
        elif node.op_type == "Clip" and node.domain == "":
            edges = [_scalar(v) for v in node.inputs[1:]]
            if None not in edges:
                low = max([low, *(e for e in edges[:1] if e is not None)])
                high = min([high, *(e for e in edges[1:2] if e is not None)])
                source = node.inputs[0] if low <= high else None
        if source is None:
            low, high, source = -limit, limit, value
        edges_in = [self._constant(low), self._constant(high)]
        clip = ir.Node("", "Clip", [source, *edges_in], name=f"{value.name}/clamp")
        result = clip.outputs[0]
        self._insert_after(node, clip, value, result)
        return result

    def _cast_here(self, value: ir.Value, dtype: ir.DataType) -> None:
        self.placed += 1
        node = value.producer()
        assert node is not None
        down = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], name=f"{value.name}/round")
        down.outputs[0].name = f"{value.name}/half"
        up = ir.Node("", "Cast", [down.outputs[0]], [ir.AttrInt64("to", int(ir.DataType.FLOAT))])
        up.name = f"{value.name}/widen"
        self._insert_after(node, up, value, up.outputs[0], before=down)

    def _insert_after(
        self, node: ir.Node, new: ir.Node, value: ir.Value, result: ir.Value, before: ir.Node | None = None
    ) -> None:
        """Let ``result`` of ``new`` take the place and the name of ``value``."""
        graph = node.graph
        assert graph is not None
        result.name, value.name = value.name, f"{value.name}/before {new.op_type}"
        result.shape, result.type = value.shape, value.type
        nodes = [n for n in (before, new) if n is not None]
        graph.insert_after(node, nodes)
        for user, index in list(value.uses()):
            if user not in nodes:
                user.replace_input_with(index, result)
        for outputs in (graph.outputs, self.own_outputs):
            for index, output in enumerate(outputs):
                if output is value:
                    outputs[index] = result

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
        for name in (*outputs, *(r.value for r in self.pinned)):
            if name in made and name not in names:
                names.add(name)
                self.graph.outputs.append(made[name])

    def _constant(self, number: float) -> ir.Value:
        name = f"asc_npu/{number!r}"
        found = self.graph.initializers.get(name)
        if found is None:
            tensor = ir.tensor(np.float32(number), name=name)
            found = ir.Value(name=name, shape=ir.Shape(()), type=ir.TensorType(tensor.dtype), const_value=tensor)
            self.graph.register_initializer(found)
        return found


class _Rewriter:
    """Rounding points in the graph that ONNX Runtime saved."""

    def __init__(self, model: ir.Model, outputs: Mapping[str, ir.DataType]) -> None:
        self.model, self.graph, self.dtypes = model, model.graph, outputs
        self.by_name = {v.name or "": v for node in self.graph for v in node.outputs}
        self.outputs = {v.name or "": v for v in self.graph.outputs}
        self.halves: dict[ir.Value, ir.Value] = {}  # rounded fp32 value -> its 16-bit form

    def round(self, rounding: Rounding) -> None:
        value = self.outputs[rounding.value]
        node = value.producer()
        if node is None:
            if value.const_value is not None:
                array = rounded(value.const_value.numpy(), rounding.dtype, rounding.saturate)
                value.const_value = ir.tensor(array, name=value.name)
            return
        while node.op_type in MOVES:
            source = node.inputs[0]
            above = None if source is None else source.producer()
            if source is None or above is None or source.name in self.outputs:
                break
            value, node = source, above
        if value in self.halves:
            return
        raw_name = f"{value.name}/exact"
        down = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(rounding.dtype))], name=f"{value.name}/round")
        half = down.outputs[0]
        half.name, half.shape, half.type = f"{value.name}/half", value.shape, ir.TensorType(rounding.dtype)
        up = ir.Node("", "Cast", [half], [ir.AttrInt64("to", int(ir.DataType.FLOAT))], name=f"{value.name}/widen")
        wide = up.outputs[0]
        wide.name, wide.shape, wide.type = value.name, value.shape, value.type
        value.name = raw_name
        self.graph.insert_after(node, [down, up])
        for user, index in list(value.uses()):
            if user is not down:
                user.replace_input_with(index, wide)
        if wide.name in self.outputs:
            self.outputs[wide.name] = wide
        self.halves[wide] = half

    def write(self, dumps: Sequence[str], own: Sequence[str], folder: Path) -> None:
        """Save the graph twice: with the model's outputs only, and with everything that can be dumped."""
        produced = {name: self._device_form(name) for name in (*own, *dumps) if name in self.outputs}
        self._write([produced[n] for n in own], folder / DUMP, [produced[n] for n in dumps if n in produced])
        self._write([produced[n] for n in own], folder / RUN, [])

    def _device_form(self, name: str) -> ir.Value:
        """The output called ``name`` in its device dtype; 16-bit values come from the rounding cast where possible."""
        value = self.outputs[name]
        dtype = self.dtypes.get(name)
        if dtype not in LIMITS or dtype is None:
            return value
        half = self.halves.get(value)
        if half is None or half.dtype != dtype:
            node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], name=f"{name}/store")
            half = node.outputs[0]
            half.shape, half.type = value.shape, ir.TensorType(dtype)
            self.graph.append(node)
        return half

    def _write(self, own: list[ir.Value], path: Path, dumps: list[ir.Value]) -> None:
        del self.graph.outputs[:]
        self.graph.outputs.extend([*own, *dumps])
        _drop_dead(self.graph)
        onnx.save(ir.to_proto(self.model), path)


def _drop_dead(graph: ir.Graph) -> None:
    for node in reversed(list(graph)):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


def _constant_values(graph: ir.Graph) -> set[ir.Value]:
    """Values that depend on constants only: ONNX Runtime folds them, so they must be rounded before."""
    constant: set[ir.Value] = set()
    for node in graph:
        if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()) or node.op_type.startswith("Random"):
            continue
        if all(v is None or v in constant or (v.producer() is None and v.const_value is not None) for v in node.inputs):
            constant.update(node.outputs)
    return constant


def _scalar(value: ir.Value | None) -> float | None:
    if value is None or value.producer() is not None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))
