"""The cache of executable graphs: hit by content, rebuilt when damaged, bounded, optional."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from asc_devkit import npu
from asc_devkit.npu import cache
from tests.npu.build import compiled, proto

X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16)


@pytest.fixture
def om(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASC_CACHE_DIR", str(tmp_path / "cache"))
    w = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    return compiled(proto(nodes, {"x": (4, 16)}, {"y": (4, 64)}, {"w": w}), tmp_path)


def _entries() -> list[Path]:
    return sorted(p for p in cache.root().iterdir())


def test_the_second_load_is_a_hit_and_gives_the_same_bits(om: Path) -> None:
    first, second = npu.load(om, threads=1), npu.load(om, threads=1)
    assert (first.info["cache_hit"], second.info["cache_hit"]) == (False, True)
    assert first.run({"x": X})["y"].tobytes() == second.run({"x": X})["y"].tobytes()
    assert first.operators == second.operators
    assert first.inputs == second.inputs


def test_the_key_is_the_content_and_the_numerics(om: Path, tmp_path: Path) -> None:
    npu.load(om, threads=1)
    assert npu.load(shutil.copy(om, tmp_path / "copy.om"), threads=2).info["cache_hit"]
    assert not npu.load(om, threads=1, overflow="infnan").info["cache_hit"]


@pytest.mark.parametrize("damage", ["truncate", "remove", "garbage", "meta", "format"])
def test_damaged_entries_are_rebuilt(om: Path, damage: str) -> None:
    wanted = npu.load(om, threads=1).run({"x": X})["y"]
    (entry,) = _entries()
    graph, meta = entry / "0.run.onnx", entry / cache.META
    if damage == "truncate":
        graph.write_bytes(graph.read_bytes()[:100])
    elif damage == "remove":
        (entry / "0.weights").unlink()
    elif damage == "garbage":
        graph.write_bytes(os.urandom(graph.stat().st_size))
    elif damage == "meta":
        meta.write_text("{")
    else:
        meta.write_text(json.dumps({**json.loads(meta.read_text()), "format": -1}))
    session = npu.load(om, threads=1)
    assert not session.info["cache_hit"]
    assert session.run({"x": X})["y"].tobytes() == wanted.tobytes()
    assert npu.load(om, threads=1).info["cache_hit"]


def test_least_recently_used_entries_go_first(om: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npu.load(om, threads=1)
    (oldest,) = _entries()
    os.utime(oldest / cache.META, (1, 1))
    monkeypatch.setenv("ASC_CACHE_LIMIT_MB", "0")
    npu.load(om, threads=1, overflow="infnan")
    assert oldest not in _entries()
    assert len(_entries()) == 1


def test_without_a_cache_nothing_is_left_behind(om: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = npu.load(om, threads=1, cache=False)
    assert session.run({"x": X})["y"].shape == (4, 64)
    assert not cache.root().exists()
    assert list(tmp_path.glob("asc-npu-*"))
    del session
    assert not list(tmp_path.glob("asc-npu-*"))


def test_a_cache_that_cannot_be_written_is_done_without(
    om: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASC_CACHE_DIR", str(tmp_path / "file"))
    assert npu.load(om, threads=1).run({"x": X})["y"].shape == (4, 64)


def test_every_byte_counts_for_the_key() -> None:
    data = bytearray(40 << 20)
    keys = set()
    for place in (0, 16 << 20, (40 << 20) - 1):
        data[place] ^= 1
        keys.add(cache.key(memoryview(data), {}))
    keys.add(cache.key(memoryview(data)[:-1], {}))
    assert len(keys) == 4
