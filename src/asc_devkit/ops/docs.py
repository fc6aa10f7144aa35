"""Renders docs/supported_operators.md from the catalogue and its data."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import defs

from asc_devkit.ge.desc import Engine
from asc_devkit.ops import registry
from asc_devkit.ops.catalogue import CANONICAL_OPSET, GeOp, OnnxOp

_ENGINES = {
    Engine.CUBE: "cube",
    Engine.VECTOR: "vector",
    Engine.AICPU: "AI CPU",
    Engine.LOCAL: "no task",
    Engine.HOST: "host",
}
_GENERATIONS = ("310", "310P", "310B", "910", "910B", "910_93", "950")


def render() -> str:
    """The page: ONNX operators that convert, those that do not and why, the GE vocabulary with its facts."""
    onnx_ops, ge_ops = list(registry.all_onnx()), list(registry.all_ge())
    rewritten = [op for op in onnx_ops if op.rewritten]
    lines = [
        "# Supported operators",
        "",
        "Generated from the catalogue (`make docs`). Models of any opset are brought to opset "
        f"{CANONICAL_OPSET} first; the table speaks of that form.",
        "",
        f"{len(onnx_ops)} ONNX operators convert to GE operators. The real ATC has parsers for "
        f"{len(onnx_ops) - len(rewritten)} of them; the other {len(rewritten)} are rewritten exactly into operators "
        "that CANN has, so their models convert here and fail there.",
        "",
        "## ONNX operators that convert",
        "",
        "*real ATC*: first and last opset for which the vendor's public operator repositories register a parser.",
        "",
        "| ONNX operator | GE operators | runs on | real ATC |",
        "|---|---|---|---|",
        *(_onnx_row(op) for op in onnx_ops),
        "",
        "## ONNX operators that do not convert",
        "",
        "A conversion lists all of them at once and stops; with `--host_ops=true` they run on the host CPU.",
        "",
        "| ONNX operator | why | what to do |",
        "|---|---|---|",
        *_host_rows({op.type for op in onnx_ops}),
        "",
        "Operators of any other domain (`com.microsoft`, `ai.onnx.ml`, ...) do not convert.",
        "",
        "## GE operators",
        "",
        "*mix*: what `allow_mix_precision` does with it (white: computes in the low type, black: keeps fp32, gray:",
        "follows its producer). *float types*: of the kernel, and of those chip generations where they differ. *exact*:",
        "results need no rounding. Attributes with a leading underscore carry what GE itself cannot say.",
        "",
        "| GE operator | inputs | attributes | runs on | cost class | mix | float types | exact |",
        "|---|---|---|---|---|---|---|---|",
        *(_ge_row(op) for op in ge_ops),
    ]
    return "\n".join(lines) + "\n"


def _onnx_row(op: OnnxOp) -> str:
    specs = [found for name in op.ge_types if (found := registry.lookup(name)) is not None]
    ge_types = ", ".join(f"`{name}`" for name in op.ge_types) or "by ONNX's own definition"
    engines = ", ".join(dict.fromkeys(_ENGINES[spec.engine] for spec in specs)) or "as its parts"
    support = registry.atc_support(op.type)
    parsed = "no: rewritten" if support is None else f"{support[0]}-{support[1]}"
    return f"| {op.type} | {ge_types} | {engines} | {parsed} |"


def _host_rows(converted: set[str]) -> Iterable[str]:
    names = {
        schema.name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= CANONICAL_OPSET and not schema.deprecated
    }
    for name in sorted(names - converted - _NOT_CANONICAL):
        why = registry.host_reason(name, "")
        yield f"| {name} | {why.reason} | {why.hint} |"


# The front end turns these into initializers and newer operators.
_NOT_CANONICAL = frozenset({"Constant", "Scatter", "Upsample"})


def _ge_row(op: GeOp) -> str:
    attrs = ", ".join(f"{name} ({kind})" for name, kind in op.attrs.items())
    cells = [
        f"`{op.type}`",
        ", ".join(op.inputs),
        attrs,
        _ENGINES[op.engine],
        op.cost.value,
        op.mix.value,
        _floats(op),
        "yes" if op.exact else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _floats(op: GeOp) -> str:
    """``fp16 fp32 (new: bf16 fp16 fp32)``: the types everywhere, and those of the newer generations when they differ."""
    by_set: dict[str, list[str]] = {}
    for generation in _GENERATIONS:
        names = op.floats.get(generation, op.floats.get("*", frozenset()))
        by_set.setdefault(" ".join(sorted(names)), []).append(generation)
    first, *others = by_set
    return first + "".join(f"; {', '.join(by_set[names])}: {names}" for names in others)
