"""Shapes and dtypes of every value of a model in canonical ONNX form. Entry points: ``infer`` and ``infer_node``."""

from asc_devkit.ops.infer.walk import infer, infer_node

__all__ = ["infer", "infer_node"]
