"""All ONNX operators with what becomes of them here and in the real ATC, for ``asc op list`` and ``asc op show``."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from onnx import defs

from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import Engine
from asc_devkit.ops import acceptance, registry
from asc_devkit.ops.catalogue import GeOp
from asc_devkit.ops.registry import ONNX_DOMAINS

ENGINES = {
    Engine.CUBE: "cube",
    Engine.VECTOR: "vector",
    Engine.AICPU: "AI CPU",
    Engine.LOCAL: "no task",
    Engine.HOST: "host",
}


@dataclass(frozen=True)
class OperatorRow:
    """One ONNX operator.

    ``support``: ``converts`` (CANN has it), ``rewritten`` (CANN has none, an exact replacement is made), ``host`` (only with
    --host_ops), ``plugin`` (declared by the user), ``front end`` (gone before conversion). ``opsets``: those that changed
    its form. ``real_atc``: first and last opset with a parser, () for none.
    """

    name: str
    domain: str
    support: str
    engine: str
    ge_types: tuple[str, ...]
    opsets: tuple[int, ...]
    real_atc: tuple[int, ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows() -> list[OperatorRow]:
    """Every operator of ONNX, every one the real ATC parses beyond ONNX, and those of loaded plugins; by name."""
    names = {("", name) for name in _history()} | {(op.domain, op.type) for op in registry.all_onnx()}
    names |= {("", name) for name in registry.atc_table("ai.onnx")} | {("npu", n) for n in registry.atc_table("npu")}
    return [_row(domain, name) for domain, name in sorted(names, key=lambda n: (n[0], n[1].lower()))]


def find(name: str) -> tuple[list[OperatorRow], list[GeOp]]:
    """Rows and GE operators called ``name`` (any case). Raises ``AscError`` with the nearest names when there are none."""
    every = rows()
    ge_ops = list(registry.all_ge())
    wanted = name.rpartition("::")[2].lower()
    found = [row for row in every if row.name.lower() == wanted]
    kernels = [op for op in ge_ops if op.type.lower() == wanted or any(op.type in row.ge_types for row in found)]
    if found or kernels:
        return found, kernels
    known = sorted({row.name for row in every} | {op.type for op in ge_ops})
    lower = {n.lower(): n for n in known}
    near = [lower[n] for n in difflib.get_close_matches(wanted, lower, n=3, cutoff=0.6)]
    raise AscError(
        Problem(
            "ASC2014",
            f"There is no operator {name}.",
            cause="Neither ONNX, nor the Graph Engine's catalogue, nor a loaded plugin has it.",
            fix=f"Did you mean {' or '.join(near)}?" if near else "`asc op list` shows all.",
            nodes=(name,),
            seed_class="EE2001",
        )
    )


@lru_cache(maxsize=1)
def _history() -> dict[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, set()).add(schema.since_version)
    return {name: tuple(sorted(opsets)) for name, opsets in found.items()}


def _row(domain: str, name: str) -> OperatorRow:
    entry = registry.lookup_onnx(name, domain)
    opsets = _history().get(name, ()) if not domain else ()
    real = registry.atc_table("ai.onnx" if domain in ONNX_DOMAINS else domain).get(name, ())
    if entry is None:
        support, note = _unconverted(domain, name, bool(opsets))
        engine = "host" if support == "host" else ""
        return OperatorRow(name, domain, support, engine, (), opsets, tuple(real), note)
    specs = [spec for kind in entry.ge_types if (spec := registry.lookup(kind)) is not None]
    engines = dict.fromkeys(ENGINES[spec.engine] for spec in specs)
    if len(engines) > 1:  # views beside the work itself
        engines.pop(ENGINES[Engine.LOCAL], None)
    engine = ", ".join(engines) or "as its parts"
    plugin = next((spec.plugin for spec in specs if spec.plugin), "")
    support = "plugin" if plugin else "rewritten" if entry.rewritten else "converts"
    note = plugin or ("by ONNX's own definition" if entry.raise_ is None else "")
    return OperatorRow(name, domain, support, engine, entry.ge_types, opsets, tuple(real), note)


def _unconverted(domain: str, name: str, standard: bool) -> tuple[str, str]:
    if domain:
        return "vendor only", "made by the vendor's exporter; not in this catalogue"
    if name in ("Constant", "Scatter", "Upsample"):
        return "front end", "becomes a constant or a newer operator when the model is read"
    if name in ("SwiGLU", "Swish"):
        return "rewritten", acceptance.REWRITTEN[name]
    if not standard:
        return "vendor only", "no ONNX operator; the vendor's tool reads it under this name"
    why = registry.host_reason(name, "")
    return "host", f"{why.reason} {why.hint}"
