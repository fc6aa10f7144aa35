"""`asc om explain`: what a compiled model says about its making: versions, command line, fused operators and their
passes, kernels, memory plan, streams and tasks, and what is guessed when it is executed."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from asc_devkit.errors import AscError
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.container import Part
from asc_devkit.om.reader import OmFile
from asc_devkit.om.show import executed

_KERNEL: Final = struct.Struct("<III")
_KERNEL_MAGIC: Final = 0x5D776EFD
MAX_KERNELS: Final = 1 << 20
#: Task types of the runtime by number (public header rt_model.h).
TASK_TYPES: Final = (
    "kernel", "event record", "event wait", "fusion start", "fusion end", "kernel ex", "hccl", "stream switch",
    "stream active", "label set", "label switch", "label goto", "profiler trace", "memcpy async", "notify record",
    "notify wait", "reduce async", "rdma send", "event reset", "end graph", "stream switch n", "rdma doorbell send",
    "memcpy addr async", "label switch by index", "label goto ex", "model exit", "all kernel", "profiler trace ex",
    "ffts", "ffts plus", "dsa", "cache maintenance", "barrier",
)  # fmt: skip
_SOURCES: Final = ("Data", "AnnData", "AippData", "Const", "Constant", "NetOutput")
#: Attributes of the model that describe its memory.
_MEMORY: Final = ("memory_size", "weight_size", "zero_copy_memory_size", "p2p_memory_size", "host_memory_size")


def explain(file: OmFile) -> dict[str, Any]:
    """All of it as plain data (schema ``asc-devkit/om-explain/1``). Raises ``AscError`` for damaged files."""
    attrs = file.attrs
    rows = [row for graph in executed(file) for op in graph.op if (row := _operator(op)) is not None]
    passes = Counter(name for row in rows for name in row["passes"])
    tasks = Counter(_task(task.type) for task in file.task_def.task)
    return {
        "schema": "asc-devkit/om-explain/1",
        "path": str(file.path),
        "name": file.header.name,
        "made_by": "asc-devkit" if file.is_ours else "ATC",
        "soc_version": attrs.get("soc_version", ""),
        "atc_version": attrs.get("atc_version", ""),
        "opp_version": attrs.get("opp_version", ""),
        "framework": attrs.get("framework_type", ""),
        "platform_version": file.header.platform_version,
        "atc_command_line": attrs.get("atc_cmdline", ""),
        "fused": [row for row in rows if len(row["members"]) > 1],
        "passes": dict(passes.most_common()),
        "operators": rows,
        "kernels": list(_kernels(file)),
        "memory": {
            **{name: attrs[name] for name in _MEMORY if name in attrs},
            "blocks": [
                dict(zip(("type", "offset", "bytes"), row[:3], strict=False))
                for row in attrs.get("sub_memory_info", [])
            ],
        },
        "streams": attrs.get("stream_num", 0),
        "events": attrs.get("event_num", 0),
        "tasks": dict(tasks.most_common()),
        "guesses": _guesses(file),
    }


def _guesses(file: OmFile) -> list[dict[str, Any]]:
    try:
        return [guess.as_dict() for guess in file.guesses(0 if file.gears else None)]
    except AscError:  # several models in one file: nothing is executed, nothing guessed
        return []


def _operator(op: pb.OpDef) -> dict[str, Any] | None:
    """One row per operator that does something."""
    if op.type in _SOURCES:
        return None
    names, kinds = _texts(op, "_datadump_original_op_names"), _texts(op, "_datadump_original_op_types")
    passes = dict.fromkeys(
        [*_texts(op, "pass_name"), *([_text(op, "pass_name_ub")] if _text(op, "pass_name_ub") else [])]
    )
    return {
        "name": op.name,
        "type": op.type,
        "members": names or [op.name],
        "member_types": kinds,
        "passes": list(passes),
        "kernel": _text(op, "_kernelname"),
        "block_dim": op.attr["tvm_blockdim"].i if "tvm_blockdim" in op.attr else None,
        "stream": op.stream_id,
        "outputs": [
            f"{d.layout} {list(d.shape.dim)} at {a}" for d, a in zip(op.output_desc, op.output_i, strict=False)
        ],
        "workspace_bytes": list(op.workspace_bytes),
    }


def _kernels(file: OmFile) -> Iterator[dict[str, Any]]:
    """Name and bytes of each compiled kernel in the file; stops where the partition is damaged."""
    for kind in (Part.TBE_KERNELS, Part.CUST_AICPU_KERNELS):
        data, position = file.part(kind), 0
        for _ in range(MAX_KERNELS):
            if position + _KERNEL.size > len(data):
                break
            magic, name_size, size = _KERNEL.unpack_from(data, position)
            position += _KERNEL.size
            if magic != _KERNEL_MAGIC or name_size + size > len(data) - position:
                break
            name = bytes(data[position : position + name_size]).decode("utf-8", "replace")
            position += name_size + size
            yield {"name": name, "bytes": size, "partition": kind.name}


def _task(kind: int) -> str:
    return TASK_TYPES[kind] if kind < len(TASK_TYPES) else f"type {kind}"


def _text(op: pb.OpDef, name: str) -> str:
    return op.attr[name].s.decode("utf-8", "replace") if name in op.attr else ""


def _texts(op: pb.OpDef, name: str) -> list[str]:
    return [s.decode("utf-8", "replace") for s in op.attr[name].list.s] if name in op.attr else []
