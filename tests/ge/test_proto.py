"""The compiled protobuf modules say what the .proto texts say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from asc_devkit.ge import proto
from asc_devkit.ge.proto import aipp_pb2, ge_ir_pb2, task_pb2

FOLDER = Path(proto.__file__).parent
FIELD = re.compile(r"^\s*(?:(?:repeated|optional)\s+)?(?:map<[^>]+>|[\w.]+)\s+(\w+)\s*=\s*(\d+);", re.M)


def _compiled(messages: dict[str, Descriptor]) -> set[tuple[str, int]]:
    found = set()
    for message in messages.values():
        if not message.GetOptions().map_entry:
            found |= {(f.name, f.number) for f in message.fields}
            found |= _compiled(dict(message.nested_types_by_name))
    return found


@pytest.mark.parametrize(
    ("text", "module"), [("ge_ir.proto", ge_ir_pb2), ("task.proto", task_pb2), ("aipp.proto", aipp_pb2)]
)
def test_field_names_and_numbers_match_the_text(text: str, module: object) -> None:
    source = (FOLDER / text).read_text()
    source = re.sub(r"enum \w+ \{[^}]*\}", "", source)
    declared = {(name, int(number)) for name, number in FIELD.findall(source)}
    assert declared == _compiled(dict(module.DESCRIPTOR.message_types_by_name))  # type: ignore[attr-defined]


def test_field_numbers_are_those_of_real_files() -> None:
    """Spot checks against numbers read from compiled models."""
    op = ge_ir_pb2.OpDef.DESCRIPTOR.fields_by_name
    assert (op["input"].number, op["attr"].number, op["input_i"].number, op["subgraph_name"].number) == (5, 10, 28, 35)
    desc = ge_ir_pb2.TensorDescriptor.DESCRIPTOR.fields_by_name
    assert (desc["layout"].number, desc["weight_size"].number, desc["data_offset"].number) == (4, 11, 18)
    assert ge_ir_pb2.ModelDef.DESCRIPTOR.fields_by_name["graph"].number == 7
    assert task_pb2.TaskDef.DESCRIPTOR.fields_by_name["kernel"].number == 20
