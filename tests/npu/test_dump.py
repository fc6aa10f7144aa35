"""Dumped files: names, contents, index, both ways of writing."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from asc_devkit import npu
from asc_devkit.errors import AscError
from asc_devkit.npu import dump
from tests.npu.build import Array, compiled, proto

X = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module", params=[("Ascend310P3", "force_fp16"), ("Ascend910B2", "allow_mix_precision_bf16")])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> npu.Session:
    w = np.random.default_rng(1).standard_normal((16, 16, 3, 3)).astype(np.float32)
    long = "very/long.name/" * 20
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "block/conv.1", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["y"], long),
    ]
    model = proto(nodes, {"x": X.shape}, {"y": (1, 16, 7, 7)}, {"w": w})
    soc, mode = request.param
    return npu.load(compiled(model, tmp_path_factory.mktemp("dump"), soc, mode), threads=1)


def _stored(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def test_every_operator_output_is_there_and_named(session: npu.Session, tmp_path: Path) -> None:
    session.run({"x": X}, dump=tmp_path / "d")
    _, values = session.run_with_values({"x": X})
    index = json.loads((tmp_path / "d" / "index.json").read_text())
    assert index["schema"] == "asc-devkit/dump/1"
    assert {row["tensor"] for row in index["tensors"]} == set(values)
    for row in index["tensors"]:
        stored = np.load(tmp_path / "d" / row["file"])
        assert stored.tobytes() == _stored(values[row["tensor"]]).tobytes()
        assert list(stored.shape) == row["shape"]
        if not row["long_name"]:
            kind, _, task, stream, stamp, word, number, suffix = row["file"].split(".")
            assert (kind, word, suffix, stream) == (row["op_type"], "output", "npy", "0")
            assert task.isdecimal()
            assert number == str(row["output"])
            assert len(stamp) == 16


def test_fused_members_and_long_names_are_in_the_index(session: npu.Session, tmp_path: Path) -> None:
    session.run({"x": X}, dump=tmp_path)
    rows = json.loads((tmp_path / "index.json").read_text())["tensors"]
    (conv,) = [r for r in rows if r["op_type"] == "Conv2D"]
    assert [kind for _, kind in conv["members"]] == ["Conv2D", "Relu"]
    assert [kind for _, kind in conv["origin_ops"]] == ["Conv", "Relu"]
    (long,) = [r for r in rows if r["long_name"]]
    assert len(long["file"]) <= 255
    assert f"{long['file']},{long['long_name']}" in (tmp_path / "mapping.csv").read_text()


def test_raw_files_hold_the_device_bytes(session: npu.Session, tmp_path: Path) -> None:
    session.run({"x": X}, dump=tmp_path, dump_format="bin")
    _, values = session.run_with_values({"x": X})
    rows = json.loads((tmp_path / "index.json").read_text())["tensors"]
    for row in rows:
        assert (tmp_path / row["file"]).read_bytes() == values[row["tensor"]].tobytes()
    assert any(row["file"].startswith("block_conv_1.0.") for row in rows)


@pytest.mark.parametrize("fmt", ["npy", "bin"])
def test_big_dumps_are_mapped_and_equal(
    session: npu.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fmt: str
) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        session.run({"x": X}, dump=folder, dump_format=fmt)
        rows = json.loads((folder / "index.json").read_text())["tensors"]
        return {row["tensor"]: (folder / row["file"]).read_bytes() for row in rows}

    in_memory = contents(tmp_path / "a")
    monkeypatch.setattr(dump, "IN_MEMORY", 0)
    assert contents(tmp_path / "b") == in_memory


def test_a_second_dump_replaces_the_first(session: npu.Session, tmp_path: Path) -> None:
    (tmp_path / "mine.npy").write_bytes(b"not ours")
    session.run({"x": X}, dump=tmp_path)
    once = len(list(tmp_path.iterdir()))
    session.run({"x": X}, dump=tmp_path)
    assert len(list(tmp_path.iterdir())) == once
    assert (tmp_path / "mine.npy").read_bytes() == b"not ours"


@pytest.mark.provokes("ASC4004", "ASC4005")
def test_a_failed_run_leaves_nothing(session: npu.Session, tmp_path: Path) -> None:
    with pytest.raises(AscError):
        session.run({"x": X[:, :3]}, dump=tmp_path / "d")
    with pytest.raises(AscError):
        session.run({"x": X}, dump=tmp_path / "d", dump_format="csv")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(AscError, match="Cannot write"):
        session.run({"x": X}, dump=tmp_path / "file")


def test_an_index_made_by_others_deletes_nothing_outside(session: npu.Session, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    folder = tmp_path / "d"
    folder.mkdir()
    rows = [{"file": "../victim"}, {"file": str(victim)}, {"file": ".."}]
    (folder / "index.json").write_text(json.dumps({"schema": dump.SCHEMA, "tensors": rows}))
    session.run({"x": X}, dump=folder)
    assert victim.read_text() == "keep"
