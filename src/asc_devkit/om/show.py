"""An `.om` as JSON and as a summary."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf import json_format

from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.container import Part
from asc_devkit.om.decode import case_of
from asc_devkit.om.encode import ENGINE_ATTR
from asc_devkit.om.reader import OmFile


def to_json(model: OmFile) -> str:
    """The whole model definition (attributes readable, weights as offsets) as JSON text."""
    return json_format.MessageToJson(model.model_def, indent=2, preserving_proto_field_name=True, sort_keys=True)


def summary(model: OmFile) -> dict[str, Any]:
    """Header, partitions, inputs, outputs, attributes and operator counts as plain data."""
    names = {int(p): p.name for p in Part}
    counts = Counter(op.type for graph in executed(model) for op in graph.op)
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
        "gears": [{name: list(shape) for name, shape in gear.items()} for gear in model.gears],
        "operators": dict(counts.most_common()),
        "fused": sum(1 for graph in executed(model) for op in graph.op if op.subgraph_name and op.type != "Case"),
        "weight_bytes": len(model.weights),
    }


def executed(model: OmFile) -> list[pb.GraphDef]:
    """The root graph and, of a model with gears, the graphs of all of them."""
    graphs = list(model.model_def.graph)
    chooser = case_of(model.model_def)
    names = set(chooser.subgraph_name) if chooser is not None else set()
    return graphs[:1] + [graph for graph in graphs[1:] if graph.name in names]


def operators(model: OmFile) -> list[dict[str, Any]]:
    """One row per operator of the root graph and of gears: name, type, engine, first output, the user's nodes."""
    rows = []
    for op in (op for graph in executed(model) for op in graph.op):
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
