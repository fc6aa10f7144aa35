"""An `.om` as text and JSON, and the difference of two."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from google.protobuf import json_format

from asc_devkit.om.container import Part
from asc_devkit.om.reader import OmFile


def to_json(model: OmFile) -> str:
    """The whole model definition (attributes readable, weights as offsets) as JSON text."""
    return json_format.MessageToJson(model.model_def, indent=2, preserving_proto_field_name=True)


def summary(model: OmFile) -> dict[str, Any]:
    """Header, partitions, inputs, outputs, attributes and operator counts as plain data."""
    names = {int(p): p.name for p in Part}
    root = model.model_def.graph[0] if model.model_def.graph else None
    counts = Counter(op.type for op in root.op) if root is not None else Counter()
    return {
        "path": str(model.path),
        "bytes": len(model.data),
        "name": model.header.name,
        "dynamic": bool(model.header.is_unknow_model),
        "partitions": [
            {"type": names.get(p.type, str(p.type)), "offset": p.offset, "bytes": p.size} for p in model.partitions
        ],
        "inputs": [_tensor(t) for t in model.inputs],
        "outputs": [_tensor(t) for t in model.outputs],
        "attributes": {k: v for k, v in model.attrs.items() if not k.startswith("attr_")},
        "operators": dict(counts.most_common()),
        "fused": sum(1 for op in root.op if op.subgraph_name) if root is not None else 0,
        "weight_bytes": len(model.weights),
    }


def operators(model: OmFile) -> list[dict[str, Any]]:
    """One row per operator of the root graph: name, type, engine, first output, the user's nodes it stands for."""
    rows = []
    for op in model.model_def.graph[0].op if model.model_def.graph else ():
        if op.type in ("Data", "Const", "Constant", "NetOutput"):
            continue
        desc = op.output_desc[0] if op.output_desc else None
        origin = op.attr["_datadump_original_op_names"].list.s if "_datadump_original_op_names" in op.attr else ()
        engine = op.attr["_asc_engine"].s.decode() if "_asc_engine" in op.attr else ""
        shape = "" if desc is None else f"{desc.layout} {list(desc.shape.dim)}"
        rows.append(
            {
                "name": op.name,
                "type": op.type,
                "engine": engine,
                "output": shape,
                "origin": [s.decode("utf-8", "replace") for s in origin],
            }
        )
    return rows


def _tensor(info: Any) -> dict[str, Any]:
    return {"name": info.name, "dtype": info.dtype, "shape": list(info.shape), "bytes": info.size}


def diff(a: OmFile, b: OmFile) -> list[str]:
    """What differs between two models, one line each: attributes, in/outputs, operators, weights."""
    lines = []
    for key in sorted({*a.attrs, *b.attrs}):
        if a.attrs.get(key) != b.attrs.get(key):
            lines.append(f"attribute {key}: {a.attrs.get(key)!r} -> {b.attrs.get(key)!r}")
    for kind in ("inputs", "outputs"):
        if getattr(a, kind) != getattr(b, kind):
            lines.append(f"{kind}: {[t.name for t in getattr(a, kind)]} -> {[t.name for t in getattr(b, kind)]}")
    lines += _operators(a, b)
    return lines


def _operators(a: OmFile, b: OmFile) -> list[str]:
    left = {op.name: op for op in a.model_def.graph[0].op} if a.model_def.graph else {}
    right = {op.name: op for op in b.model_def.graph[0].op} if b.model_def.graph else {}
    lines = [f"operator {name} ({left[name].type}) only in the first" for name in left if name not in right]
    lines += [f"operator {name} ({right[name].type}) only in the second" for name in right if name not in left]
    for name in (n for n in left if n in right):
        one, two = left[name], right[name]
        if one.type == "Const" == two.type:
            x, y = _weight(a, one), _weight(b, two)
            if not np.array_equal(x, y):
                lines.append(f"weight {name}: {x.size} bytes -> {y.size} bytes, content differs")
        elif one.type != two.type:
            lines.append(f"operator {name}: {one.type} -> {two.type}")
        elif list(one.input) != list(two.input):
            lines.append(f"operator {name}: inputs {list(one.input)} -> {list(two.input)}")
        elif dict(one.attr) != dict(two.attr):
            keys = [k for k in sorted({*one.attr, *two.attr}) if one.attr.get(k) != two.attr.get(k)]
            lines.append(f"operator {name}: attributes {', '.join(keys)} differ")
        elif [d.dtype for d in one.output_desc] != [d.dtype for d in two.output_desc]:
            lines.append(f"operator {name}: output types differ")
    return lines


def _weight(model: OmFile, op: Any) -> np.ndarray[Any, Any]:
    stored = op.attr["value"].t
    if stored.data:
        return np.frombuffer(stored.data, np.uint8)
    start, size = stored.desc.data_offset, stored.desc.weight_size
    return np.frombuffer(model.weights[start : start + size], np.uint8)
