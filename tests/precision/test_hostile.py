"""Files of tensors that were damaged or made to harm: refused with a code, never executed, never read beyond their size."""

from __future__ import annotations

import csv
import json
import pickle
import random
import resource
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
import torch

from asc_devkit.errors import AscError
from asc_devkit.precision.comparison import Options, compare_paths
from asc_devkit.precision.comparison.outputs import to_csv, write_xlsx
from asc_devkit.precision.comparison.pairs import PairOptions
from asc_devkit.precision.policy import Policy
from asc_devkit.precision.sources import scan
from asc_devkit.precision.sources.npu_dump import DumpTensor, write
from asc_devkit.report.compare_page import render
from tests.fuzz import mutate

ARRAY = np.arange(600, dtype=np.float32).reshape(20, 30)
DUMP = "Conv2D.conv1.7.3.1700000000000000"


class Payload:
    """Unpickling it would create the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def read_all(path: Path) -> int:
    """Elements read from everything under ``path``, block by block."""
    seen = 0
    for ref in scan(path).tensors.values():
        for block in ref.blocks(1 << 16):
            seen += block.size
    return seen


def refused(path: Path, code: str = "ASC51") -> None:
    with pytest.raises(AscError, match=code):
        read_all(path)


def test_a_pickled_array_is_refused_without_being_executed(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz"):
        np.save(tmp_path / "o.npy", np.array([Payload(tmp_path / "harm")], object), allow_pickle=True)
        (tmp_path / "harm").unlink(missing_ok=True)
        path = tmp_path / name
        if name.endswith("npz"):
            with zipfile.ZipFile(path, "w") as archive:
                archive.write(tmp_path / "o.npy", "x.npy")
        else:
            (tmp_path / "o.npy").rename(path)
        refused(path)
        assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("form", ["bare pickle", "zip", "inside a tensor's program"])
def test_a_pickled_payload_in_pt_is_refused_without_being_executed(form: str, tmp_path: Path) -> None:
    harm, path = tmp_path / "harm", tmp_path / "x.pt"
    if form == "bare pickle":
        path.write_bytes(pickle.dumps(Payload(harm), 2))
    else:
        torch.save(torch.ones(4), tmp_path / "good.pt")
        with zipfile.ZipFile(tmp_path / "good.pt") as source, zipfile.ZipFile(path, "w") as archive:
            for entry in source.infolist():
                body = source.read(entry)
                if entry.filename.endswith("data.pkl"):
                    bad = pickle.dumps(Payload(harm), 2)
                    body = bad if form == "zip" else bad[:-1] + b"0" + body[2:]
                archive.writestr(entry.filename, body)
    refused(path)
    assert not harm.exists()
    with pytest.raises(Exception, match=r"."):  # the file is harmful indeed: torch's own safe loader refuses it too
        torch.load(path, weights_only=True)


def test_a_zip_bomb_is_refused_by_what_it_would_become(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    described = b"{'descr': '<f4', 'fortran_order': False, 'shape': (268435456000,), }".ljust(117) + b"\n"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as entry,
    ):
        entry.write(header + described)
        for _ in range(64):
            entry.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize(
    "shape", ["(4611686018427387904,)", "(-1,)", "(1099511627776, 1099511627776)", "(True,)", "(1.5,)", "x" * 200]
)
def test_absurd_shapes_in_npy_are_refused(shape: str, tmp_path: Path) -> None:
    described = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(250) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(described)) + described + bytes(64))
    refused(tmp_path / "x.npy")


@pytest.mark.parametrize("claim", [{"shape": [1 << 62], "data_offsets": [0, 1 << 62]}, {"shape": [-4], "data_offsets": [0, 16]},
                                   {"shape": [4], "data_offsets": [8, 1]}, {"shape": "x", "data_offsets": []}])  # fmt: skip
def test_absurd_safetensors_headers_are_refused(claim: dict[str, Any], tmp_path: Path) -> None:
    head = json.dumps({"x": {"dtype": "F32", **claim}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    refused(tmp_path / "x.safetensors")


def test_dump_json_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "secret.npy"
    np.save(outside, ARRAY)
    for stored in ("../../../secret.npy", str(outside), "..", "a/../../../../secret.npy"):
        tree = msprobe_tree(tmp_path / "t", stored)
        assert not scan(tree).tensors
        assert scan(tree).problems or scan(tree).statistics


def msprobe_tree(folder: Path, stored: str = "Torch.relu.0.forward.output.0.npy") -> Path:
    base = folder / "step0" / "rank0"
    (base / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
    np.save(base / "dump_tensor_data" / "Torch.relu.0.forward.output.0.npy", ARRAY)
    row = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [20, 30],
        "requires_grad": False,
        "data_name": stored,
    }
    row |= {"Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 2.0}
    data = {"Torch.relu.0.forward": {"input_args": [], "input_kwargs": {}, "output": [row]}}
    (base / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L1", "dump_data_dir": "/", "data": data}))
    return folder


NAMES = [
    "=cmd|'/C calc'!A0",
    "+1+1",
    "@SUM(A1)",
    "-2+3",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
]


@pytest.fixture
def poisoned(tmp_path: Path) -> Any:
    """A result whose names are formulas and markup."""
    for side, factor in (("g", 1.0), ("t", 1.5)):
        with zipfile.ZipFile(tmp_path / f"{side}.npz", "w") as archive:
            for name in NAMES:
                with archive.open(f"{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, ARRAY * np.float32(factor))
    return compare_paths(tmp_path / "g.npz", tmp_path / "t.npz", Options(PairOptions(Policy("combined"))))


def test_spreadsheets_hold_no_formula(poisoned: Any, tmp_path: Path) -> None:
    rows = list(csv.reader(to_csv(poisoned).splitlines()))
    assert len(rows) == len(NAMES) + 1
    assert [cell for row in rows[1:] for cell in row if cell[:1] in "=+@\t\r" and cell[:1]] == []
    assert [cell for row in rows[1:] for cell in row[:2] if cell.startswith("-")] == []
    write_xlsx(poisoned, tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx").active
    assert sheet is not None
    assert [cell.coordinate for row in sheet.iter_rows() for cell in row if cell.data_type == "f"] == []


def test_the_page_holds_no_markup_of_names(poisoned: Any) -> None:
    page = render(poisoned.as_dict())
    assert "<img" not in page and "<script>alert" not in page
    assert page.count("</script>") == 2


# --- damage at random -----------------------------------------------------------------------------------------------


def _npy(folder: Path) -> Path:
    np.save(folder / "x.npy", ARRAY)
    return folder / "x.npy"


def _npz(folder: Path) -> Path:
    np.savez_compressed(folder / "x.npz", a=ARRAY, b=ARRAY.astype(np.float16))
    return folder / "x.npz"


def _pt(folder: Path) -> Path:
    torch.save({"w": torch.from_numpy(ARRAY.copy()), "b": torch.ones(7, dtype=torch.bfloat16)}, folder / "x.pt")
    return folder / "x.pt"


def _safetensors(folder: Path) -> Path:
    head = json.dumps({"x": {"dtype": "F32", "shape": [20, 30], "data_offsets": [0, ARRAY.nbytes]}}).encode()
    (folder / "x.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + ARRAY.tobytes())
    return folder / "x.safetensors"


def _sidecar(folder: Path) -> Path:
    ARRAY.tofile(folder / "x.bin")
    (folder / "x.bin.json").write_text(json.dumps({"dtype": "float32", "shape": [20, 30]}))
    return folder / "x.bin.json"


def _dump(folder: Path) -> Path:
    blocked = ARRAY.reshape(1, 1, 30, 20)[..., :16].reshape(1, 1, 6, 5, 16).copy()
    write(folder / DUMP, "conv1", [DumpTensor(blocked, 1, "NC1HWC0", (1, 16, 6, 5))], [DumpTensor(ARRAY, 39)])
    return folder / DUMP


def _msprobe(folder: Path) -> Path:
    return msprobe_tree(folder) / "step0" / "rank0" / "dump.json"


def _index(folder: Path) -> Path:
    np.save(folder / "x.npy", ARRAY)
    row = {
        "file": "x.npy",
        "node": "conv",
        "op_type": "Conv2D",
        "output": 0,
        "tensor": "x",
        "dtype": "float32",
        "shape": [20, 30],
    }
    (folder / "index.json").write_text(json.dumps({"schema": "asc-devkit/dump/1", "tensors": [row]}))
    return folder / "index.json"


READERS: dict[str, Callable[[Path], Path]] = {
    "npy": _npy, "npz": _npz, "pt": _pt, "safetensors": _safetensors, "sidecar": _sidecar, "npu dump": _dump,
    "msprobe": _msprobe, "index": _index,
}  # fmt: skip
WAYS = (mutate.flip_bits, mutate.flip_bits_early, mutate.truncate, mutate.splice, mutate.number)


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def damage(reader: str, folder: Path, count: int) -> tuple[int, int]:
    """Read ``count`` mutants; returns how many were read and how many refused. Anything but ``AscError`` is raised."""
    path = READERS[reader](folder)
    assert read_all(folder) >= ARRAY.size, "the undamaged file is read"
    whole = path.read_bytes()
    read = refusals = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(count):
        rng = random.Random(f"{reader}{seed}")
        data, done = whole, []
        for _ in range(rng.choice((1, 1, 2, 3))):
            try:
                data, what = rng.choice(WAYS)(data, rng)
            except (ValueError, IndexError):
                data, what = mutate.flip_bits(data, rng)
            done.append(what)
        path.write_bytes(data)
        try:
            with limit(20):
                read_all(folder)
            read += 1
        except AscError as error:
            assert all(p.code.startswith("ASC51") for p in error.problems), (seed, done)
            refusals += 1
        except BaseException as error:
            raise AssertionError(f"{reader} mutant {seed} ({'; '.join(done)})") from error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{reader}: {count} mutants, {read} read, {refusals} refused, peak memory grew by {grown >> 10} MiB")
    assert grown < 300 << 10
    return read, refusals


@pytest.mark.parametrize("reader", READERS)
def test_damaged_files_are_refused_or_read(reader: str, tmp_path: Path) -> None:
    assert damage(reader, tmp_path, 60)[1] > 0


@pytest.mark.conformance
@pytest.mark.parametrize("reader", READERS)
def test_two_thousand_damaged_files(reader: str, tmp_path: Path) -> None:
    read, refusals = damage(reader, tmp_path, 2000)
    assert read > 0 and refusals > 20


def test_containers_that_hold_each_other_are_not_unfolded_for_ever(tmp_path: Path) -> None:
    lists: list[Any] = [[]]
    for _ in range(40):
        lists.append([lists[-1], lists[-1]])
    torch.save(torch.ones(4), tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as source, zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        for entry in source.infolist():
            body = pickle.dumps(lists[-1], 2) if entry.filename.endswith("data.pkl") else source.read(entry)
            archive.writestr(entry.filename, body)
    with limit(60):
        refused(tmp_path / "x.pt", "ASC5102")


def test_a_checkpoint_with_other_objects_is_read(tmp_path: Path) -> None:
    import argparse
    from collections import OrderedDict

    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimiser = torch.optim.Adam(net.parameters())
    net(torch.randn(5, 3)).sum().backward()
    optimiser.step()
    facts = {"model": net.state_dict(), "optimizer": optimiser.state_dict(), "args": argparse.Namespace(lr=0.1), "epoch": 3,
             "best": np.float64(0.5), "tags": {"a", "b"}, "more": OrderedDict(x=torch.zeros(2, dtype=torch.int64))}  # fmt: skip
    torch.save(facts, tmp_path / "c.pt")
    found = scan(tmp_path / "c.pt").tensors
    assert np.array_equal(found["model.0.weight"].array(), net[0].weight.detach().numpy())
    assert {"optimizer.state.0.exp_avg", "more.x"} <= set(found)
