"""Files made to hurt: each is refused with a reason, quickly and within bounded memory."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit import om
from asc_devkit.atc.select import groups
from asc_devkit.errors import AscError
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om import attr_compression, attributes, container
from asc_devkit.om.container import Part
from tests.om.graphs import model

Change = Callable[[pb.ModelDef], None]


def rebuilt(tmp_path: Path, change: Change) -> Path:
    """The hand-built model with a changed model definition, its lengths all correct."""
    made = model()
    groups.collapse(made)
    path = tmp_path / "m.om"
    om.write(path, made, om.ModelInfo("m", "Ascend310P3"))
    file = om.read(path)
    definition = pb.ModelDef()
    definition.CopyFrom(file.raw_model_def)
    change(definition)
    parts = [
        (p.type, definition.SerializeToString() if p.type == Part.MODEL_DEF else bytes(file.part(Part(p.type))))
        for p in file.partitions
    ]
    body = container.table_bytes([(kind, len(raw)) for kind, raw in parts]) + b"".join(raw for _, raw in parts)
    path = tmp_path / "changed.om"  # the first file stays mapped
    path.write_bytes(container.header_bytes("m", len(body)) + body)
    return path


def op(definition: pb.ModelDef, name: str) -> pb.OpDef:
    return next(o for o in definition.graph[0].op if o.name == name)


def _bodies_within_bodies(definition: pb.ModelDef) -> None:
    """Each graph of a chain names the next one twice: 2**20 bodies if they were unrolled."""
    for level in range(20):
        graph = definition.graph.add(name=f"level{level}")
        node = graph.op.add(name="n", type="ai.onnx::If")
        node.subgraph_name.extend([f"level{level + 1}"] * 2)
        node.attr["_subgraph_attrs"].list.s.extend([b"then_branch", b"else_branch"])
    host = op(definition, "host")
    host.subgraph_name.append("level0")
    host.attr["_subgraph_attrs"].list.s.append(b"body")


def _weight(name: str, **changes: object) -> Change:
    def change(definition: pb.ModelDef) -> None:
        desc = op(definition, name).attr["value"].t.desc
        for field, value in changes.items():
            if field == "shape":
                desc.shape.dim[:] = value  # type: ignore[call-overload]
            elif field == "origin":
                desc.attr["origin_shape"].list.i[:] = value  # type: ignore[call-overload]
            else:
                setattr(desc, field, value)

    return change


def _cycle(definition: pb.ModelDef) -> None:
    op(definition, "conv").input[0] = "grouped:0"


def _missing_member_input(definition: pb.ModelDef) -> None:
    del op(definition, "conv").input[2]


def _twins(definition: pb.ModelDef) -> None:
    op(definition, "host").name = "conv"


def _crooked_tensor(definition: pb.ModelDef) -> None:
    tensor = op(definition, "host").attr["t"].t
    tensor.desc.dtype = pb.DT_FLOAT
    tensor.desc.shape.dim.append(2)
    tensor.data = b"12345"


def _two_graph_sizes(definition: pb.ModelDef) -> None:
    op(definition, "conv").output_desc[0].shape.dim[:] = [1 << 62] * 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_bodies_within_bodies, "another's too"),
        (_cycle, "cycle"),
        (_missing_member_input, "members differ"),
        (_twins, "same name"),
        (_crooked_tensor, "5 bytes"),
        (_two_graph_sizes, "has the shape"),
        (_weight("b1", data_offset=-512), "at -512"),
        (_weight("b1", data_offset=1 << 40), "of a pool of"),
        (_weight("b1", weight_size=1 << 40), "should have 40 bytes"),
        (_weight("b1", shape=[0, 1 << 62, 1 << 62]), "has the shape"),
        (_weight("b1", shape=[1] * 65), "has the shape"),
        (_weight("b1", shape=[-20]), "has the shape"),
        (_weight("b1", dtype=13), "string|strings|fit"),
        (_weight("w1", layout="FRACTAL_Z:7"), "groups"),
        (_weight("w1", layout="FRACTAL_Z_C04"), "does not fill|cannot be laid out"),
        (_weight("w1", layout="NO_SUCH"), "not known"),
        (_weight("w1", origin=[20, 3, 3]), "cannot be laid out"),
        (_weight("w1", origin=[20, 0, 3, 3]), "origin shape"),
        (_weight("w2", layout="FRACTAL_Z:99999999"), "groups"),
    ],
)
def test_each_lie_is_named(tmp_path: Path, change: Change, words: str) -> None:
    path = rebuilt(tmp_path, change)
    begin = time.perf_counter()
    with pytest.raises(AscError, match=words):
        om.read(path).to_ir()
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("key", ["\0\x7f\x7f\x7f\x7f\x7f\x7f\x7f", "\0\0", "\0", "\0\x05", "\0é"])
def test_attribute_numbers_outside_the_name_table_are_refused(key: str) -> None:
    definition = pb.ModelDef()
    definition.graph.add().op.add().attr["a"].i = 1
    attr_compression.compress(definition)
    definition.graph[0].op[0].attr[key].i = 1
    with pytest.raises(AscError, match="attribute number"):
        attr_compression.decompress(definition)


def test_a_decompression_bomb_is_refused() -> None:
    definition = pb.ModelDef()
    definition.attr[attr_compression.VERSION].i = 1
    definition.attr[attr_compression.NAMES].list.s.append(b"a" * (1 << 20))
    definition.attr[attr_compression.VALUES].list.s.append(b"b" * (1 << 20))
    definition.attr[attr_compression.FLAGS].list.b.append(True)
    graph = definition.graph.add()
    for _ in range(500):
        graph.op.add().attr["\0\1"].i = 0
    with pytest.raises(AscError, match="grow too much"):
        attr_compression.decompress(definition)
    graph.op[0].attr["\0\1"].list.i.extend([0] * 100)
    with pytest.raises(AscError, match="a list of its strings"):
        attr_compression.decompress(definition)


def test_strings_that_overlap_may_not_ask_for_more_than_the_file_has() -> None:
    stored = pb.TensorDef()
    attributes.tensor(ir.StringTensor(np.array([b"x" * 1000] * 3, dtype=object), shape=ir.Shape([3])), stored)
    data = bytearray(stored.data)
    for index in range(3):
        struct.pack_into("<qq", data, index * 16, 0, len(data))
    stored.data = bytes(data)
    with pytest.raises(AscError, match="outside its tensor"):
        attributes.inline(stored)
    stored.desc.shape.dim[0] = 1 << 50
    with pytest.raises(AscError, match="strings has"):
        attributes.inline(stored)


@pytest.mark.provokes("E13001")
def test_foreign_kinds_of_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.om"
    body = container.table_bytes([(20, 4), (21, 4)]) + b"12345678"
    path.write_bytes(container.header_bytes("m", len(body)) + body)
    with pytest.raises(AscError, match="exeom"):
        om.read(path)
    raw = bytearray(container.header_bytes("m", 0))
    raw[82] = 5
    path.write_bytes(bytes(raw))
    with pytest.raises(AscError, match="bundle"):
        om.read(path)
    with pytest.raises(AscError, match="Cannot open"):
        om.read(tmp_path)


def test_a_file_of_the_old_kind_is_read(tmp_path: Path) -> None:
    """Version 1: 4-byte table entries, no model length."""
    definition = pb.ModelDef(name="old")
    graph = definition.graph.add(name="old")
    graph.op.add(name="x", type="Data").output_desc.add(dtype=1).shape.dim.append(4)
    graph.op.add(name="out", type="NetOutput").input.append("x:0")
    body = definition.SerializeToString()
    head = bytearray(container.header_bytes("old", 0))
    struct.pack_into("<I", head, 8, 0x10000000)
    table = struct.pack("<I6I", 2, 0, 0, len(body), 1, len(body), 0)
    path = tmp_path / "old.om"
    path.write_bytes(bytes(head) + table + body)
    file = om.read(path)
    assert [v.name for v in file.to_ir().graph.outputs] == ["x"]
    file.rewrite(tmp_path / "new.om", compressed=True)
    again = om.read(tmp_path / "new.om")
    assert again.header.model_length == (tmp_path / "new.om").stat().st_size - 256
    assert again.model_def == file.model_def
