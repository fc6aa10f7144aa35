"""The one place that makes ``onnx.reference`` evaluators: with the operators of the user's plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def evaluator(path: Path) -> Any:
    """An evaluator of the saved graph; raises what ``onnx.reference`` raises for operators it does not know."""
    from onnx.reference import ReferenceEvaluator

    from asc_devkit.ops.plugins import execution

    return ReferenceEvaluator(str(path), new_ops=execution.evaluators())
