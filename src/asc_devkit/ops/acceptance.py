"""What the real ATC refuses: operators without a parser at their opset, judged by the plug-in table.

The vendor registers each parser under ``domain::opset::type`` for a range of opsets, so a model of opset 20 is refused as
a whole, Conv and Relu included. ``Constant`` is read by the graph engine itself.
Source: ``data/atc_onnx_ops.csv`` (registrations in the public CANN operator repositories).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from asc_devkit.ops import registry
from asc_devkit.ops.registry import ONNX_DOMAINS

#: The newest opset whose parsers are registered for (nearly) all operators.
NEWEST_OPSET: Final = 18
_BUILT_IN: Final = frozenset({"Constant"})


@dataclass(frozen=True)
class OriginalNode:
    """A node as the file has it; ``name`` is that of its first output when it has none, after the functions it is in."""

    domain: str
    op_type: str
    opset: int
    name: str


@dataclass(frozen=True)
class Refused:
    """An operator of a model that the real ATC has no parser for, and the nodes concerned."""

    op_type: str
    domain: str
    opset: int
    nodes: tuple[str, ...]
    reason: str
    hint: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def accepts(op_type: str, domain: str, opset: int) -> bool:
    """Whether the real ATC registers a parser for the operator at ``opset``."""
    if domain in ONNX_DOMAINS and op_type in _BUILT_IN:
        return True
    found = registry.atc_table("ai.onnx" if domain in ONNX_DOMAINS else domain).get(op_type)
    return found is not None and found[0] <= opset <= found[1]


def refused(nodes: Iterable[OriginalNode]) -> list[Refused]:
    """One row per operator and opset that is refused: operators that exist nowhere first, then by name."""
    groups: dict[tuple[str, str, int], list[str]] = {}
    for node in nodes:
        if not accepts(node.op_type, node.domain, node.opset):
            groups.setdefault((node.domain, node.op_type, node.opset), []).append(node.name)
    rows = [_row(domain, op_type, opset, names) for (domain, op_type, opset), names in groups.items()]
    return sorted(rows, key=lambda row: (_known(row) is not None, row.domain, row.op_type))


def _known(row: Refused) -> tuple[int, int] | None:
    return registry.atc_support(row.op_type) if row.domain in ONNX_DOMAINS else None


def _row(domain: str, op_type: str, opset: int, names: list[str]) -> Refused:
    label = "" if domain in ONNX_DOMAINS else domain
    found = None if label else registry.atc_support(op_type)
    if found is not None:
        reason = f"parsers are registered for opset {found[0]} to {found[1]}, the model has opset {opset}"
        hint = f"asc onnx fix writes the model for opset {NEWEST_OPSET}; or export it with that opset"
        if found[1] < NEWEST_OPSET:
            hint = "asc onnx fix writes it with other operators"
        return Refused(op_type, label, opset, tuple(names), reason, hint)
    if not label and op_type in REWRITTEN:
        return Refused(
            op_type, label, opset, tuple(names), "no parser at any opset", f"asc onnx fix: {REWRITTEN[op_type]}"
        )
    why = registry.host_reason(op_type, label)
    reason = "no parser at any opset" if not label else f"no parser for domain {label}"
    return Refused(op_type, label, opset, tuple(names), reason, _without_host(why.hint))


def _without_host(hint: str) -> str:
    """A hint without the way out that the real tool does not have."""
    for tail in (
        "; or --host_ops=true.",
        ", or run it on the host with --host_ops=true.",
        ", or run the node on the host with --host_ops=true.",
    ):
        hint = hint.replace(tail, ".")
    return hint


#: What ``asc onnx fix`` puts in place of operators that have no parser at any opset.
REWRITTEN: Final = {
    "AffineGrid": "MatMul with the grid of base points",
    "Attention": "MatMul, Softmax and MatMul, as ONNX defines it",
    "BlackmanWindow": "arithmetic, as ONNX defines it",
    "CenterCropPad": "Pad and Slice, as ONNX defines it",
    "ConvInteger": "float32 convolutions whose sums are exact",
    "DFT": "MatMul with the Fourier basis",
    "DequantizeLinear": "Cast, Sub and Mul",
    "DynamicQuantizeLinear": "ReduceMin, ReduceMax and arithmetic, as ONNX defines it",
    "Gelu": "Erf or Tanh and arithmetic, as ONNX defines it",
    "GroupNormalization": "Reshape, mean and variance, as ONNX defines it",
    "HammingWindow": "arithmetic, as ONNX defines it",
    "HannWindow": "arithmetic, as ONNX defines it",
    "Loop": "its body once per round, when the number of rounds is fixed",
    "MatMulInteger": "float32 MatMuls whose sums are exact",
    "MelWeightMatrix": "a constant, when its inputs are constants",
    "NegativeLogLikelihoodLoss": "GatherElements and arithmetic, as ONNX defines it",
    "Optional": "the value itself",
    "OptionalGetElement": "the value itself",
    "OptionalHasElement": "a constant",
    "QLinearConv": "float32 convolutions whose sums are exact, scaled and rounded",
    "QLinearMatMul": "float32 MatMuls whose sums are exact, scaled and rounded",
    "QuantizeLinear": "Div, Round, Add, Clip and Cast",
    "RMSNormalization": "mean of squares and arithmetic, as ONNX defines it",
    "RNN": "MatMul and Tanh step by step, when the number of steps is fixed",
    "ReduceL1": "Abs and ReduceSum",
    "ReduceL2": "Mul, ReduceSum and Sqrt",
    "RotaryEmbedding": "Mul, Sub, Add and Concat, as ONNX defines it",
    "Scan": "its body once per element, when their number is fixed",
    "SwiGLU": "Sigmoid and Mul",
    "Swish": "Sigmoid and Mul",
}
