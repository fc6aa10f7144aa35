"""``load``: a model file in, the canonical IR out (see ``docs/architecture.md``), or one error that says it all."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Final

import onnx
import onnx.parser
import onnx_ir as ir
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.onnx.bind import Dynamic, bind_shapes, select_outputs
from asc_devkit.frontends.onnx.build import build
from asc_devkit.frontends.onnx.findings import Findings, NotText, fault, text
from asc_devkit.frontends.onnx.inline import inline
from asc_devkit.frontends.onnx.names import name_everything
from asc_devkit.frontends.onnx.sniff import HEAD_BYTES, foreign, is_onnx_text_syntax, looks_like_onnx_text
from asc_devkit.frontends.onnx.tensors import TensorReader, map_file
from asc_devkit.frontends.onnx.upgrade import upgrade
from asc_devkit.frontends.onnx.wire import WireError, split
from asc_devkit.ops.acceptance import OriginalNode

NEWEST_IR: Final = 14
MAX_TEXT_BYTES: Final = 64 << 20
MAX_TEXT_NESTING: Final = 200
_AGAIN = "fetch the file again and compare its size; for Git LFS repositories run: git lfs pull"


@dataclass(frozen=True)
class Original:
    """Facts about the file as it was. ``nodes`` counts operators by type, constants and subgraphs included.

    ``inputs``/``outputs``: name -> (element type or "", declared dimensions: number, symbol or None; None = no shape).
    """

    path: Path
    bytes: int
    ir_version: int
    opset: int
    domains: Mapping[str, int]
    producer: str
    nodes: Mapping[str, int]
    functions: int
    inputs: Mapping[str, tuple[str, tuple[int | str | None, ...] | None]]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Loaded:
    """A model in canonical form. ``dynamic``: inputs with open axes (name -> axes; () = rank unknown)."""

    model: ir.Model
    warnings: tuple[str, ...]
    original: Original
    dynamic: Dynamic


def load(
    path: str | Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    out_nodes: Sequence[str] | None = None,
    host_ops: bool = False,
    allow_empty: bool = False,
    data: bytes | None = None,
) -> Loaded:
    """Read an ONNX model (IR up to 14, opset 1 to 28, binary or textual) and bring it to canonical form.

    Weights stay in the file (memory-mapped); external data must lie in the model's folder. ``input_shapes`` fixes open
    axes (-1 leaves one open), ``out_nodes`` chooses outputs (``tensor`` or ``node:index``). ``host_ops``:
    what only a host can run is let through: operator forms newer than the canonical opset (in ``newer_domain``), texts,
    sequences and optionals as inputs and outputs. ``allow_empty``: ``input_shapes`` may hold 0. ``data``: the content, when
    another front end has made the model of the file. Raises ``AscError`` with
    all problems of the step that failed; no other exception leaves for any content of the file.
    """
    path = Path(path)
    warnings: list[str] = []
    content = _read(path) if data is None else data
    try:
        proto, reader = _parse(path, content)
        original = _original(path, len(content), proto)
        model, dynamic = _canonical(proto, reader, warnings, input_shapes or {}, out_nodes, host_ops, allow_empty)
    except NotText as error:
        raise AscError(_damaged(path, f"a name in it is not UTF-8 text: {error}")) from error
    except RecursionError as error:
        raise AscError(_damaged(path, "its subgraphs or functions are nested too deeply")) from error
    return Loaded(model, tuple(warnings), original, dynamic)


def original_nodes(path: str | Path) -> list[OriginalNode]:
    """Every node of the file as it stands, those of bodies and local functions included. Raises ``AscError``."""
    path = Path(path)
    try:
        proto, _ = _parse(path, _read(path))
        domains = {o.domain: o.version for o in proto.opset_import}
        found = list(_nodes(proto.graph.node, domains, ""))
        for function in proto.functions:
            own = {**domains, **{o.domain: o.version for o in function.opset_import}}
            found += _nodes(function.node, own, f"{text(function.name)}/")
    except NotText as error:
        raise AscError(_damaged(path, f"a name in it is not UTF-8 text: {error}")) from error
    except RecursionError as error:
        raise AscError(_damaged(path, "its subgraphs are nested too deeply")) from error
    local = {(f.domain, f.name) for f in proto.functions}
    return [node for node in found if (node.domain, node.op_type) not in local]


def _nodes(nodes: Iterable[onnx.NodeProto], domains: Mapping[str, int], prefix: str) -> Iterator[OriginalNode]:
    for node in nodes:
        domain = "" if node.domain == "ai.onnx" else text(node.domain)
        opset = domains.get(node.domain, domains.get("ai.onnx", 1) if not domain else 1)
        name = text(node.name) or next((text(o) for o in node.output if o), "")
        yield OriginalNode(domain, text(node.op_type), opset, prefix + name)
        for item in node.attribute:
            for body in (*([item.g] if item.HasField("g") else []), *item.graphs):
                yield from _nodes(body.node, domains, prefix)


def _canonical(
    proto: onnx.ModelProto,
    reader: TensorReader,
    warnings: list[str],
    input_shapes: Mapping[str, Sequence[int]],
    out_nodes: Sequence[str] | None,
    host_ops: bool,
    allow_empty: bool,
) -> tuple[ir.Model, Dynamic]:
    findings = Findings()
    if proto.ir_version > NEWEST_IR:
        findings.extra.append(
            fault(
                "E16005",
                f"the model uses ONNX IR version {proto.ir_version}; versions up to {NEWEST_IR} are known",
                "export it for an older IR version (model.ir_version = 10), or update asc-devkit",
                cause="it was written by a newer ONNX release",
            )
        )
    if not proto.HasField("graph"):
        findings.extra.append(fault("E16004", "the model contains no graph", _AGAIN, cause="the file is damaged"))
    findings.raise_if_any()
    model = build(proto, reader, findings, any_type=host_ops)
    findings.extra += reader.missing_files
    findings.raise_if_any()
    inline(model, findings)
    findings.raise_if_any()
    names = name_everything(model.graph)
    dynamic = bind_shapes(model, input_shapes, warnings, allow_empty)
    if out_nodes is not None:
        select_outputs(model, out_nodes)
    upgrade(model, names, findings, warnings, keep_newer=host_ops)
    findings.raise_if_any()
    return model, dynamic


# --- the file -------------------------------------------------------------------------------------------------------


def _read(path: Path) -> bytes | mmap:
    what, fix = "", "check the path given with --model"
    try:
        if path.is_dir():
            found = sorted(p.name for p in path.glob("*.onnx"))[:5]
            what = "it is a folder"
            fix = f"give the file inside it: {', '.join(found)}" if found else "give the .onnx file"
        else:
            return map_file(path)
    except FileNotFoundError:
        what = "there is no such file"
    except OSError as error:
        what = error.strerror or str(error)
    except ValueError:
        what = "that is no valid path"
    raise AscError(fault("E10041", f"cannot read the model {str(path)!r}: {what}", fix, str(path)))


def _parse(path: Path, data: bytes | mmap) -> tuple[onnx.ModelProto, TensorReader]:
    """The model message without its bulk, and the reader that knows where the bulk is."""
    head = bytes(data[:HEAD_BYTES])
    other = foreign(head, len(data), path)
    if other is not None:
        what = f"{str(path)!r} is not an ONNX model but {other.what}"
        raise AscError(fault("E10041", what, other.fix, str(path)))
    if looks_like_onnx_text(head):
        data = _from_text(path, data)
    proto = onnx.ModelProto()
    try:
        parts = split(data, secrets.token_hex(16))
        proto.ParseFromString(parts.skeleton)
    except WireError as error:
        where = f"{error.what} (at byte {error.offset} of {len(data)})"
        if error.truncated:
            raise AscError(_damaged(path, f"it is cut off: {where}", "an interrupted download or copy")) from error
        raise AscError(_damaged(path, where)) from error
    except DecodeError as error:
        raise AscError(_damaged(path, "the protobuf parser rejects it")) from error
    if not proto.HasField("graph") and not proto.opset_import and not proto.HasField("ir_version"):
        raise AscError(_damaged(path, "nothing in it belongs to an ONNX model"))
    folder = path.parent.absolute()
    folders = tuple(dict.fromkeys((folder.resolve(), path.resolve().parent)))
    return proto, TensorReader(data, parts, folders)


def _from_text(path: Path, data: bytes | mmap) -> bytes:
    if len(data) > MAX_TEXT_BYTES:
        raise AscError(_damaged(path, "textual models are limited to 64 MiB", fix="save it as binary .onnx"))
    if _nesting(bytes(data)) > MAX_TEXT_NESTING:  # the parsers are recursive and would run out of stack
        raise AscError(_damaged(path, f"its brackets are nested more than {MAX_TEXT_NESTING} deep"))
    try:
        content = bytes(data).decode()
        if is_onnx_text_syntax(bytes(data[:HEAD_BYTES])):
            proto = onnx.parser.parse_model(content)
        else:
            proto = text_format.Parse(content, onnx.ModelProto())
    except (onnx.parser.ParseError, text_format.ParseError, ValueError, IndexError, RuntimeError) as error:
        said = error.args[0] if error.args else ""
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise AscError(_damaged(path, f"the text cannot be parsed: {said.strip()[:300]}")) from error
    return bytes(proto.SerializeToString())


def _nesting(data: bytes) -> int:
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{(<>)}\]]", data):
        depth = depth + 1 if bracket in b"[{(<" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _damaged(path: Path, what: str, cause: str = "the file is damaged or not ONNX", fix: str = _AGAIN) -> Problem:
    return fault("E10041", f"{str(path)!r} cannot be read as an ONNX model: {what}", fix, str(path), cause=cause)


def _original(path: Path, size: int, proto: onnx.ModelProto) -> Original:
    counts: Counter[str] = Counter()
    stack = [proto.graph.node, *(f.node for f in proto.functions)]
    while stack:
        for node in stack.pop():
            kind, domain = text(node.op_type), node.domain
            counts[kind if domain in ("", "ai.onnx") else f"{domain}::{kind}"] += 1
            for item in node.attribute:
                if item.HasField("g"):
                    stack.append(item.g.node)
                stack += [g.node for g in item.graphs]
    weights = {t.name for t in proto.graph.initializer}
    domains = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
    return Original(
        path=path,
        bytes=size,
        ir_version=proto.ir_version,
        opset=domains.get("", 1 if proto.ir_version < 3 else 0),
        domains=domains,
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        nodes=dict(counts),
        functions=len(proto.functions),
        inputs={text(i.name): _declared(i) for i in proto.graph.input if i.name not in weights},
        outputs=tuple(text(o.name) for o in proto.graph.output),
    )


def _declared(info: onnx.ValueInfoProto) -> tuple[str, tuple[int | str | None, ...] | None]:
    tensor = info.type.tensor_type
    known = onnx.TensorProto.DataType.values()
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type) if tensor.elem_type in known else ""
    if not tensor.HasField("shape"):
        return kind, None
    dims: list[int | str | None] = []
    for dim in tensor.shape.dim:
        dims.append(dim.dim_value if dim.HasField("dim_value") else text(dim.dim_param) or None)
    return kind, tuple(dims)
