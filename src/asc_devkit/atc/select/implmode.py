"""``--op_select_implmode``: which implementation the operators choose that have two.

The mode is stored on the node (`meta[IMPL_MODE]`, `_op_impl_mode_enum` in the `.om`). Execution computes the inner steps of
either in fp32, as ``high_precision`` does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx_ir as ir

from asc_devkit.ge.desc import GE_DOMAIN, IMPL_MODE

# Operators with both implementations, by the public list of kernels with an impl_mode.
TWO_IMPLEMENTATIONS: Final = frozenset(
    {"SoftmaxV2", "LogSoftmaxV2", "Exp", "Sigmoid", "Tanh", "Gelu", "GeluV2", "Erf", "Swish", "LayerNormV3", "Pow", "Log",
     "Softplus", "Mish", "Reciprocal", "Rsqrt", "RealDiv"}
)  # fmt: skip


def apply(model: ir.Model, mode: str, op_types: Collection[str] = ()) -> int:
    """Set the mode on every operator it applies to (all with two implementations, or ``op_types``); returns the count."""
    plain = mode.removesuffix("_for_all")
    chosen = 0
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain != GE_DOMAIN or node.op_type not in TWO_IMPLEMENTATIONS:
            continue
        if op_types and node.op_type not in op_types:
            continue
        node.meta[IMPL_MODE] = plain
        chosen += 1
    return chosen
