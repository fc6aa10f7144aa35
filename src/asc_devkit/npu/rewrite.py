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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu import foreign as foreign_nodes
from asc_devkit.npu import ort, reference
from asc_devkit.npu.casts import OptimisedGraph, Step
from asc_devkit.npu.intervals import Interval
from asc_devkit.npu.numerics import Rounding
from asc_devkit.npu.points import Points
from asc_devkit.npu.split import Piece, inner_nodes, owner, split
from asc_devkit.ops.catalogue import PLUGIN_DOMAIN, newer_opset

_SOURCE: Final = "source"
#: Domains of operators that ONNX Runtime or onnx.reference know.
DOMAINS: Final = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft", PLUGIN_DOMAIN}
)
MAX_CUTS: Final = 4096


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
    strangers = [n for n in model.graph.all_nodes() if n.domain not in DOMAINS and newer_opset(n.domain) is None]
    if strangers:
        raise AscError([_unrunnable(n.op_type, n.name or "") for n in strangers])
    points = Points(model, roundings, known or {})
    own = points.place(dumps)
    dtypes = {**dumps, **dict(zip(own, outputs or (), strict=False))}
    source = folder / f"{_SOURCE}.onnx"
    ir.save(model, source, external_data=f"{_SOURCE}.bin", size_threshold_bytes=256)
    job = _Job(folder, own, inputs or {}, dtypes, {r.value: r for r in points.pinned}, frozenset(dumps))
    foreign = foreign_nodes.known(model.graph)
    while True:
        try:
            steps = job.steps(source, foreign)
            break
        except _NoKernel as missing:
            found = {missing.node} if missing.node else job.without_kernel(source)
            if found <= foreign or len(foreign) >= MAX_CUTS:
                raise AscError(missing.problem or _unrunnable(missing.op_type, missing.node)) from None
            foreign |= found
    for name in (source.name, f"{_SOURCE}.bin"):
        (folder / name).unlink(missing_ok=True)
    return Executable(tuple(steps), tuple(own), len(points.pinned) + points.placed, points.clamps)


class _NoKernel(Exception):
    def __init__(self, op_type: str, node: str, problem: Problem | None = None) -> None:
        super().__init__(node)
        self.op_type, self.node, self.problem = op_type, node, problem


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
            return [self._ordinary(source, 0, ())]
        steps = []
        whole = ir.load(source)
        for index, piece in enumerate(split(whole, foreign)):
            if piece.foreign:
                steps.append(self._foreign(piece, index))
                continue
            path = self.folder / f"{_SOURCE}{index}.onnx"
            onnx.save(ir.to_proto(piece.model), path)
            steps.append(self._ordinary(path, index, piece.passes))
            path.unlink()
        return steps

    def without_kernel(self, source: Path) -> set[str]:
        """Nodes that ONNX Runtime refuses one by one: asked when its error names a node it made itself by inlining."""
        whole = ir.load(source)
        path = self.folder / "probe.onnx"
        refused: dict[object, bool] = {}
        found: set[str] = set()
        for piece in split(whole, {n.name or "" for n in whole.graph}):
            node = next(iter(piece.model.graph), None)
            if node is None:  # outputs that are inputs leave a piece without work
                continue
            kind = (node.domain, node.op_type, tuple(None if v is None else v.dtype for v in node.inputs))
            if kind not in refused:
                onnx.save(ir.to_proto(piece.model), path)
                refused[kind] = not ort.accepts(path)
                path.unlink()
            if refused[kind]:
                found.add(node.name or "")
        return found

    def _ordinary(self, source: Path, index: int, passes: tuple[str, ...]) -> Step:
        optimised = self.folder / f"optimised{index}.onnx"
        try:
            ort.optimise(source, optimised, f"{index}.weights")
        except Exception as error:
            raise self._explain(error, source) from error
        graph = OptimisedGraph(ir.load(optimised), self.inputs, self.dtypes)
        optimised.unlink()
        for name, rounding in self.pinned.items():
            if name in graph.outputs:
                graph.round(rounding)
        return graph.write(self.folder, index, passes, self.own, self.dumps)

    def _foreign(self, piece: Piece, index: int) -> Step:
        name = f"{index}.reference.onnx"
        ir.external_data.load_to_model(piece.model)  # the file its weights lie in goes when all pieces are made
        (node,) = piece.model.graph
        _as_standard(piece.model, node)
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
            problem = Problem(
                "ASC4001",
                "The model cannot be executed on the virtual NPU.",
                cause=f"ONNX Runtime {ort.version()} refuses the lowered graph: {ort.reason(error)}",
                fix="Convert the original model again; if that does not help, report it with the model.",
            )
            return _NoKernel("", "", problem)
        graph = ir.from_proto(onnx.load(source, load_external_data=False)).graph
        return _NoKernel(missing[0], owner(graph, missing[1]))


def _as_standard(model: ir.Model, node: ir.Node) -> None:
    """A newer form gets the standard domain back, with its own opset."""
    opsets = [newer_opset(inner.domain) for inner in (node, *inner_nodes(node))]
    newest = max((opset for opset in opsets if opset is not None), default=None)
    if newest is not None:
        model.graph.opset_imports[""] = newest
        for inner in (node, *inner_nodes(node)):
            if newer_opset(inner.domain) is not None:
                inner.domain = ""


def _check_reference(path: Path, node: ir.Node) -> None:
    try:
        reference.evaluator(path)
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
