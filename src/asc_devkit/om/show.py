"""An `.om` as JSON and as a summary."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf import json_format

from asc_devkit.om.container import Part
from asc_devkit.om.encode import ENGINE_ATTR
from asc_devkit.om.reader import OmFile


def to_json(model: OmFile) -> str:
    """The whole model definition (attributes readable, weights as offsets) as JSON text."""
    return json_format.MessageToJson(model.model_def, indent=2, preserving_proto_field_name=True, sort_keys=True)


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
        engine = op.attr[ENGINE_ATTR].s.decode("utf-8", "replace") if ENGINE_ATTR in op.attr else ""
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
    facts = {"name": info.name, "dtype": info.dtype, "shape": list(info.shape), "bytes": info.size}
    if info.dims_v2 and info.dims_v2 != info.shape:  # a picture for AIPP, whose bytes lie otherwise
        facts["buffer_shape"] = list(info.dims_v2)
    return facts
