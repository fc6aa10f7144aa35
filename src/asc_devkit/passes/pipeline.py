"""The order of the passes, and ``optimise``: everything the optimise stage does to a model."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache

import onnx_ir as ir

from asc_devkit.ops.infer import infer
from asc_devkit.passes import (
    activations,
    arithmetic,
    casts,
    convolution,
    dead_code,
    duplicates,
    fold,
    layout,
    matmul,
    no_ops,
    norms,
    padding,
    reshapes,
    selections,
    transposes,
    ub,
)
from asc_devkit.passes.declare import UB, GraphPass, NodePass, Pass
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.engine import run
from asc_devkit.passes.report import FusionReport
from asc_devkit.passes.switches import Switches

MAX_ROUNDS = 4


@dataclass(frozen=True)
class PassContext:
    """What passes may depend on: the user's switches and the chip's full name (None: any chip)."""

    switches: Switches = field(default_factory=Switches)
    soc: str | None = None

    @property
    def ub_fusion(self) -> bool:
        """False on chips without UB fusion (source: fusion_switch_file documentation of CANN: Ascend 950PR/950DT)."""
        return not (self.soc or "").startswith("Ascend950")

    def allows(self, item: Pass) -> bool:
        """True when ``item`` is to run."""
        return self.switches.allows(item) and (item.group != UB or self.ub_fusion)


@lru_cache(maxsize=1)
def all_passes() -> tuple[Pass, ...]:
    """Every pass, in the order of the documentation."""
    return (*_CLEANING, *_COMPOSITES, *_ALGEBRA, *_LAYOUT, *_WHOLE, *_GROUPS)


_CLEANING: tuple[NodePass, ...] = (
    dead_code.CondRemove(),
    fold.ConstantFolding(),
    no_ops.Identity(),
    no_ops.DropOut(),
    no_ops.NoUseReshapeRemove(),
    no_ops.UnchangedTransposeRemove(),
    no_ops.ShapeOperateOpRemove(),
    no_ops.NeutralElement(),
    no_ops.BroadcastExpand(),
    casts.CastRemove(),
    reshapes.ReshapeRemove(),
    transposes.TransOpSymmetryElimination(),
    transposes.Dim1TransposeToSqueeze(),
    transposes.TransposeReshapeFusion(),
    transposes.ReshapeTransposeFusion(),
    transposes.TransposeReduceFusion(),
)
_COMPOSITES: tuple[NodePass, ...] = (
    activations.HardSigmoidFusion(),
    activations.HardSwishFusion(),
    activations.GeluFusion(),
    activations.SoftplusFusion(),
    activations.MishFusion(),
    norms.LayerNormONNXFusion(),
    norms.ReduceMeanFusion(),
    norms.MomentsLayerNormFusion(),
    norms.RmsNormFusion(),
    norms.ReduceL2Fusion(),
    norms.NormalizeFusion(),
    norms.SoftmaxFusion(),
)
_ALGEBRA: tuple[NodePass, ...] = (
    activations.ClipFusion(),
    norms.LayerNormAffineFusion(),
    norms.Globalavgpool(),
    convolution.ConvBatchnormFusion(),
    convolution.ConvTransposeBatchnormFusion(),
    convolution.ConvScaleFusion(),
    convolution.BiasaddConvFusion(),
    convolution.ConvReshapeBiasaddFusion(),
    padding.PadConv2dFusion(),
    padding.PadMaxPoolFusion(),
    matmul.MatMulBiasAddFusion(),
    matmul.GemmTransFusion(),
    arithmetic.ConstChainFusion(),
    convolution.InputScaleConvFusion(),
    selections.SliceMerge(),
    selections.GatherToSlice(),
    selections.SlicesToSplit(),
    selections.SplitConcatRemove(),
    selections.ConcatMerge(),
    selections.StridedSliceConcat(),
)
_GROUPS: tuple[GraphPass, ...] = (
    ub.TbeConvCommonRules2(),
    ub.TbeDepthwiseConvElemwise(),
    ub.ATbeMatmulElemwise(),
    ub.TbeBatchMatmulElementWise(),
    ub.TbeEltwise(),
)
_LAYOUT: tuple[GraphPass, ...] = (layout.PermuteFusion(),)
_WHOLE: tuple[GraphPass, ...] = (
    duplicates.RemoveSameConst(),
    duplicates.CommonSubexpressionElimination(),
    dead_code.Prune(),
)


def optimise(model: ir.Model, context: PassContext | None = None) -> FusionReport:
    """Run all passes the switches allow on ``model`` in place; shapes must have been inferred.

    The result computes the same outputs under the same names (each pass states what may change in the last bits) and
    can be executed by ONNX Runtime.
    """
    context = context or PassContext()
    allowed = [p for p in all_passes() if context.allows(p)]
    report = FusionReport.for_passes(allowed)
    report.ub_fusion = context.ub_fusion
    started = time.perf_counter()
    report.nodes_before = _count(model)
    ed = Editor(model)
    cleaning = [p for p in _CLEANING if p in allowed]
    composites = [p for p in _COMPOSITES if p in allowed]
    algebra = [p for p in _ALGEBRA if p in allowed]
    layouts = [p for p in _LAYOUT if p in allowed]
    whole = [p for p in _WHOLE if p in allowed]
    _whole(whole, ed, report)
    run(cleaning, ed, report)
    if any(c.name == "CondRemovePass" and c.effect_times for c in report.counts):
        infer(model)  # what followed an If of unknown shape may have a shape now
        run(cleaning, ed, report)
    run([*cleaning, *composites], ed, report)
    for _ in range(MAX_ROUNDS):
        before = len(ed.rewrites)
        run([*cleaning, *composites, *algebra], ed, report)
        _whole(layouts, ed, report)
        _whole(whole, ed, report)
        if len(ed.rewrites) == before:
            break
    _whole([p for p in _GROUPS if p in allowed], ed, report)
    report.rewrites = ed.rewrites
    report.nodes_after = _count(model)
    report.seconds = time.perf_counter() - started
    return report


def clean(model: ir.Model) -> None:
    """Only what makes no new operators, in place: folding, no-ops, copies, unused nodes; shapes must have been inferred."""
    ed = Editor(model)
    passes = (*_CLEANING, dead_code.Prune())
    report = FusionReport.for_passes(passes)
    run(_CLEANING, ed, report)
    _whole([dead_code.Prune()], ed, report)


def _whole(passes: list[GraphPass], ed: Editor, report: FusionReport) -> None:
    for item in passes:
        started = time.perf_counter()
        before = len(ed.rewrites)
        for graph in list(ed.model.graphs()):
            item.run(graph, ed)
        count = report.count(item.name)
        count.effect_times += len(ed.rewrites) - before
        count.match_times += len(ed.rewrites) - before
        count.seconds += time.perf_counter() - started


def _count(model: ir.Model) -> int:
    return sum(1 for g in model.graphs() for n in g if n.op_type != "Constant")
