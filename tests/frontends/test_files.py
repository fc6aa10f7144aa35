"""Files that are not (complete) ONNX models, external data, and what reading costs."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from asc_devkit.errors import AscError
from asc_devkit.frontends.onnx import load
from tests.frontends.running import loaded, make, run_loaded, save
from tests.models import model_path

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD = helper.make_node("Add", ["x", "w"], ["y"])


def refuse(path: Path | str, **arguments: Any) -> str:
    """The whole text of the refusal, remedy included."""
    with pytest.raises(AscError) as caught:
        load(path, **arguments)
    assert caught.value.exit_code == 2
    assert all(p.code.startswith("E") and p.fix for p in caught.value.problems)
    return "\n".join(f"{p.what} | {p.cause} | {p.fix}" for p in caught.value.problems)


def _zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return buffer.getvalue()


def _graph_def() -> bytes:
    """tensorflow.GraphDef{node{name: "input", op: "Placeholder"}}"""
    node = b"\x0a\x05input\x12\x0bPlaceholder"
    return b"\x0a" + bytes([len(node)]) + node + b"\x22\x02\x08\x1b"


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123\n"
FOREIGN: list[tuple[str, bytes, str]] = [
    ("empty", b"", "an empty file"),
    ("zeros", bytes(4096), "zero bytes"),
    ("git-lfs", LFS, "git lfs pull"),
    ("html", b"<!DOCTYPE html>\n<html><head><title>Sign in</title>", "HTML"),
    ("html-spaces", b"\n\n  <html lang=en>", "HTML"),
    ("json", b'{"error": "not found"}', "JSON"),
    ("torch-zip", _zip("archive/data.pkl", "archive/data/0"), "PyTorch checkpoint"),
    ("torchscript", _zip("model/data.pkl", "model/constants.pkl"), "TorchScript"),
    ("zip-onnx", _zip("model.onnx"), "unpack"),
    ("torn-zip", _zip("model.onnx")[:30], "damaged zip"),
    ("pickle", pickle.dumps({"weight": [1.0, 2.0]}), "pickle"),
    ("om", b"IMOD" + bytes(300), "offline model"),
    ("tflite", b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite"),
    ("hdf5", b"\x89HDF\r\n\x1a\n" + bytes(40), "Keras"),
    ("graphdef", _graph_def(), "TensorFlow GraphDef"),
    ("tar", _tar(), "tar archive"),
    ("safetensors", (30).to_bytes(8, "little") + json.dumps({"w": {"dtype": "F32"}}).encode() * 3, "safetensors"),
    ("gguf", b"GGUF\3\0\0\0" + bytes(40), "GGUF"),
    ("prototxt", b'name: "LeNet"\nlayer {\n  name: "data"\n}', "Caffe"),
    ("python", b"import torch\nmodel = torch.nn.Linear(1, 1)\n", "Python"),
    ("prose", b"Please find the model attached.\n", "text file"),
    ("noise", bytes((i * 37 + 11) % 251 for i in range(500)), "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), [f[1:] for f in FOREIGN], ids=[f[0] for f in FOREIGN])
def test_foreign_files_are_named_with_what_to_do(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert expected in refuse(path)


def test_missing_files_folders_and_special_files_are_named(tmp_path: Path) -> None:
    assert "no such file" in refuse(tmp_path / "absent.onnx")
    (tmp_path / "a.onnx").write_bytes(b"x")
    assert "folder" in refuse(tmp_path) and "a.onnx" in refuse(tmp_path)
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "not a regular file" in refuse(tmp_path / "pipe.onnx")
    assert "not a regular file" in refuse("/dev/zero")
    assert "no valid path" in refuse("a\0b")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.999])
def test_a_truncated_download_is_called_that(share: float, tmp_path: Path) -> None:
    data = model_path("magika").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    text = refuse(path)
    assert "cut off" in text and "interrupted download" in text and "bytes more are announced" in text


def test_textual_models_are_read(tmp_path: Path) -> None:
    syntax = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }'
    (tmp_path / "m.onnxtxt").write_text(syntax)
    (tmp_path / "m.pbtxt").write_text(str(onnx.parser.parse_model(syntax)))
    for name in ("m.onnxtxt", "m.pbtxt"):
        assert [n.op_type for n in load(tmp_path / name).model.graph] == ["Relu"]
    (tmp_path / "bad.onnxtxt").write_text(syntax[:60])
    assert "cannot be parsed" in refuse(tmp_path / "bad.onnxtxt")
    (tmp_path / "deep.pbtxt").write_text("ir_version: 8 " + "graph { node { attribute { g {" * 90000)
    assert "nested" in refuse(tmp_path / "deep.pbtxt")
    (tmp_path / "huge_number.onnxtxt").write_text(syntax.replace("3", "9" * 40))
    assert "cannot be parsed" in refuse(tmp_path / "huge_number.onnxtxt")


# --- tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "kind", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "UINT8", "INT16", "INT32", "UINT32", "INT64", "UINT64",
             "BOOL", "COMPLEX64", "INT4", "UINT4", "FLOAT8E4M3FN"]
)  # fmt: skip
@pytest.mark.parametrize("count", [6, 5000])
def test_every_tensor_encoding_gives_the_values_onnx_reads(kind: str, raw: bool, count: int, tmp_path: Path) -> None:
    values = np.arange(count) % 7
    code = getattr(TensorProto, kind)
    array = values.astype(helper.tensor_dtype_to_np_dtype(code))
    tensor = numpy_helper.from_array(array, "w") if raw else helper.make_tensor("w", code, [count], array.ravel())
    assert tensor.HasField("raw_data") == raw
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [tensor])
    form = loaded(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path)
    got = form.model.graph.initializers["w"].const_value
    assert got is not None and got.dtype == code
    np.testing.assert_array_equal(
        np.asarray(got.numpy()).astype(np.complex128), numpy_helper.to_array(tensor).astype(np.complex128)
    )


def test_sparse_weights_and_constants_are_written_out(tmp_path: Path) -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [5.0, 7.0])
    linear = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], [1, 5]), [2, 3])
    pairs = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2, 2], [0, 1, 1, 2]), [2, 3])
    model = make(
        [ADD, helper.make_node("Constant", [], ["c"], sparse_value=pairs), helper.make_node("Add", ["y", "c"], ["z"])],
        {"x": X},
        ["z"],
        17,
    )
    model.graph.sparse_initializer.append(linear)
    want = X + 2 * np.array([[0, 5, 0], [0, 0, 7]], np.float32)
    np.testing.assert_array_equal(run_loaded(loaded(model, tmp_path), {"x": X})[0], want)
    model.graph.sparse_initializer[0].indices.int64_data[1] = 99
    assert "indices outside" in refuse(save(model, tmp_path))


def test_all_damaged_weights_are_listed_at_once(tmp_path: Path) -> None:
    model = make([ADD], {"x": X}, ["y"], 17, {"w": X, "v": X, "u": X})
    model.graph.initializer[0].dims[0] = 7
    model.graph.initializer[1].data_type = 99
    model.graph.initializer[2].dims[:] = [-3, 2**62, 2**62]
    text = refuse(save(model, tmp_path))
    assert "w has 24 bytes of data" in text and "need 84" in text
    assert "unknown element type 99" in text and "negative dimension" in text


@pytest.mark.provokes("E10041")
def test_a_weight_without_data_is_named(tmp_path: Path) -> None:
    model = make([ADD], {"x": X}, ["y"], 17, {"w": X})
    model.graph.initializer[0].ClearField("raw_data")
    assert "its data is missing" in refuse(save(model, tmp_path))


# --- external data --------------------------------------------------------------------------------------------------


def external(folder: Path, location: str, size: int | None = None, **entries: str) -> Path:
    model = make([ADD], {"x": X}, ["y"], 17, {"w": X})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    if size is not None:
        (folder / location).parent.mkdir(exist_ok=True)
        (folder / location).write_bytes((b"\0" * 8 + X.tobytes())[:size])
    return save(model, folder)


def test_external_weights_are_read_from_the_models_folder(tmp_path: Path) -> None:
    path = external(tmp_path, "sub/w.bin", 32, offset="8", length="24")
    np.testing.assert_array_equal(run_loaded(load(path), {"x": X})[0], X + X)


def _absolute(folder: Path) -> str:
    (folder.parent / "secret.bin").write_bytes(bytes(64))
    return str(folder.parent / "secret.bin")


def _parent(folder: Path) -> str:
    _absolute(folder)
    return "../secret.bin"


def _backslash(folder: Path) -> str:
    _absolute(folder)
    return "..\\secret.bin"


def _link(folder: Path) -> str:
    (folder / "link.bin").symlink_to(_absolute(folder))
    return "link.bin"


def _linked_folder(folder: Path) -> str:
    (folder / "up").symlink_to(folder.parent)
    _absolute(folder)
    return "up/secret.bin"


def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return "pipe"


@pytest.mark.parametrize("place", [_absolute, _parent, _backslash, _link, _linked_folder, _fifo])
def test_external_data_outside_the_models_folder_is_refused(place: Callable[[Path], str], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    text = refuse(external(folder, place(folder)))
    assert "leads out of the model's folder" in text or "not a regular file" in text


def test_a_model_cache_whose_files_are_links_into_one_store_is_accepted(tmp_path: Path) -> None:
    store, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    store.mkdir()
    snapshot.mkdir()
    external(store, "w.bin", 32, offset="8")
    (store / "m.onnx").rename(store / "abc")
    (snapshot / "m.onnx").symlink_to("../blobs/abc")
    (snapshot / "w.bin").symlink_to("../blobs/w.bin")
    np.testing.assert_array_equal(run_loaded(load(snapshot / "m.onnx"), {"x": X})[0], X + X)


def test_all_missing_and_short_external_files_are_listed_at_once(tmp_path: Path) -> None:
    model = make([ADD, helper.make_node("Mul", ["v", "u"], ["z"])], {"x": X}, ["y", "z"], 17, {"w": X, "v": X, "u": X})
    for tensor, location in zip(model.graph.initializer, ("one.bin", "two.bin", "short.bin"), strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    (tmp_path / "short.bin").write_bytes(b"1234")
    text = refuse(save(model, tmp_path))
    assert "one.bin" in text and "two.bin" in text and "too short for tensor 'u'" in text


def test_contradicting_external_lengths_are_refused(tmp_path: Path) -> None:
    assert "announces 4 bytes" in refuse(external(tmp_path, "w.bin", 32, length="4"))
    assert "no number" in refuse(external(tmp_path, "w.bin", 32, offset="-8"))
    assert "too short" in refuse(external(tmp_path, "w.bin", 32, offset=str(2**62)))


# --- costs ----------------------------------------------------------------------------------------------------------

_MEASURE = """
import resource, sys
from asc_devkit.frontends.onnx import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
form = load(sys.argv[1])
weight = form.model.graph.initializers["w"].const_value.numpy()
assert weight.nbytes == int(sys.argv[2]) and weight[-1, -1] == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("outside", [True, False], ids=["external", "inside"])
def test_loading_a_2_gb_model_needs_little_memory(outside: bool, tmp_path: Path) -> None:
    rows = 2**29 + 2**20 if outside else 2**29 - 2**20  # in 4-byte elements of 1024: beyond 2 GiB, or just below
    dims = [rows // 1024, 1024]
    size = rows * 4
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    if outside:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        with open(tmp_path / "w.bin", "wb") as handle:
            handle.truncate(size)
    model = make([node], {"x": X}, ["y"], 17)
    path = tmp_path / "big.onnx"
    if outside:
        model.graph.initializer.append(tensor)
        path.write_bytes(model.SerializeToString())
    else:
        _write_with_hole(path, model, tensor, size)
    result = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path), str(size)], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) * 1024 < 60e6
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the unit of the figure above is KiB on Linux


def _write_with_hole(path: Path, model: onnx.ModelProto, tensor: TensorProto, size: int) -> None:
    """Append GraphProto{initializer{... raw_data: zeros}} as a sparse file (a second graph field is merged)."""

    def varint(value: int) -> bytes:
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    head = tensor.SerializeToString() + b"\x4a" + varint(size)
    initializer = b"\x2a" + varint(len(head) + size) + head
    with open(path, "wb") as handle:
        handle.write(model.SerializeToString() + b"\x3a" + varint(len(initializer) + size) + initializer)
        handle.truncate(handle.tell() + size)
