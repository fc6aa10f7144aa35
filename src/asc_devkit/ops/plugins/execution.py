"""Computing a custom operator with its plugin's function, inside ``onnx.reference``; called by ``npu``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.ops.catalogue import PLUGIN_DOMAIN
from asc_devkit.ops.plugins import faults
from asc_devkit.ops.plugins.declare import Array, CustomOperator, TensorType
from asc_devkit.ops.plugins.entries import PREFIX, all_custom

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


def compute(op: CustomOperator, inputs: Sequence[Array | None], attrs: dict[str, Any]) -> tuple[Array, ...]:
    """Outputs of one call in their inferred element types.

    Raises ``AscError`` with the plugin's file and line when its function fails, or returns another number of outputs or
    other shapes than its shape inference promised.
    """
    keywords = op.attributes(attrs)
    with faults.reported(op, "", "its function"):
        given = [None if x is None else _handed(x, op) for x in inputs]
        made = op.function(*given, **keywords)
        results = tuple(_taken(r) for r in (made if isinstance(made, (tuple, list)) else (made,)))
    types = [None if x is None else TensorType(x.shape, x.dtype) for x in inputs]
    with faults.reported(op, "", "its shape inference"):
        promised = op.output_types(types, keywords)
    if len(results) != len(promised) or any(r.shape != p.shape for r, p in zip(results, promised, strict=True)):
        raise AscError(
            Problem(
                "ASC2012",
                f"Custom operator {op.onnx_name}: its function returned shapes {[list(r.shape) for r in results]}, its "
                f"shape inference promised {[list(p.shape) for p in promised]}.",
                cause="Memory and the operators behind it are planned with the promised shapes.",
                fix=f"Correct the function or its @....infer in {op.file} (line {op.line}).",
                nodes=(f"{op.file}, line {op.line}",),
                seed_class="EE2001",
            )
        )
    return tuple(r.astype(p.dtype, copy=False) for r, p in zip(results, promised, strict=True))


def evaluators() -> list[type[OpRun]]:
    """What ``onnx.reference.ReferenceEvaluator(new_ops=...)`` needs to run the lowered nodes of all custom operators."""
    return [_evaluator(op) for op in all_custom()]


def _evaluator(op: CustomOperator) -> type[OpRun]:
    from onnx.reference.op_run import OpRun

    def run(self: OpRun, *inputs: Array | None, **attrs: Any) -> tuple[Array, ...]:
        found = compute(op, inputs, {name.removeprefix(PREFIX): value for name, value in attrs.items()})
        return found[: len(self.onnx_node.output)]

    return type(op.ge_type, (OpRun,), {"op_domain": PLUGIN_DOMAIN, "op_schema": None, "_run": run})


def _handed(array: Array, op: CustomOperator) -> Any:
    if op.framework == "numpy":
        return array
    import torch

    return torch.from_numpy(np.array(array))


def _taken(result: Any) -> Array:
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    return np.asarray(result)
