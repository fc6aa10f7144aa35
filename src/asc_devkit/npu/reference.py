"""The one place that makes ``onnx.reference`` evaluators: with the operators of the user's plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx


def evaluator(graph: Path | onnx.ModelProto) -> Any:
    """An evaluator of a graph, saved or in memory; raises what ``onnx.reference`` raises for operators it does not know."""
    from onnx.reference import ReferenceEvaluator

    from asc_devkit.ops.plugins import execution

    return ReferenceEvaluator(str(graph) if isinstance(graph, Path) else graph, new_ops=execution.evaluators())
