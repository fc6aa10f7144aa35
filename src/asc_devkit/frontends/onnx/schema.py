"""What the ONNX operator schemas say about one operator at one opset, cached; and whether a node obeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import onnx_ir as ir
from onnx import defs

NEWEST_OPSET: Final = 28  # of the ONNX release whose changes ``upgrade`` knows


@dataclass(frozen=True, slots=True)
class Facts:
    """Form of an operator: ``since`` is the opset that introduced this form."""

    since: int
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    required_inputs: tuple[int, ...]
    attributes: Mapping[str, tuple[int, bool]]  # name -> (AttributeType, required)


@lru_cache(maxsize=4096)
def facts(op_type: str, version: int) -> Facts | None:
    """The form of a standard operator (domain "") at opset ``version``, deprecated or not; None when it has none."""
    try:
        schema = defs.get_schema(op_type, version, "")
    except defs.SchemaError:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    return Facts(
        schema.since_version,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        tuple(i for i, parameter in enumerate(schema.inputs) if parameter.option == single),
        {name: (_number(a.type), a.required) for name, a in schema.attributes.items()},
    )


def _number(kind: Any) -> int:
    return int(kind.value)  # an enum of the C++ binding, typed as a plain class in its stub


def first_version(op_type: str) -> int | None:
    """The opset that introduced the operator, None if no opset has it."""
    return _first_versions().get(op_type)


@lru_cache(maxsize=1)
def _first_versions() -> dict[str, int]:
    first: dict[str, int] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return first


def violations(node: ir.Node, form: Facts) -> list[tuple[str, str]]:
    """(kind, sentence) for each way in which ``node`` breaks its operator's form."""
    found = []
    label = f"{node.op_type} {node.name!r}"
    given = len(node.inputs)
    if not form.min_inputs <= given <= form.max_inputs:
        found.append(("arity", f"{label} has {given} inputs, {_range(form.min_inputs, form.max_inputs)} are possible"))
    else:
        for index in form.required_inputs:
            if index < given and node.inputs[index] is None:
                found.append(("arity", f"{label} lacks its input {index}"))
    made = len(node.outputs)
    if not form.min_outputs <= made <= form.max_outputs:
        possible = _range(form.min_outputs, form.max_outputs)
        found.append(("arity", f"{label} has {made} outputs, {possible} are possible"))
    attributes = node.attributes
    for name, attribute in attributes.items():
        expected = form.attributes.get(name)
        if expected is None:
            found.append(("attribute", f"{label}: attribute {name!r} does not exist in the opset it is written for"))
        elif attribute.type.value != expected[0]:
            kind = ir.AttributeType(expected[0]).name
            found.append(("attribute", f"{label}: attribute {name!r} is {attribute.type.name}, must be {kind}"))
    for name, (_, required) in form.attributes.items():
        if required and name not in attributes:
            found.append(("attribute", f"{label}: attribute {name!r} is missing"))
    if node.op_type in ("If", "Loop", "Scan") and not found:
        found += [("arity", f"{label}: {what}") for what in _body_faults(node, form)]
    return found


def _body_faults(node: ir.Node, form: Facts) -> list[str]:
    """Where a control-flow node and its bodies disagree about the number of values that go in and out."""
    bodies = [(name, a.as_graph()) for name, a in node.attributes.items() if a.type == ir.AttributeType.GRAPH]
    given, made = len(node.inputs), len(node.outputs)
    least = 1
    if node.op_type == "If":
        wanted_in, wanted_out = 0, made
    elif node.op_type == "Loop":
        wanted_in, wanted_out = max(given, 2), made + 1  # trip count and condition go in, the condition comes out
        least = 1 + max(given, 2) - 2
    else:
        given -= form.since < 9  # Scan-8 has the sequence lengths in front
        wanted_in, wanted_out = given, made
        scanned = node.attributes["num_scan_inputs"].as_int()
        if not 0 < scanned <= given:
            return [f"num_scan_inputs is {scanned}, it has {given} inputs"]
        least = given - scanned
    found = []
    for name, body in bodies:
        if len(body.inputs) != wanted_in:
            found.append(f"{name} takes {len(body.inputs)} inputs, {wanted_in} are handed to it")
        if len(body.outputs) != wanted_out or len(body.outputs) < least:
            found.append(f"{name} has {len(body.outputs)} outputs, {max(wanted_out, least)} are expected")
    return found


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}" if high < 1 << 20 else f"{low} or more"
