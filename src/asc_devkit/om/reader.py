"""Reading an `.om`: memory-mapped, every offset checked, weights delivered lazily in their origin layout."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError, Message

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.formats import PLAIN, storage_shape
from asc_devkit.ge.layout import from_storage
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.ge.proto import task_pb2
from asc_devkit.om import attr_compression, attributes, container, inout, vendor
from asc_devkit.om.container import Header, Part, Partition, broken
from asc_devkit.om.decode import case_of, gears_of, layout_of, to_ir
from asc_devkit.om.vendor import Guess

MAX_GROUPS: Final = 1 << 20
MAX_MESSAGE: Final = (1 << 31) - 1  # protobuf reads no more
_M = TypeVar("_M", bound=Message)


@dataclass
class OmFile:
    """An opened offline model. Parts are parsed when first asked for; ``data`` stays mapped as long as this lives."""

    path: Path
    data: memoryview
    header: Header
    partitions: tuple[Partition, ...]
    head: int = 0  # where the header lies: not at the start of an archive

    def part(self, kind: Part) -> memoryview:
        """Bytes of the first model's partition of this type; empty when absent."""
        for partition in self.partitions:
            if partition.type == kind and partition.model == 0:
                return self.data[partition.offset : partition.offset + partition.size]
        return memoryview(b"")

    @cached_property
    def raw_model_def(self) -> pb.ModelDef:
        """The model definition exactly as stored (attributes may be compressed)."""
        return _parse(pb.ModelDef(), self.part(Part.MODEL_DEF), "model definition")

    @cached_property
    def model_def(self) -> pb.ModelDef:
        """The model definition with readable attributes."""
        if not attr_compression.is_compressed(self.raw_model_def):
            return self.raw_model_def
        plain = pb.ModelDef()
        plain.CopyFrom(self.raw_model_def)
        attr_compression.decompress(plain)
        return plain

    @cached_property
    def task_def(self) -> task_pb2.ModelTaskDef:
        return _parse(task_pb2.ModelTaskDef(), self.part(Part.TASK_INFO), "task list")

    @cached_property
    def in_out(self) -> inout.InOut:
        return inout.decode(self.part(Part.MODEL_INOUT_INFO))

    @property
    def inputs(self) -> tuple[inout.TensorInfo, ...]:
        return self.in_out.inputs

    @property
    def outputs(self) -> tuple[inout.TensorInfo, ...]:
        return self.in_out.outputs

    @property
    def weights(self) -> memoryview:
        return self.part(Part.WEIGHTS_DATA)

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """ModelDef attributes as Python values (soc_version, memory_size, atc_cmdline, ...)."""
        return {key: attributes.python_value(self.model_def.attr[key]) for key in sorted(self.model_def.attr)}

    @cached_property
    def gears(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """Input shapes by name for each gear of a model that was converted for several; empty for static models."""
        return gears_of(self.model_def)

    def to_ir(self, gear: int | None = None) -> ir.Model:
        """The graph as IR, or with ``gear`` the static graph of one gear; the vendor's operators in the catalogue's terms.

        Weights are views of the file (plain formats) or converted back when asked for.

        Raises ``AscError`` for every inconsistency, and for several models in one file (dynamic shapes).
        """
        if self.header.is_unknow_model or self.header.model_num > 1:
            raise AscError(
                Problem(
                    "E10055",
                    "The model has dynamic shapes (several models in one file), which cannot be executed yet.",
                    fix="Convert with fixed --input_shape.",
                )
            )
        return self._decoded(gear)[0]

    def guesses(self, gear: int | None = None) -> list[Guess]:
        """What the graph that ``to_ir`` gives rests on beyond what the file says; empty for files written here."""
        return self._decoded(gear)[1]

    @property
    def is_ours(self) -> bool:
        """True for files that this toolkit has written."""
        found = self.model_def.attr["atc_version"].s if "atc_version" in self.model_def.attr else b""
        return bool(found.startswith(b"asc-devkit"))

    def as_stored(self, gear: int | None = None) -> ir.Model:
        """The graph exactly as the file has it: also of the vendor's files with their fused and unclear operators."""
        return to_ir(self.model_def, self._weight, gear)

    def _decoded(self, gear: int | None) -> tuple[ir.Model, list[Guess]]:
        model = self.as_stored(gear)
        if self.is_ours:
            return model, []
        definition = self.model_def.graph[0]
        if gear is not None:
            chooser = case_of(self.model_def)
            assert chooser is not None
            definition = next(g for g in self.model_def.graph if g.name == chooser.subgraph_name[gear])
        return model, vendor.adapt(model.graph, definition)

    def _weight(self, name: str, desc: pb.TensorDescriptor) -> ir.TensorProtocol:
        row = dtypes.of_proto(desc.dtype)
        if row is None or row.ir is None or row.numpy is None:
            raise broken(f"constant {name} has an unknown element type {desc.dtype}")
        stored = tuple(desc.shape.dim)
        size = dtypes.nbytes(attributes.elements(stored, f"constant {name}"), row.ir)
        offset = desc.attr["merged_offset"].i if "merged_offset" in desc.attr else desc.data_offset
        pool = self.weights
        if desc.weight_size != size or offset < 0 or offset + size > len(pool):
            raise broken(f"constant {name} should have {size} bytes at {offset} of a pool of {len(pool)}")
        raw = pool[offset : offset + size]
        if row.ir == ir.DataType.INT4:
            return ir.LazyTensor(lambda: _int4(raw, stored), dtype=row.ir, shape=ir.Shape(stored), name=name)
        flat = np.frombuffer(raw, dtype=row.numpy)
        layout = layout_of(desc)
        if layout is None or layout.format in PLAIN:
            return ir.Tensor(flat.reshape(stored), dtype=row.ir, name=name)
        shape = tuple(desc.attr["origin_shape"].list.i)
        if any(d < 1 for d in shape) or not 1 <= layout.groups <= MAX_GROUPS:
            raise broken(f"constant {name} has the origin shape {list(shape)} in {layout.groups} groups")
        if storage_shape(shape, layout.origin_format, layout.format, row.ir, layout.groups) != stored:
            raise broken(f"constant {name} of shape {list(shape)} does not fill {layout.format} {list(stored)}")
        return ir.LazyTensor(
            lambda: ir.Tensor(
                from_storage(flat, layout.format, shape, layout.origin_format, layout.groups), dtype=row.ir, name=name
            ),
            dtype=row.ir,
            shape=ir.Shape(shape),
            name=name,
        )

    def to_bytes(self) -> bytes:
        """The file rebuilt from its parsed parts; equal to the file for files written here."""
        parsed = {
            Part.MODEL_INOUT_INFO: inout.encode(self.in_out),
            Part.MODEL_DEF: self.raw_model_def.SerializeToString(deterministic=True),
            Part.TASK_INFO: self.task_def.SerializeToString(deterministic=True),
        }
        replaced = {
            index: parsed[Part(p.type)]
            for index, p in enumerate(self.partitions)
            if p.model == 0 and p.type in list(parsed)
        }
        return b"".join(self._pieces(replaced))

    def rewrite(self, path: str | PathLike[str], *, compressed: bool) -> None:
        """Write the file again with attribute names compressed (as the vendor writes them) or readable.

        Only model definitions change; weights are streamed from this file. Raises ``AscError`` on bad name tables.
        """
        replaced = {}
        for index, p in enumerate(self.partitions):
            if p.type == Part.MODEL_DEF:
                definition = _parse(pb.ModelDef(), self.data[p.offset : p.offset + p.size], "model definition")
                (attr_compression.compress if compressed else attr_compression.decompress)(definition)
                replaced[index] = definition.SerializeToString(deterministic=True)
        with files.atomic_writer(path) as handle:
            for piece in self._pieces(replaced):
                handle.write(piece)

    def _pieces(self, replaced: Mapping[int, bytes]) -> Iterator[bytes | memoryview]:
        """Header, then table and partitions of each model; ``replaced`` has new content by partition index."""
        models: dict[int, list[tuple[int, bytes | memoryview]]] = {}
        for index, p in enumerate(self.partitions):
            body = replaced.get(index, self.data[p.offset : p.offset + p.size])
            models.setdefault(p.model, []).append((p.type, body))
        tables = [container.table_bytes([(kind, len(body)) for kind, body in parts]) for parts in models.values()]
        payload = sum(map(len, tables)) + sum(len(body) for parts in models.values() for _, body in parts)
        yield container.renewed_header(bytes(self.data[self.head : self.head + container.HEADER_BYTES]), payload)
        for table, parts in zip(tables, models.values(), strict=True):
            yield table
            yield from (body for _, body in parts)


def read(path: str | PathLike[str]) -> OmFile:
    """Open an offline model, or an `.om2` archive of one.

    Raises ``AscError`` when the file is missing, not an `.om`, damaged or encrypted.
    """
    target = Path(path)
    try:
        with target.open("rb") as handle:
            size = handle.seek(0, 2)
            data = memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)) if size else memoryview(b"")
    except OSError as error:
        raise AscError(
            Problem("E13001", f"Cannot open {target}: {error.strerror}.", fix="Check the path.", nodes=(str(target),))
        ) from error
    return parse(data, target)


def parse(data: memoryview, path: str | PathLike[str] = "model") -> OmFile:
    """An offline model in memory; ``path`` is only its name. Raises ``AscError`` when it is none, damaged or encrypted."""
    from asc_devkit.om import archive  # stands above this module

    if archive.is_archive(data):
        return archive.read(Path(path), data)
    header = container.read_header(data)
    return OmFile(Path(path), data, header, container.read_partitions(data, header))


def _parse(message: _M, raw: memoryview, what: str) -> _M:
    if len(raw) > MAX_MESSAGE:
        raise broken(f"its {what} has {len(raw)} bytes, more than 2 GiB")
    try:
        message.ParseFromString(bytes(raw))
    except (DecodeError, UnicodeDecodeError) as error:
        raise broken(f"its {what} cannot be parsed") from error
    return message


def _int4(raw: memoryview, shape: tuple[int, ...]) -> ir.TensorProtocol:
    packed = np.frombuffer(raw, np.uint8)
    halves = np.stack([packed & 0xF, packed >> 4], axis=1).ravel().astype(np.int8)
    count = int(np.prod(shape, dtype=np.int64))
    values = np.where(halves > 7, halves - 16, halves)[:count].reshape(shape)
    kind = dtypes.of_ir(ir.DataType.INT4).numpy
    return ir.Tensor(values.astype(kind), dtype=ir.DataType.INT4)
