"""Rounding casts in the graph that ONNX Runtime has optimised and saved, and the two graphs written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from asc_devkit.npu.numerics import Rounding, rounded
from asc_devkit.npu.points import cast_pair

#: Nodes that only move elements: rounding before them equals rounding after them.
MOVES: Final = frozenset(
    {"ReorderOutput", "ReorderInput", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"}
)


@dataclass(frozen=True)
class Step:
    """One piece of the executable: files in the cache folder, values it reads and gives.

    ``run`` and ``dump`` are graph files (the same when nothing can be dumped). ``passes`` are given in fp32 under their
    own names; ``own`` (outputs of the model) and ``dumps`` map value names to the graph's output names, which deliver
    fp16 as fp16. ``foreign`` pieces are run by ``onnx.reference``; their results are then rounded as ``roundings`` say
    (value -> (dtype, saturate)).
    """

    run: str
    dump: str
    inputs: tuple[str, ...]
    passes: tuple[str, ...] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    dumps: Mapping[str, str] = field(default_factory=dict)
    foreign: str = ""
    roundings: Mapping[str, tuple[str, bool]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class OptimisedGraph:
    """Rounding points in a graph that ONNX Runtime saved."""

    def __init__(self, model: ir.Model, inputs: Mapping[str, ir.DataType], dtypes: Mapping[str, ir.DataType]) -> None:
        self.model, self.graph, self.inputs, self.dtypes = model, model.graph, inputs, dtypes
        self.outputs = {v.name or "": v for v in self.graph.outputs}
        self.stored: dict[str, ir.Value] = {}
        self.halves: dict[ir.Value, ir.Value] = {}  # rounded fp32 value -> its 16-bit form

    def round(self, rounding: Rounding) -> None:
        """Round the value, at the blocked or untransposed tensor it is a view of."""
        value = self.outputs[rounding.value]
        node = value.producer()
        if node is None:
            if value.const_value is not None:  # folded although it did not look constant
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
        chain = cast_pair(value, rounding.dtype)
        wide = chain[-1].outputs[0]
        wide.name, wide.shape, wide.type = value.name, value.shape, value.type
        value.name = f"{value.name}/exact"
        self.graph.insert_after(node, chain)
        for user, index in list(value.uses()):
            if user is not chain[0]:
                user.replace_input_with(index, wide)
        if wide.name in self.outputs:
            self.outputs[wide.name] = wide
        self.halves[wide] = chain[0].outputs[0]

    def write(self, folder: Path, index: int, passes: Sequence[str], own: Sequence[str], dumps: frozenset[str]) -> Step:
        """Save the graph with the outputs of the model only, and with everything that can be dumped."""
        self.graph.outputs.clear()
        self._device_inputs()
        self._drop_copies(passes)
        here = [n for n in own if n in self.outputs]
        wide = {n: self.outputs[n] for n in passes}
        kept = {n: self._device_form(n) for n in here}
        extra = {n: self._device_form(n) for n in self.outputs if n in dumps}
        run, dump = f"{index}.run.onnx", f"{index}.dump.onnx"
        every = _unique([*wide.values(), *kept.values()])
        self._save(folder / dump, _unique([*every, *extra.values()]))
        self._save(folder / run, every)
        return Step(
            run=run,
            dump=dump,
            inputs=tuple(v.name or "" for v in self.graph.inputs),
            passes=tuple(passes),
            own={n: v.name or "" for n, v in kept.items()},
            dumps={n: v.name or "" for n, v in extra.items()},
        )

    def _drop_copies(self, passes: Sequence[str]) -> None:
        """Nodes that only copy were needed while their results were outputs; now both names mean one tensor.

        Those in ``passes`` stay: other pieces read them by name.
        """
        for node in list(self.graph):
            if len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
                continue
            source, copy = node.inputs[0], node.outputs[0]
            same_cast = node.op_type == "Cast" and source.dtype is not None and source.dtype == copy.dtype
            if node.domain or not (node.op_type == "Identity" or same_cast) or source.producer() is None:
                continue
            if copy.name in passes or copy.is_graph_output():
                continue
            if any(user.graph is not self.graph for user, _ in copy.uses()):
                continue  # read inside a body
            for user, index in list(copy.uses()):
                user.replace_input_with(index, source)
            for name, value in self.outputs.items():
                if value is copy:
                    self.outputs[name] = source
            self.graph.remove(node, safe=True)

    def _device_inputs(self) -> None:
        """Inputs that the device holds in fp16 enter as fp16."""
        for position, value in enumerate(list(self.graph.inputs)):
            if self.inputs.get(value.name or "") != ir.DataType.FLOAT16 or value.dtype != ir.DataType.FLOAT:
                continue
            entry = ir.Value(name=value.name, shape=value.shape, type=ir.TensorType(ir.DataType.FLOAT16))
            node = ir.Node("", "Cast", [entry], [ir.AttrInt64("to", int(ir.DataType.FLOAT))], name=f"{value.name}/load")
            wide = node.outputs[0]
            wide.name, wide.shape, wide.type = node.name, value.shape, value.type
            self.graph.inputs[position] = entry
            for user, index in list(value.uses()):
                user.replace_input_with(index, wide)
            first = next(iter(self.graph), None)
            if first is None:
                self.graph.append(node)
            else:
                self.graph.insert_before(first, node)

    def _device_form(self, name: str) -> ir.Value:
        """The value called ``name`` as delivered: fp16 as fp16 (bfloat16, which numpy lacks, stays rounded fp32)."""
        value = self.outputs[name]
        if self.dtypes.get(name) != ir.DataType.FLOAT16 or value.dtype != ir.DataType.FLOAT:
            return value
        half = self.halves.get(value) or self.stored.get(name)
        if half is None:
            to_half = [ir.AttrInt64("to", int(ir.DataType.FLOAT16))]
            node = ir.Node("", "Cast", [value], to_half, name=f"{name}/store")
            half = self.stored[name] = node.outputs[0]
            half.name, half.shape, half.type = node.name, value.shape, ir.TensorType(ir.DataType.FLOAT16)
            self.graph.append(node)
        return half

    def _save(self, path: Path, outputs: Sequence[ir.Value]) -> None:
        self.graph.outputs.clear()
        self.graph.outputs.extend(outputs)
        _drop_dead(self.graph)
        onnx.save(ir.to_proto(self.model), path)


def _unique(values: Sequence[ir.Value]) -> list[ir.Value]:
    return list(dict.fromkeys(values))


def _drop_dead(graph: ir.Graph) -> None:
    for node in reversed(list(graph)):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
