"""Helpers with which the family modules declare operators: ``rename`` (both directions), ``ge`` and ``onnx`` (one)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx_ir as ir

from asc_devkit.ge.desc import Engine
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import Convert, Cost, Emit, GeOp, Mix, OnnxOp

# Float types by generation: the cube multiplied only fp16 before the 910B (whose cube also takes bf16 and fp32);
# vector units compute fp16 and fp32, and bf16 from the 910B on.
_OLD: Final = ("310", "310P", "310B", "910")
_NEW: Final = ("910B", "910_93", "950")
_ALL_FLOATS: Final = frozenset({"fp16", "bf16", "fp32"})
_VECTOR: Final = frozenset({"fp16", "fp32"})
CUBE_FLOATS: Final = {**dict.fromkeys(_OLD, frozenset({"fp16"})), **dict.fromkeys(_NEW, _ALL_FLOATS)}
VECTOR_FLOATS: Final = {"*": _VECTOR, **dict.fromkeys(_NEW, _ALL_FLOATS)}
ANY_FLOATS: Final = {"*": _ALL_FLOATS}

# Facts shared by whole groups of operators, spread into a declaration: ``**CUBE``.
CUBE: Final[dict[str, Any]] = {"engine": Engine.CUBE, "mix": Mix.WHITE, "floats": CUBE_FLOATS}
MOVE: Final[dict[str, Any]] = {"cost": Cost.MOVEMENT, "exact": True}
GATHER: Final[dict[str, Any]] = {"cost": Cost.GATHER, "exact": True}
FREE: Final[dict[str, Any]] = {"engine": Engine.LOCAL, "cost": Cost.FREE, "exact": True, "floats": ANY_FLOATS}
AICPU: Final[dict[str, Any]] = {"engine": Engine.AICPU, "cost": Cost.AICPU, "floats": ANY_FLOATS}


@dataclass(frozen=True)
class Attr:
    """One attribute: GE name, kind, ONNX default; ONNX name if it differs ("" = none), GE default if it differs."""

    name: str
    kind: str
    default: Any = None
    onnx: str | None = None
    ge_default: Any = None

    @property
    def onnx_name(self) -> str:
        return self.name if self.onnx is None else self.onnx


def ge(ge_type: str, inputs: str, lower: Convert, attrs: Sequence[Attr] = (), outputs: str = "y", **facts: Any) -> None:
    """Declare a GE operator. ``inputs`` and ``outputs``: names separated by spaces; ``facts``: fields of ``GeOp``."""
    facts.setdefault("floats", VECTOR_FLOATS)
    defaults = {a.name: a.default if a.ge_default is None else a.ge_default for a in attrs}
    registry.add_ge(
        GeOp(
            ge_type,
            tuple(inputs.split()),
            tuple(outputs.split()),
            lower,
            attrs={a.name: a.kind for a in attrs},
            defaults={name: value for name, value in defaults.items() if value is not None},
            **facts,
        )
    )


def onnx(op_type: str, raise_: Convert, *ge_types: str, rewritten: bool = False) -> None:
    """Declare how an ONNX operator becomes the GE operators ``ge_types``."""
    registry.add_onnx(OnnxOp(op_type, raise_, ge_types, rewritten=rewritten))


def by_definition(op_type: str) -> None:
    """Declare an operator that CANN lacks and ONNX defines through simpler ones; those are converted."""
    registry.add_onnx(OnnxOp(op_type, None, (), rewritten=True))


def rename(
    onnx_type: str,
    ge_type: str = "",
    inputs: str = "x",
    attrs: Sequence[Attr] = (),
    outputs: str = "y",
    rewritten: bool = False,
    **facts: Any,
) -> None:
    """Declare an operator that has the same inputs and outputs in both vocabularies; attributes map one to one."""
    ge_type = ge_type or onnx_type
    ge(ge_type, inputs, lower_as(onnx_type, attrs), attrs, outputs, **facts)
    onnx(onnx_type, raise_as(ge_type, attrs), ge_type, rewritten=rewritten)


def raise_as(ge_type: str, attrs: Sequence[Attr] = ()) -> Convert:
    """Conversion ONNX -> ``ge_type`` that keeps inputs and outputs."""

    def convert(e: Emit) -> Sequence[ir.Value]:
        found = {a.name: e.attr(a.onnx_name, a.default) if a.onnx_name else a.default for a in attrs}
        return outputs_of(e.op(ge_type, e.inputs, found, len(e.node.outputs)))

    return convert


def lower_as(onnx_type: str, attrs: Sequence[Attr] = ()) -> Convert:
    """Conversion GE -> ``onnx_type`` that keeps inputs and outputs."""

    def convert(e: Emit) -> Sequence[ir.Value]:
        found = {a.onnx_name: e.attr(a.name, a.default) for a in attrs if a.onnx_name}
        return outputs_of(e.op(onnx_type, e.inputs, found, len(e.node.outputs)))

    return convert


def outputs_of(value: ir.Value) -> Sequence[ir.Value]:
    """All outputs of the node that made ``value``."""
    producer = value.producer()
    assert producer is not None
    return producer.outputs
