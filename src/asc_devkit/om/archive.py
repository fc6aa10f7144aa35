"""`.om2`: an offline model as a zip archive of JSON and raw files (what `atc --mode=7` writes), and opening it again.

Layout as in the public sources of the vendor's graph engine: ``manifest.json``, and below ``data/`` a description of inputs and
outputs, the weights with an index, and what debuggers need. Where the vendor's archive holds a compiled program, ours
holds the partitions of the `.om` (``runtime/*.bin``), nothing of them compressed: the archive is mapped and read in place like
an `.om`, and runs on the virtual NPU only.
"""

from __future__ import annotations

import json
import struct
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any, Final

from asc_devkit import files
from asc_devkit.ge import dtypes
from asc_devkit.ge.formats import Format, unpack
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om.container import HEADER_BYTES, MAX_PARTITIONS, Part, Partition, broken, read_header
from asc_devkit.om.inout import TensorInfo
from asc_devkit.om.mbatch import BATCH, DIMS, IMAGE
from asc_devkit.om.reader import OmFile
from asc_devkit.om.show import to_json

VERSION: Final = "0"
MAX_JSON: Final = 1 << 20
_RUNTIME: Final = "data/model_0/runtime/"
_HEADER: Final = "header.bin"
_WEIGHTS: Final = "data/constants/constant_0"
_LOCAL: Final = struct.Struct("<4s22xHH")  # a zip entry's own header: signature, lengths of name and extra field
_ORIGINS: Final = "_datadump_original_op_names"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


def write(path: str | PathLike[str], model: OmFile) -> None:
    """Write ``model`` as an archive, atomically; weights are copied from its file. Raises ``AscError``."""
    root = Path(path).name.removesuffix(".om2")
    written = {
        "manifest.json": {"om2_version": VERSION, "model_num": "1", "atc_command": str(model.attrs["atc_cmdline"])},
        "data/model_0/model_meta.json": _meta(model),
        "data/model_0/debug/op_attr.json": _origins(model.model_def),
        "data/constants/model_0_constants_config.json": _constants(model),
    }
    with files.atomic_writer(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, content: bytes | memoryview | str, method: int = zipfile.ZIP_STORED) -> None:
            entry = zipfile.ZipInfo(f"{root}/{name}", _EPOCH)
            entry.compress_type = method
            archive.writestr(entry, content)

        for name, value in written.items():
            add(name, json.dumps(value, indent=1))
        add("data/model_0/debug/ge_visual_00000000_graph_0.json", to_json(model), zipfile.ZIP_DEFLATED)
        add(_RUNTIME + _HEADER, model.data[:HEADER_BYTES])
        for partition in model.partitions:
            kind = Part(partition.type)
            name = _WEIGHTS if kind is Part.WEIGHTS_DATA else f"{_RUNTIME}{kind.name.lower()}.bin"
            add(name, model.part(kind))


def is_archive(data: memoryview) -> bool:
    """Whether the bytes are those of a zip archive."""
    return bytes(data[:2]) == b"PK"


def read(path: Path, data: memoryview) -> OmFile:
    """Open an archive that ``write`` made, mapped as ``data``. Raises ``AscError`` for others, and damaged ones."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {name.partition("/")[2]: info for name, info in archive.NameToInfo.items()}
            if "manifest.json" not in entries:
                raise broken("it is a zip archive without manifest.json", "It is no .om2.", "Check the path.")
            if entries["manifest.json"].file_size > MAX_JSON:
                raise broken("its manifest is too large")
            manifest = json.loads(archive.read(entries["manifest.json"]))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise broken(f"it is a zip archive that cannot be read: {error}"[:200]) from error
    if not isinstance(manifest, dict) or manifest.get("om2_version") != VERSION or manifest.get("model_num") != "1":
        raise broken("its manifest does not describe one model of version 0", "It is no .om2, or a newer one.")
    if _RUNTIME + _HEADER not in entries:
        raise broken(
            "the archive holds a compiled program and no graph",
            "The vendor's .om2 runs on the device only.",
            "Convert with --mode=0, or look into its JSON files with unzip.",
        )
    head = _place(data, entries[_RUNTIME + _HEADER])
    if head[1] != HEADER_BYTES:
        raise broken("its header is cut off")
    kinds = {f"{_RUNTIME}{kind.name.lower()}.bin": kind for kind in Part} | {_WEIGHTS: Part.WEIGHTS_DATA}
    parts = [Partition(kinds[name], *_place(data, entries[name])) for name in entries if name in kinds]
    if len(parts) > MAX_PARTITIONS:
        raise broken(f"it claims to have {len(parts)} partitions")
    header = read_header(data[head[0] : head[0] + HEADER_BYTES], complete=False)
    return OmFile(path, data, header, tuple(parts), head[0])


def _place(data: memoryview, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """Where the bytes of a stored entry lie in the archive, and how many they are."""
    start = entry.header_offset
    if entry.compress_type != zipfile.ZIP_STORED or not 0 <= start <= len(data) - _LOCAL.size - 2:
        raise broken(f"its entry {entry.filename[:100]} is damaged")
    signature, name, extra = _LOCAL.unpack_from(data, start)
    begin = start + _LOCAL.size + name + extra
    if signature != b"PK\x03\x04" or begin + entry.file_size > len(data):
        raise broken(f"its entry {entry.filename[:100]} is damaged")
    return begin, entry.file_size


def _meta(model: OmFile) -> dict[str, Any]:
    found = model.in_out
    kind, values = next(
        ((k, v) for k, v in ((BATCH, found.batch_gears), (IMAGE, found.image_gears), (DIMS, found.dim_gears)) if v),
        (0, ()),
    )
    return {
        "inputs": [_tensor(i, info, True) for i, info in enumerate(model.inputs)],
        "outputs": [_tensor(i, info, False) for i, info in enumerate(model.outputs)],
        "dynamic_output_shape": [],
        "dynamic_batch_info": [[row] if isinstance(row, int) else list(row) for row in values],
        "user_designate_shape_order": list(found.user_order),
        "dynamic_type": kind,
        "work_size": model.attrs["memory_size"],
        "zero_copy_size": model.attrs["zero_copy_memory_size"],
        "name": model.model_def.name,
        "root_graph_name": model.model_def.graph[0].name,
    }


def _tensor(index: int, info: TensorInfo, is_input: bool) -> dict[str, Any]:
    row = dtypes.of_acl(info.acl_dtype)
    made = {
        "name": info.name,
        "index": index,
        "shape": list(info.shape),
        "data_type": "DT_UNDEFINED" if row is None else row.name,
        "format": Format(unpack(info.format)[0]).name,
        "size": info.size,
        "shape_range": [list(pair) for pair in info.ranges],
    }
    if is_input:
        made |= {"shape_v2": list(info.dims_v2 or info.shape), "origin_input_dims": list(info.shape)}
    return made


def _origins(definition: pb.ModelDef) -> dict[str, dict[str, str]]:
    """The user's operators behind each one, as ``[length]name[length]name``."""
    found = {}
    for op in definition.graph[0].op:
        if _ORIGINS in op.attr and op.attr[_ORIGINS].list.s:
            names = [raw.decode("utf-8", "replace") for raw in op.attr[_ORIGINS].list.s]
            found[op.name] = {_ORIGINS: "".join(f"[{len(name.encode())}]{name}" for name in names)}
    return found


def _constants(model: OmFile) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for op in (op for graph in model.model_def.graph for op in graph.op if op.type in ("Const", "Constant")):
        desc = op.attr["value"].t.desc
        rows[op.name] = {
            "index": len(rows),
            "type": "INTERNAL",
            "file_name": "constant_0",
            "offset": desc.data_offset,
            "size": desc.weight_size,
            "op_name": op.name,
        }
    return {"internal_weight_size": len(model.weights), "consts": rows}
