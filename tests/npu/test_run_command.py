"""`asc run` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from asc_devkit import npu
from tests.cli.shell import asc
from tests.npu.build import compiled, proto

X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    nodes = [helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("Exp", ["m"], ["y/out:0"])]
    model = proto(nodes, {"x": (2, 8)}, {"y/out:0": (2, 8)}, {"k": np.full(8, 0.5, np.float32)})
    return compiled(model, folder)


@pytest.fixture
def wanted(om: Path) -> np.ndarray:
    return npu.load(om, threads=1).run({"x": X})["y/out:0"]


@pytest.mark.seed("D2")
def test_without_input_it_says_that_numbers_are_random(om: Path) -> None:
    done = asc("run", str(om), "--loop", "3", "--threads", "1")
    assert done.code == 0, done.err
    assert "random numbers" in done.out
    assert "float32 [2, 8]" in done.out
    assert "of 3 (measured on this CPU, not NPU time; 1 threads)" in done.out


@pytest.mark.parametrize("form", ["named", "ordered", "folder", "raw", "raw16"])
def test_inputs_from_files(om: Path, wanted: np.ndarray, tmp_path: Path, form: str) -> None:
    np.save(tmp_path / "x.npy", X)
    given = {"named": f"x={tmp_path / 'x.npy'}", "ordered": str(tmp_path / "x.npy"), "folder": str(tmp_path)}.get(form)
    if given is None:
        (tmp_path / "x.bin").write_bytes(X.tobytes() if form == "raw" else X.astype(np.float16).tobytes())
        given = f"x={tmp_path / 'x.bin'}"
    done = asc("run", str(om), "-i", given, "-o", str(tmp_path / "out"))
    if form == "raw16":  # the input is float32: half the bytes is an error, never silently padded
        assert done.code == 2
        assert "32 bytes" in done.err
        return
    assert done.code == 0, done.err
    (written,) = (tmp_path / "out").iterdir()
    assert (np.load(written) == wanted).all()


@pytest.mark.parametrize("fmt", ["NPY", "BIN", "TXT"])
def test_output_formats(om: Path, wanted: np.ndarray, tmp_path: Path, fmt: str) -> None:
    np.save(tmp_path / "x.npy", X)
    done = asc("run", str(om), "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path), "--outfmt", fmt, "--json")
    report = json.loads(done.out)
    facts = report["runs"][0]["outputs"]["y/out:0"]
    path = Path(facts["file"])
    read = {
        "NPY": lambda: np.load(path),
        "BIN": lambda: np.frombuffer(path.read_bytes(), np.float32).reshape(2, 8),
        "TXT": lambda: np.loadtxt(path, dtype=np.float32),
    }[fmt]
    assert path.name == f"y_out_0.{fmt.lower()}"
    assert (read() == wanted).all()
    assert facts["max"] == pytest.approx(float(wanted.max()))
    assert report["schema"] == "asc-devkit/run/1"
    assert report["info"]["overflow_mode"] == "saturate"


def test_a_folder_of_samples_runs_each(om: Path, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for index in range(3):
        np.save(folder / f"img{index}.npy", X + index)
    done = asc("run", str(om), "-i", str(folder), "-o", str(tmp_path / "o"), "--json")
    report = json.loads(done.out)
    assert [row["sample"] for row in report["runs"]] == ["img0", "img1", "img2"]
    assert report["wall_ms"]["count"] == 3
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == [f"img{i}_y_out_0.npy" for i in range(3)]


def test_dump_writes_every_operator(om: Path, tmp_path: Path) -> None:
    done = asc("run", str(om), "--dump", str(tmp_path / "d"))
    assert done.code == 0, done.err
    rows = json.loads((tmp_path / "d" / "index.json").read_text())["tensors"]
    assert {"Mul", "Exp"} <= {kind for r in rows for kind in (r["op_type"], *(m[1] for m in r["members"]))}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-i", "y=x.npy"], "names no input"),
        (["-i", "x=absent.npy"], "Cannot read"),
        (["-i", "x=bad.npy"], "not a readable .npy"),
        (["-i", "x=short.npy"], "float32 [2, 7]"),
        (["--loop", "0"], "--loop"),
    ],
)
def test_mistakes_are_explained(om: Path, tmp_path: Path, words: list[str], text: str) -> None:
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY garbage")
    np.save(tmp_path / "short.npy", X[:, :7])
    done = asc("run", str(om), *words, cwd=tmp_path)
    assert done.code == 2
    assert text in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_no_om(tmp_path: Path) -> None:
    (tmp_path / "x.om").write_bytes(b"IMOD" + bytes(100))
    done = asc("run", str(tmp_path / "x.om"))
    assert done.code == 2
    assert "Traceback" not in done.err
