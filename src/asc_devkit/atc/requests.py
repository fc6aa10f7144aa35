"""Turning the text of --output_type and --input_fp16_nodes into references to graph values."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from asc_devkit.atc.options import OUTPUT_TYPES, nearest
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ORIGIN_OPS

_DTYPES = {
    "FP32": ir.DataType.FLOAT,
    "FP16": ir.DataType.FLOAT16,
    "DOUBLE": ir.DataType.DOUBLE,
    **{name: ir.DataType[name] for name in OUTPUT_TYPES if "INT" in name},
}


def output_types(graph: ir.Graph, text: str) -> dict[int, ir.DataType]:
    """Output index -> wanted element type, from ``FP16``, ``name:FP16`` or ``node:index:FP16`` (separated by ``;``)."""
    wanted: dict[int, ir.DataType] = {}
    problems: list[Problem] = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        target, _, kind = item.rpartition(":")
        if kind not in _DTYPES:
            problems.append(
                _bad_type(item, f"the type must be one of {', '.join(OUTPUT_TYPES)}", nearest(kind, [*_DTYPES]))
            )
        elif not target:
            wanted.update(dict.fromkeys(range(len(graph.outputs)), _DTYPES[kind]))
        else:
            index = _find_output(graph, target)
            if index is None:
                names = [str(v.name) for v in graph.outputs]
                problems.append(_bad_type(item, f"no output is called {target}", nearest(target, names)))
            else:
                wanted[index] = _DTYPES[kind]
    if problems:
        raise AscError(problems)
    return wanted


def _find_output(graph: ir.Graph, target: str) -> int | None:
    node, _, number = target.rpartition(":")
    for index, value in enumerate(graph.outputs):
        producer = value.producer()
        names = {n for n, _ in producer.meta.get(ORIGIN_OPS, ())} if producer else set()
        if value.name == target or target in names or (node in names and number == str(value.index())):
            return index
    return None


def _bad_type(item: str, reason: str, fix: str) -> Problem:
    return Problem(
        "E10001",
        f"Value [{item}] for parameter [output_type] is invalid. Reason: {reason}.",
        cause="output_type takes a type for all outputs, or name:TYPE / node:index:TYPE for one.",
        fix=fix or "For example --output_type=FP16.",
        nodes=("--output_type",),
        seed_class="EE1001",
    )


def fp16_inputs(graph: ir.Graph, text: str) -> Sequence[str]:
    """Names of the inputs to be fed as fp16; E10016/E10017 for names that are not float inputs."""
    names = [part.strip() for part in text.split(";") if part.strip()]
    floats = {v.name: v.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16) for v in graph.inputs}
    problems = [
        Problem(
            "E10017" if name in floats else "E10016",
            f"Opname [{name}] set by parameter [input_fp16_nodes] is not {'a float' if name in floats else 'an'} input.",
            cause="Only graph inputs of a float type can be fed as fp16.",
            fix=nearest(name, [str(n) for n in floats]) or f"The inputs are {', '.join(str(n) for n in floats)}.",
            nodes=(name,),
            seed_class="EE1016",
        )
        for name in names
        if not floats.get(name)
    ]
    if problems:
        raise AscError(problems)
    return names
