"""The operator catalogue: what the toolkit knows about each operator, and conversion ONNX <-> GE with it.

``lookup`` (GE), ``lookup_onnx``, ``all_ge``, ``all_onnx``, ``atc_support``; ``convert.to_ge`` and ``convert.to_onnx``.
Shape inference is in ``ops.infer``, evaluation of one node in ``ops.evaluate``.
``operator`` and ``plugins``: operators that users add.
"""

from asc_devkit.ops import convert, families, plugins
from asc_devkit.ops.catalogue import CANONICAL_OPSET, Cost, GeOp, Mix, OnnxOp
from asc_devkit.ops.plugins import TensorType, operator
from asc_devkit.ops.registry import all_ge, all_onnx, atc_support, lookup, lookup_onnx

__all__ = [
    "CANONICAL_OPSET",
    "Cost",
    "GeOp",
    "Mix",
    "OnnxOp",
    "TensorType",
    "all_ge",
    "all_onnx",
    "atc_support",
    "convert",
    "families",
    "lookup",
    "lookup_onnx",
    "operator",
    "plugins",
]
