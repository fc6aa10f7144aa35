"""From an fp32 ONNX graph and its rounding points to graphs that ONNX Runtime executes with the device's numerics.

1. Clamp values that saturate, then declare every rounding point and every value that may be dumped as a graph
   output (``points``): ONNX Runtime then fuses nothing across them, but still fuses the clamp into the convolution.
2. ONNX Runtime optimises for this CPU and saves the graph, blocked convolution kernels included.
3. In the saved graph each rounding point gets fp32 -> 16 bit -> fp32 casts, on the blocked tensor where there is one.
4. The *run* graph keeps only what the model's outputs need, the *dump* graph adds outputs: both run the same nodes.

Both are loaded with optimisation off. Nodes without a kernel are cut out (``split``) and run by ``onnx.reference``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import ort
from asc_devkit.npu.intervals import Interval
from asc_devkit.npu.numerics import Rounding, rounded
from asc_devkit.npu.points import Points, cast_pair
from asc_devkit.npu.split import Piece, owner, split

_SOURCE: Final = "source"
#: Nodes that only move elements: rounding before them equals rounding after them.
MOVES: Final = frozenset(
    {"ReorderOutput", "ReorderInput", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"}
)
#: Domains of operators that ONNX Runtime or onnx.reference know.
DOMAINS: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"})
MAX_CUTS: Final = 4096


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


@dataclass(frozen=True)
class Executable:
    """Steps in order, names of the model's outputs in the graph, and how many roundings and clamps were inserted."""

    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    roundings: int
    clamps: int


def build(
    model: ir.Model,
    roundings: Sequence[Rounding],
    dumps: Mapping[str, ir.DataType],
    folder: Path,
    known: Mapping[str, Interval] | None = None,
    inputs: Mapping[str, ir.DataType] | None = None,
    outputs: Sequence[ir.DataType] | None = None,
) -> Executable:
    """Write the executable graphs and their weights into ``folder``. ``model`` is changed.

    ``dumps``: every value that can be asked for, with its device dtype. ``inputs``, ``outputs``: device dtypes of the
    model's inputs by name and of its outputs in order, where they are not those of the graph. Raises ``AscError`` when
    neither ONNX Runtime nor ``onnx.reference`` can run a node.
    """
    strangers = [n for n in model.graph.all_nodes() if n.domain not in DOMAINS]
    if strangers:
        raise AscError([_unrunnable(n.op_type, n.name or "") for n in strangers])
    points = Points(model, roundings, known or {})
    own = points.place(dumps)
    dtypes = {**dumps, **dict(zip(own, outputs or (), strict=False))}
    source = folder / f"{_SOURCE}.onnx"
    ir.save(model, source, external_data=f"{_SOURCE}.bin", size_threshold_bytes=256)
    job = _Job(folder, own, inputs or {}, dtypes, {r.value: r for r in points.pinned}, frozenset(dumps))
    foreign: set[str] = set()
    while True:
        try:
            steps = job.steps(source, foreign)
            break
        except _NoKernel as missing:
            found = {missing.node} if missing.node else job.without_kernel(source)
            if found <= foreign or len(foreign) >= MAX_CUTS:
                raise AscError(_unrunnable(missing.op_type, missing.node)) from None
            foreign |= found
    for name in (source.name, f"{_SOURCE}.bin"):
        (folder / name).unlink(missing_ok=True)
    return Executable(tuple(steps), tuple(own), len(points.pinned) + points.placed, points.clamps)


class _NoKernel(Exception):
    def __init__(self, op_type: str, node: str) -> None:
        super().__init__(node)
        self.op_type, self.node = op_type, node


@dataclass(frozen=True)
class _Job:
    folder: Path
    own: Sequence[str]
    inputs: Mapping[str, ir.DataType]
    dtypes: Mapping[str, ir.DataType]
    pinned: Mapping[str, Rounding]
    dumps: frozenset[str]

    def steps(self, source: Path, foreign: set[str]) -> list[Step]:
        if not foreign:
            return [self._ordinary(source, 0, (), None)]
        steps = []
        whole = ir.load(source)
        for index, piece in enumerate(split(whole, foreign)):
            if piece.foreign:
                steps.append(self._foreign(piece, index))
                continue
            path = self.folder / f"{_SOURCE}{index}.onnx"
            onnx.save(ir.to_proto(piece.model), path)
            steps.append(self._ordinary(path, index, piece.passes, piece))
            path.unlink()
        return steps

    def without_kernel(self, source: Path) -> set[str]:
        """Nodes that ONNX Runtime refuses one by one: asked when its error names a node it made itself by inlining."""
        whole = ir.load(source)
        path = self.folder / "probe.onnx"
        refused: dict[object, bool] = {}
        found: set[str] = set()
        for piece in split(whole, {n.name or "" for n in whole.graph}):
            (node,) = piece.model.graph
            kind = (node.domain, node.op_type, tuple(None if v is None else v.dtype for v in node.inputs))
            if kind not in refused:
                onnx.save(ir.to_proto(piece.model), path)
                refused[kind] = not ort.has_kernels(path)
                path.unlink()
            if refused[kind]:
                found.add(node.name or "")
        return found

    def _ordinary(self, source: Path, index: int, passes: tuple[str, ...], piece: Piece | None) -> Step:
        optimised = self.folder / f"optimised{index}.onnx"
        try:
            ort.optimise(source, optimised, f"{index}.weights")
        except Exception as error:
            raise self._explain(error, source) from error
        rewriter = _Rewriter(ir.load(optimised), self.inputs, self.dtypes)
        optimised.unlink()
        for name, rounding in self.pinned.items():
            if name in rewriter.outputs:
                rewriter.round(rounding)
        return rewriter.write(self.folder, index, passes, self.own, self.dumps)

    def _foreign(self, piece: Piece, index: int) -> Step:
        name = f"{index}.reference.onnx"
        (node,) = piece.model.graph
        for value in piece.model.graph.initializers.values():
            if value.const_value is not None:
                value.const_value = ir.tensor(value.const_value.numpy(), name=value.name)
        onnx.save(ir.to_proto(piece.model), self.folder / name)
        _check_reference(self.folder / name, node)
        made = [v.name or "" for v in piece.model.graph.outputs]
        return Step(
            run=name,
            dump=name,
            inputs=tuple(v.name or "" for v in piece.model.graph.inputs),
            passes=piece.passes,
            own={n: n for n in made if n in self.own},
            dumps={n: n for n in made if n in self.dumps},
            foreign=node.op_type,
            roundings={n: (self.pinned[n].dtype.name, self.pinned[n].saturate) for n in made if n in self.pinned},
        )

    def _explain(self, error: Exception, source: Path) -> Exception:
        missing = ort.missing_kernel(error)
        if missing is None:
            return AscError(
                Problem(
                    "ASC4001",
                    "The model cannot be executed on the virtual NPU.",
                    cause=f"ONNX Runtime {ort.version()} refuses the lowered graph: {ort.reason(error)}",
                    fix="Convert the original model again; if that does not help, report it with the model.",
                )
            )
        graph = ir.from_proto(onnx.load(source, load_external_data=False)).graph
        return _NoKernel(missing[0], owner(graph, missing[1]))


class _Rewriter:
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
        self._drop_copies()
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

    def _drop_copies(self) -> None:
        """Nodes that only copy were needed while their results were outputs; now both names mean one tensor."""
        for node in list(self.graph):
            if len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
                continue
            source, copy = node.inputs[0], node.outputs[0]
            same_cast = node.op_type == "Cast" and source.dtype is not None and source.dtype == copy.dtype
            if node.domain or not (node.op_type == "Identity" or same_cast) or source.producer() is None:
                continue
            if copy.is_graph_output() or any(user.graph is not self.graph for user, _ in copy.uses()):
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


def _check_reference(path: Path, node: ir.Node) -> None:
    from onnx.reference import ReferenceEvaluator

    try:
        ReferenceEvaluator(str(path))
    except Exception as error:
        raise AscError(_unrunnable(node.op_type, node.name or "", str(error))) from error


def _unrunnable(op_type: str, node: str, why: str = "") -> Problem:
    return Problem(
        "ASC4002",
        f"Operator {op_type} ({node}) cannot be executed on the virtual NPU.",
        cause=f"ONNX Runtime {ort.version()} has no kernel for it and onnx.reference cannot run it. {why[:300]}".strip(),
        fix="Cut the operator out of the model (--out_nodes) or replace it.",
        nodes=(node,),
    )
