"""``python -m ais_bench`` as its manual shows it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.shell import Finished, asc, run


def ais_bench(*arguments: str, cwd: Path | None = None) -> Finished:
    return run(sys.executable, "-m", "ais_bench", *arguments, cwd=cwd)


def test_without_input_zeros_are_run_and_measured_times_are_called_measured(pair: Path, tmp_path: Path) -> None:
    done = ais_bench("--model", str(pair), "--output", str(tmp_path), "--loop", "5")
    assert done.code == 0, done.err
    found = re.search(r"throughput 1000\*batchsize\.mean\(2\)/NPU_compute_time\.mean\((\S+)\): (\S+)", done.out)
    assert found is not None
    assert float(found[2]) == pytest.approx(2000 / float(found[1]))
    assert "measured on this CPU, not NPU time" in done.out
    assert re.search(r"Estimated NPU time on Ascend310P3: \d+\.\d+ ms", done.out)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert re.fullmatch(r"\d{4}(_\d\d){2}-\d\d(_\d\d){2}", folder.name)
    assert sorted(p.name for p in folder.iterdir()) == ["pure_infer_data_0.bin", "pure_infer_data_1.bin"]
    assert np.fromfile(folder / "pure_infer_data_0.bin", np.float32).tolist() == [0] * 6
    summary = json.loads((tmp_path / f"{folder.name}_summary.json").read_text())
    assert set(summary["NPU_compute_time"]) == {"min", "max", "mean", "median", "percentile(99%)"}
    assert summary["timing"] == "measured on this CPU, not NPU time"
    assert summary["estimate"]["basis"].startswith("estimated")


def test_files_fill_a_batch_and_outputs_are_taken_apart(batches: Path, tmp_path: Path) -> None:
    """Five files of one picture each at batch 2: three runs, the last filled up, five output files."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(-99, 99, (1, 1, 4, 4)).astype(np.float32) for _ in range(5)]
    (tmp_path / "in").mkdir()
    for i, picture in enumerate(pictures):
        np.save(tmp_path / "in" / f"p{i}.npy", picture)
    done = ais_bench(
        f"--model={batches}", f"--input={tmp_path / 'in'}", f"--output={tmp_path}", "--output_dirname", "r",
        "--outfmt", "NPY", "--dymBatch", "2", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    for i, picture in enumerate(pictures):
        assert (np.load(tmp_path / "r" / f"p{i}_0.npy") == 2 * picture).all()
    assert len(list((tmp_path / "r").iterdir())) == 5
    (summary,) = json.loads(done.out)
    assert [len(run["infiles"][0]) for run in summary["filesinfo"].values()] == [2, 2, 1]
    assert summary["batchsize"] == 2
    assert (tmp_path / "r_summary.json").is_file()


def test_one_folder_for_each_input(pair: Path, tmp_path: Path) -> None:
    for name, value in (("a", 3), ("b", 5)):
        (tmp_path / name).mkdir()
        np.full((2, 3), value, np.float32).tofile(tmp_path / name / "one.bin")
    both = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    done = ais_bench("--model", str(pair), "--input", both, "--output", str(tmp_path), "--output-dirname", "r",
                     "--outfmt", "TXT")  # fmt: skip
    assert done.code == 0, done.err
    assert np.loadtxt(tmp_path / "r" / "one_0.txt").tolist() == [[8, 8, 8], [8, 8, 8]]
    assert np.loadtxt(tmp_path / "r" / "one_1.txt").tolist() == [[15, 15, 15], [15, 15, 15]]


def test_shapes_from_the_inputs(dims: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i, shape in enumerate(((1, 1, 4, 4), (2, 1, 8, 4))):
        np.save(tmp_path / "in" / f"{i}.npy", np.ones(shape, np.float32))
    done = ais_bench("--model", str(dims), "--input", str(tmp_path / "in"), "--output", str(tmp_path),
                     "--output_dirname", "r", "--outfmt", "NPY", "--auto_set_dymdims_mode", "1")  # fmt: skip
    assert done.code == 0, done.err
    assert [np.load(tmp_path / "r" / f"{i}_0.npy").shape for i in (0, 1)] == [(1, 1, 4, 4), (2, 1, 8, 4)]


def test_a_range_of_shapes_is_run_one_by_one(dims: Path) -> None:
    done = ais_bench("--model", str(dims), "--dymShape_range", "x:1-2,1,4,4")
    assert done.code == 2  # 2,1,4,4 is no gear
    assert "ASC4013" in done.err
    done = ais_bench("--model", str(dims), "--dymShape_range", "x:1,1,4~4,4", "--outputSize", "64")
    assert done.code == 0, done.err
    assert "shape x:1,1,4,4" in done.out


def test_debug_lists_inputs_and_outputs(pair: Path) -> None:
    done = ais_bench("--model", str(pair), "--debug", "1", "--display_all_summary", "true")
    assert re.search(r"#0    a  \(2, 3\)  float32  24  24", done.out)
    assert "H2D_latency (ms): min = " in done.out
    assert "D2H_latency (ms): min = " in done.out


def test_two_devices_add_up(pair: Path, tmp_path: Path) -> None:
    done = ais_bench("--model", str(pair), "--device", "0,1", "--output", str(tmp_path))
    assert done.code == 0, done.err
    rates = [float(v) for v in re.findall(r"device_\d throughput:(\S+)", done.out)]
    assert len(rates) == 2
    assert float(re.search(r"summary throughput:(\S+)", done.out)[1]) == pytest.approx(sum(rates))


def test_dump_writes_every_operators_output(pair: Path, tmp_path: Path) -> None:
    assert ais_bench("--model", str(pair), "--output", str(tmp_path), "--dump", "1").code == 0
    assert list((tmp_path / "dump").glob("*.npy"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profiler", "1", "--dump", "1", "--output", "o"), "exclude each other"),
        pytest.param(("--dump", "1"), "--dump needs --output", marks=pytest.mark.provokes("ASC4521")),
        (("--output_dirname", "x"), "--output_dirname needs --output"),
        (("--output", "o", "--output_dirname", "../x"), "plain folder name"),
        (("--input", "missing"), "does not exist"),
        pytest.param(("--device", "zero"), "no list of devices", marks=pytest.mark.provokes("ASC4523")),
        (("--device", "77"), "does not exist"),
        (("--dymBatch", "3"), "ASC4013"),
        (("--dymHW", "2x2"), "height,width"),
        (("--outputSize", "many"), "no list of sizes"),
        pytest.param(("--energy_consumption", "1"), "not possible here", marks=pytest.mark.provokes("ASC4522")),
        (("--modle", "x"), "No such option"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(pair: Path, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = ais_bench("--model", str(pair), *arguments, cwd=tmp_path)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_asc_run_takes_the_flags_of_msame(pair: Path, tmp_path: Path) -> None:
    for name in "ab":
        np.ones((2, 3), np.float32).tofile(tmp_path / f"{name}.bin")
    both = f"{tmp_path / 'a.bin'},{tmp_path / 'b.bin'}"
    done = asc("run", "--model", str(pair), "--input", both, "--output", str(tmp_path / "o"), "--outfmt", "TXT",
               "--loop", "2")  # fmt: skip
    assert done.code == 0, done.err
    assert np.loadtxt(tmp_path / "o" / "sum.txt").tolist() == [[2, 2, 2], [2, 2, 2]]
    assert asc("run").code == 2


@pytest.mark.provokes("ASC4507", "ASC4520")
def test_files_and_gears_that_are_left_open_are_asked_for(pair: Path, batches: Path, tmp_path: Path) -> None:
    (tmp_path / "only.npy").write_bytes(b"")
    odd = ais_bench("--model", str(pair), "--input", "only.npy", cwd=tmp_path)
    assert odd.code == 2 and "ASC4520" in odd.err and "1 files for a model with 2 inputs" in odd.err
    open_gear = ais_bench("--model", str(batches), cwd=tmp_path)
    assert open_gear.code == 2 and "ASC4507" in open_gear.err and "--dymBatch" in open_gear.err
