"""A disk that fills up, imitated by a limit on the size of written files: a clear refusal, nothing half-written."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from asc_devkit import files, npu
from asc_devkit.errors import AscError
from asc_devkit.npu import dump
from tests.cli.shell import asc
from tests.npu.build import compile_model, compiled, proto

LIMIT = 100_000  # bytes; the model below needs more in every file it is written to


@contextmanager
def full_disk(limit: int = LIMIT) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def model() -> onnx.ModelProto:
    w = np.random.default_rng(1).standard_normal((400, 400)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])]
    return proto(nodes, {"x": (400, 400)}, {"y": (400, 400)}, {"w": w})


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    files.write_bytes(target, b"old")
    with full_disk(), pytest.raises(AscError, match="too large") as caught:
        files.write_bytes(target, bytes(LIMIT + 1))
    assert isinstance(caught.value, OSError)
    assert caught.value.exit_code == 2
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["x" * 300, "file/below", "zero\0byte"])
def test_names_that_are_no_paths_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AscError, match="cannot be written"):
        files.write_bytes(tmp_path / name, b"")


def test_a_conversion_leaves_no_om(tmp_path: Path, model: onnx.ModelProto) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with full_disk(), pytest.raises(AscError, match="E13004"):
        compile_model(path, tmp_path)
    assert not list(tmp_path.rglob("*.om")) and not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("output", ["/", ".", "..", "model.onnx/below", "y" * 300])
def test_an_output_that_is_no_file_is_refused_before_the_work(
    tmp_path: Path, model: onnx.ModelProto, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "model.onnx")
    with pytest.raises(AscError, match=r"\[output\] is invalid|cannot be written|names a folder"):
        compile_model(Path("model.onnx"), tmp_path, output=output)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("in_memory", [0, 1 << 30], ids=["mapped", "written afterwards"])
@pytest.mark.parametrize("form", ["npy", "bin"])
def test_a_dump_is_refused_and_removed(
    tmp_path: Path, model: onnx.ModelProto, form: str, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "IN_MEMORY", in_memory)
    session = npu.load(compiled(model, tmp_path), threads=1, cache=False)
    feed = {"x": np.ones((400, 400), np.float32)}
    before = sorted(tmp_path.iterdir())
    with full_disk(), pytest.raises(AscError, match="Cannot write the dump"):
        session.run(feed, dump=tmp_path / "dump", dump_format=form)
    assert sorted(tmp_path.iterdir()) == before


def test_commands_say_so_and_exit_with_2(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    om = compiled(model, tmp_path)
    assert asc("run", str(om)).code == 0  # from here on the executable graph is in the cache
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    for words in (
        ["run", om, "-o", tmp_path / "outputs"],
        ["run", om, "-o", tmp_path / "outputs", "--outfmt", "BIN"],
        ["run", om, "-o", tmp_path / "outputs", "--outfmt", "TXT"],
        ["run", om, "--no-cache", "--dump", tmp_path / "dump"],
        ["om", "decompress", om, "-o", tmp_path / "copy.om"],
        ["om", "extract-weights", om, "-o", tmp_path / "weights"],
    ):
        with full_disk():
            done = asc(*map(str, words))
        assert done.code == 2, (words, done.err)
        assert "E13004" in done.err or "ASC4005" in done.err
        assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before


def test_a_folder_as_output_takes_the_name_of_the_model(tmp_path: Path, model: onnx.ModelProto) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "there").mkdir()
    for folder, written in (("there", "there/m.om"), ("new/", "new/m.om")):
        assert asc("convert", "m.onnx", "-o", folder, cwd=tmp_path).code == 0
        assert (tmp_path / written).is_file()
    assert asc("convert", ".", cwd=tmp_path).code == 2
