"""Look-up tables of the catalogue: what the family modules declared, and what the real ATC parses.

Family modules add entries through ``ops.declare``; everyone else reads through ``asc_devkit.ops``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from asc_devkit.ops.catalogue import GeOp, OnnxOp

DATA: Final = Path(__file__).resolve().parent / "data"
ONNX_DOMAINS: Final = frozenset({"", "ai.onnx"})

_ge: dict[str, GeOp] = {}
_onnx: dict[tuple[str, str], OnnxOp] = {}
_infer: dict[tuple[str, str], Callable[[Any], None]] = {}


def add_ge(op: GeOp) -> None:
    """Declare a GE operator; each type once."""
    if op.type in _ge:
        raise ValueError(f"GE operator {op.type} is declared twice")
    _ge[op.type] = op


def add_onnx(op: OnnxOp) -> None:
    """Declare how an ONNX operator is converted; each type once."""
    if (op.domain, op.type) in _onnx:
        raise ValueError(f"ONNX operator {op.type} is declared twice")
    _onnx[op.domain, op.type] = op


def add_infer(op_type: str, domain: str, rule: Callable[[Any], None]) -> None:
    """Declare the shape inference (an ``ops.infer`` rule) of an ONNX operator that ``ops.infer`` does not know."""
    _infer[domain, op_type] = rule


def infer_rule(op_type: str, domain: str) -> Callable[[Any], None] | None:
    """The declared shape inference of an operator."""
    return _infer.get((domain, op_type))


def remove(ge_type: str, op_type: str, domain: str) -> None:
    """Take a plugin's operator out again."""
    del _ge[ge_type], _onnx[domain, op_type]
    _infer.pop((domain, op_type), None)


def lookup(ge_type: str) -> GeOp | None:
    """The GE operator of that type, None when the catalogue does not know it."""
    return _ge.get(ge_type)


def lookup_onnx(op_type: str, domain: str = "") -> OnnxOp | None:
    """How the ONNX operator converts, None when it stays on the host."""
    return _onnx.get(("" if domain in ONNX_DOMAINS else domain, op_type))


def all_ge() -> Iterable[GeOp]:
    """All GE operators, by name."""
    return [_ge[key] for key in sorted(_ge)]


def all_onnx() -> Iterable[OnnxOp]:
    """All convertible ONNX operators, by name."""
    return [_onnx[key] for key in sorted(_onnx)]


def atc_support(op_type: str) -> tuple[int, int] | None:
    """First and last ONNX opset for which the real ATC registers a parser of the operator; None when it has none.

    Source: ``data/atc_onnx_ops.csv`` (plugin registrations of the public CANN operator repositories).
    """
    return atc_table("ai.onnx").get(op_type)


@lru_cache(maxsize=8)
def atc_table(domain: str) -> dict[str, tuple[int, int]]:
    """Operators of a domain (``ai.onnx``, ``npu``) the real ATC has parsers for, with first and last opset."""
    with open(DATA / "atc_onnx_ops.csv", newline="", encoding="utf-8") as handle:
        rows = csv.DictReader(line for line in handle if not line.startswith("#"))
        return {r["onnx_op"]: (int(r["opset_min"]), int(r["opset_max"])) for r in rows if r["domain"] == domain}


@dataclass(frozen=True)
class HostReason:
    """Why an ONNX operator is not converted, and what the user can do."""

    reason: str
    hint: str


def host_reason(op_type: str, domain: str) -> HostReason:
    """Explanation for an operator that stays on the host (``data/host_ops.csv``)."""
    if domain not in ONNX_DOMAINS:
        return HostReason(
            f"The operator belongs to domain {domain}, which CANN does not know.",
            "Export the model without this runtime's own optimisations (before quantising or fusing it for "
            f"{domain}), declare the operator in a plugin (--op_plugin_path, docs/plugins.md), or run the node on the "
            "host with --host_ops=true.",
        )
    default = HostReason(
        "CANN has no such operator.",
        "Rewrite the node with supported operators (docs/supported_operators.md), or run it on the host with "
        "--host_ops=true.",
    )
    return host_table().get(op_type, default)


@lru_cache(maxsize=1)
def host_table() -> dict[str, HostReason]:
    """ONNX operator -> reason and hint, for the operators that stay on the host."""
    with open(DATA / "host_ops.csv", newline="", encoding="utf-8") as handle:
        rows = csv.DictReader(line for line in handle if not line.startswith("#"))
        return {r["onnx_op"]: HostReason(r["reason"], r["hint"]) for r in rows}
