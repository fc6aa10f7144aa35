"""What is written is read back, byte for byte and value for value, and nothing in a file is trusted."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit import om
from asc_devkit.atc.select import groups
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import DESC, ENGINE, MEMBERS, ORIGIN_OPS, ORIGIN_TENSOR, PASSES, Engine
from asc_devkit.om import attr_compression, container, inout
from tests.om.graphs import model

INFO = om.ModelInfo("m", "Ascend310P3", atc_cmdline="atc --model=m.onnx")


@pytest.fixture
def fused() -> ir.Model:
    made = model()
    assert groups.collapse(made) == 1
    return made


@pytest.fixture
def written(fused: ir.Model, tmp_path: Path) -> Path:
    om.write(tmp_path / "m.om", fused, INFO)
    return tmp_path / "m.om"


def test_the_header_is_laid_out_as_real_files_are(written: Path) -> None:
    raw = written.read_bytes()
    assert raw[:4] == b"IMOD"
    assert struct.unpack_from("<II", raw, 4) == (256, 0x20000000)
    assert raw[84:85] == b"m"
    assert struct.unpack_from("<II", raw, 152) == (2, 1)  # om_ir_version, model_num
    assert struct.unpack_from("<Q", raw, 184) == (len(raw) - 256,)
    count, _ = struct.unpack_from("<II", raw, 256)
    kinds = [struct.unpack_from("<IIQQ", raw, 264 + 24 * i)[0] for i in range(count)]
    assert kinds == [8, 0, 1, 2]


def test_inputs_outputs_and_attributes_can_be_asked_for(written: Path) -> None:
    file = om.read(written)
    assert [(t.name, t.shape, t.acl_dtype) for t in file.inputs] == [("x", (1, 3, 8, 8), 1), ("z", (4, 20), 1)]
    assert [t.name for t in file.outputs] == ["grouped:0:grouped_y", "host:0:host_y"]
    assert [t.size for t in file.inputs] == [3 * 64 * 2, 4 * 20 * 2]
    assert file.attrs["soc_version"] == "Ascend310P3"
    assert file.attrs["atc_cmdline"] == "atc --model=m.onnx"
    assert file.attrs["asc_overflow_mode"] == "saturate"
    assert file.attrs["weight_size"] == len(file.weights)


def test_the_graph_comes_back_with_names_types_formats_members_and_weights(fused: ir.Model, written: Path) -> None:
    back = om.read(written).to_ir().graph
    assert [n.name for n in back] == [n.name for n in fused.graph]
    assert [n.op_type for n in back] == ["Conv2D", "Conv2D", "MatMulV2", "Hardmax"]
    conv = back[0]
    assert [m.op_type for m in conv.attributes[MEMBERS].as_graph()] == ["Conv2D", "Relu"]
    assert conv.meta[ORIGIN_OPS] == (("conv", "Conv2D"), ("relu", "Relu"))
    assert conv.meta[PASSES] == ("TbeConvCommonRules2FusionPass",)
    assert conv.meta[ENGINE] is Engine.CUBE
    assert conv.outputs[0].meta[ORIGIN_TENSOR] == "user_relu"
    assert back[3].domain == "" and back[3].meta[ENGINE] is Engine.HOST
    for name, value in fused.graph.initializers.items():
        again = back.initializers[name]
        assert again.const_value is not None and value.const_value is not None
        assert np.array_equal(again.const_value.numpy(), value.const_value.numpy()), name
        assert again.meta[DESC] == value.meta[DESC]
    assert list(conv.attributes["strides"].as_ints()) == [1, 1, 1, 1]


def test_a_file_is_rebuilt_byte_for_byte(written: Path, tmp_path: Path) -> None:
    file = om.read(written)
    assert file.to_bytes() == written.read_bytes()
    om.write(tmp_path / "again.om", file.to_ir(), INFO)
    assert (tmp_path / "again.om").read_bytes() == written.read_bytes()


def test_plain_weights_are_views_of_the_file(written: Path) -> None:
    bias = om.read(written).to_ir().graph.initializers["b1"].const_value
    assert bias is not None
    assert not bias.numpy().flags.owndata


def test_attribute_compression_is_undone_exactly(fused: ir.Model, tmp_path: Path) -> None:
    om.write(tmp_path / "plain.om", fused, INFO)
    om.write(tmp_path / "packed.om", fused, om.ModelInfo(**{**INFO.__dict__, "attr_compression": True}))
    plain, packed = om.read(tmp_path / "plain.om"), om.read(tmp_path / "packed.om")
    assert attr_compression.is_compressed(packed.raw_model_def)
    keys = {k for g in packed.raw_model_def.graph for op in g.op for k in op.attr}
    assert keys and all(k.startswith("\0") for k in keys)
    assert packed.model_def == plain.model_def
    assert [n.name for n in packed.to_ir().graph] == [n.name for n in plain.to_ir().graph]


def test_in_out_description_holds_gears_too() -> None:
    info = inout.InOut(
        inputs=(inout.TensorInfo("a", (-1, 3), 0, 2, 64, (-1, 3), ((1, 8), (3, 3))),),
        batch_gears=(1, 2, 4),
        image_gears=((224, 224), (448, 448)),
        dim_gears=((1, 2, 3),),
        output_shapes=("0:1,2",),
        user_order=("a",),
    )
    assert inout.decode(memoryview(inout.encode(info))) == info


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b"", "0 bytes"),
        (lambda b: b[:100], "100 bytes"),
        (lambda b: b"PK" + b[2:], "zip"),
        (lambda b: b"PICO" + b[4:], "PICO"),
        (lambda b: b[:80] + b"\1" + b[81:], "encrypted"),
        (lambda b: b[:-10], "promises"),
        (lambda b: b"\0" * 4 + b[4:], "IMOD"),
    ],
)
def test_foreign_and_damaged_files_are_named(written: Path, change: Any, words: str) -> None:
    written.write_bytes(change(written.read_bytes()))
    with pytest.raises(AscError, match=words):
        om.read(written)


def test_five_hundred_mutated_files_give_an_error_or_a_graph(written: Path, tmp_path: Path) -> None:
    raw = written.read_bytes()
    rng = random.Random(7)
    outcome = {"read": 0, "refused": 0}
    for _ in range(500):
        data = bytearray(raw)
        kind = rng.randrange(3)
        if kind == 0:
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            start = rng.randrange(256, len(data))
            del data[start : start + rng.randint(1, 64)]
            struct.pack_into("<Q", data, 184, len(data) - 256)
        else:
            position = rng.randrange(0, 360, 4)
            struct.pack_into("<I", data, position, rng.choice((0, 1, 2**31, 2**32 - 1, 7)))
        path = tmp_path / "mutant.om"
        path.write_bytes(bytes(data))
        try:
            file = om.read(path)
            graph = file.to_ir().graph
            for value in graph.initializers.values():
                assert value.const_value is not None
                value.const_value.numpy()
            assert file.inputs is not None and file.task_def is not None
            outcome["read"] += 1
        except AscError:
            outcome["refused"] += 1
    print(outcome)
    assert outcome["read"] > 50 and outcome["refused"] > 50


def test_a_partition_that_runs_over_the_end_is_refused(written: Path) -> None:
    raw = bytearray(written.read_bytes())
    struct.pack_into("<Q", raw, 256 + 8 + 16, 1 << 60)
    written.write_bytes(bytes(raw))
    with pytest.raises(AscError, match="partition"):
        om.read(written)


def test_header_constants() -> None:
    assert len(container.header_bytes("a" * 80, 5)) == 256
