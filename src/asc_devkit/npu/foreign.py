"""Which nodes ``onnx.reference`` runs because ONNX Runtime cannot, or computes something else than ONNX defines.

Called by ``rewrite``; nodes for which ONNX Runtime merely lacks a kernel are found there by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import onnx_ir as ir

from asc_devkit.npu.numerics import UNFEEDABLE
from asc_devkit.npu.split import inner_nodes
from asc_devkit.ops.catalogue import PLUGIN_DOMAIN, newer_opset

_DOMAINS: Final = frozenset({"ai.onnx.preview", "ai.onnx.preview.training", PLUGIN_DOMAIN})


def known(graph: ir.Graph) -> set[str]:
    """Names of the top-level nodes that are, or hold, one to be run by ``onnx.reference``.

    When a value of a type that cannot be handed over enters or leaves the model, all nodes that touch such types are.
    """
    strange = any(v.dtype in UNFEEDABLE for v in (*graph.inputs, *graph.outputs))
    return {node.name or "" for node in graph if _is_foreign(node, strange)}


def _is_foreign(node: ir.Node, strange: bool) -> bool:
    every = (node, *inner_nodes(node))
    if any(n.domain in _DOMAINS or newer_opset(n.domain) is not None or _differs(n) for n in every):
        return True
    values = (v for v in (*node.inputs, *node.outputs) if v is not None and v.const_value is None)
    return strange and any(v.dtype in UNFEEDABLE for v in values)


def _differs(node: ir.Node) -> bool:
    asked = _DIFFERENT.get(node.op_type)
    return asked is not None and node.domain == "" and asked(node)


def _trains(node: ir.Node) -> bool:
    """Random numbers of a seeded Dropout: ONNX's examples and reference draw the same ones, ONNX Runtime others."""
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    return mode is not None and (mode.const_value is None or bool(mode.const_value.numpy().any()))


def _has_output_shape(node: ir.Node) -> bool:
    """ONNX Runtime takes the indices as those of the requested shape, ONNX as those of the unpooled one."""
    return len(node.inputs) > 2 and node.inputs[2] is not None


def _of_booleans(node: ir.Node) -> bool:
    """ONNX Runtime has no maximum of no booleans."""
    source = node.inputs[0]
    return source is not None and source.dtype == ir.DataType.BOOL


def _has_zero_points(node: ir.Node) -> bool:
    """ONNX Runtime refuses zero points of another rank than its own."""
    return any(v is not None and v.shape is not None and len(v.shape) for v in node.inputs[2:])


def _always(node: ir.Node) -> bool:
    """ONNX Runtime's twiddle factors are off by 1e-5 of the largest value."""
    return True


_DIFFERENT: Final[Mapping[str, Callable[[ir.Node], bool]]] = {
    "ConvInteger": _has_zero_points,
    "DFT": _always,
    "Dropout": _trains,
    "MaxUnpool": _has_output_shape,
    "ReduceMax": _of_booleans,
    "ReduceMin": _of_booleans,
    "STFT": _always,
}
