"""Whole graphs between the two vocabularies: ``to_ge`` (called by atc's select stage) and ``to_onnx`` (by npu).

Both build a new model and leave the given one as it is; weights share their ``const_value`` objects.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

import onnx_ir as ir

from asc_devkit.errors import AscError
from asc_devkit.ops.lowering import Kernel, ToOnnx
from asc_devkit.ops.raising import ToGe, Unsupported

__all__ = ["ToGeResult", "Unsupported", "to_ge", "to_onnx"]

MAX_LISTED = 200


@dataclass(frozen=True)
class ToGeResult:
    """The GE model and the nodes that stayed ONNX (on the host engine)."""

    model: ir.Model
    unsupported: list[Unsupported] = field(default_factory=list)


def to_ge(model: ir.Model, host_ops: bool) -> ToGeResult:
    """ONNX operators (canonical opset) -> GE operators, through the branches of ``If``.

    Nodes that cannot be converted keep their ONNX identity with ``meta[ENGINE] = Engine.HOST`` and are listed in
    ``unsupported``. Without ``host_ops`` (the conversion is going to fail) the list also names what CANN lacks inside
    their bodies. Raises ``AscError`` listing all malformed nodes.
    """
    walk = ToGe(model, host_ops)
    converted = walk.model()
    if walk.problems:
        raise AscError(walk.problems[:MAX_LISTED])
    return ToGeResult(converted, walk.unsupported)


def to_onnx(
    model: ir.Model,
    float_as: ir.DataType | None = None,
    names: MutableMapping[ir.Value, str] | None = None,
    kernel: Kernel | None = None,
) -> ir.Model:
    """GE operators -> ONNX (opset 23), fused groups expanded, executable by ONNX Runtime.

    ``float_as``: replaces fp16 and bf16 everywhere (values, constants lazily, dtype attributes). ``names`` is filled
    with the ONNX value name of every value of the given model, members of groups included. ``kernel`` lowers single
    operators in place of the catalogue's declaration (``npu.kernels``: implementation modes). Raises ``AscError`` listing
    all GE operators that cannot be lowered.
    """
    walk = ToOnnx(model, float_as, kernel)
    lowered = walk.model()
    if walk.problems:
        raise AscError(walk.problems[:MAX_LISTED])
    if names is not None:
        names.update((old, new.name or "") for old, new in walk.values.items() if new is not None)
    return lowered
