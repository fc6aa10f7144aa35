"""The four names of the comparison as commands: what they print, write and return."""

from __future__ import annotations

import csv
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import openpyxl
import pytest

from tests.cli.shell import Finished, asc, run
from tests.precision.nets import make
from tests.precision.test_localisation import tensor_files

SCRIPTS = Path(sys.executable).parent


def command(name: str, *words: object, cwd: Path | None = None) -> Finished:
    return run(str(SCRIPTS / name), *map(str, words), cwd=cwd)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders cpu and npu of one net with a channel fault, clean (the same without), and the model."""
    root = tmp_path_factory.mktemp("dumps")
    case = make(9, faults_wanted=1)
    assert case.faults
    tensor_files(root / "cpu", case.golden, False)
    tensor_files(root / "npu", case.target, False)
    tensor_files(root / "same", case.golden, False)
    onnx.save(case.model, root / "net.onnx")
    (root / "fault.txt").write_text("\n".join(case.faults))
    return root


@pytest.mark.seed("P1")
def test_mscompare_as_articles_write_it(dumps: Path, tmp_path: Path) -> None:
    done = command(
        "mscompare",
        f"--baseline={dumps / 'cpu'}",
        f"--comparison={dumps / 'npu'}",
        f"--output={tmp_path / 'out'}",
        "--compare_mode=cosine_similarity",
        "--atol=1e-3",
        "--rtol=1e-3",
    )
    assert done.code == 1, done.err
    assert "first divergent operator" in done.out and "FAIL" in done.out
    facts = json.loads((tmp_path / "out" / "compare_result.json").read_text())
    assert facts["schema"] == "asc-devkit/compare/1"
    assert facts["summary"]["error"] > 0 and facts["summary"]["trend"] in ("sudden", "accumulated")
    with open(tmp_path / "out" / "compare_result.csv", newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == len(facts["tensors"])
    assert {"NPU Name", "Bench Name", "Cosine", "MaxAbsErr", "Result"} <= set(rows[0])
    assert (tmp_path / "out" / "compare_result.html").stat().st_size > 10_000


@pytest.mark.seed("P1")
def test_equal_folders_pass(dumps: Path, tmp_path: Path) -> None:
    done = command("mscompare", "--baseline", dumps / "cpu", "--comparison", dumps / "same", "--output", tmp_path)
    assert done.code == 0 and "PASS" in done.out


@pytest.fixture
def conv(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    golden = rng.standard_normal((1, 16, 8, 8)).astype(np.float32)
    wrong = golden.copy()
    wrong[0, 5] += 0.25
    for name, array in (("g", golden), ("a", wrong), ("near", golden + np.float32(1e-6) * np.abs(golden))):
        array.tofile(tmp_path / f"{name}.bin")
        (tmp_path / f"{name}.bin.json").write_text(json.dumps({"dtype": "float32", "shape": [1, 16, 8, 8]}))
    return tmp_path


@pytest.mark.seed("P2")
def test_op_validate_names_measures_and_places(conv: Path) -> None:
    words = ["--op_name=Conv2d", "--abs_tolerance=1e-3", "--rel_tolerance=1e-2"]
    done = command("op_validate", f"--golden={conv / 'g.bin'}", f"--actual={conv / 'a.bin'}", *words)
    assert done.code == 1, done.err
    for word in ("Conv2d", "MAE 0.015625", "MRE", "MaxAE 0.25", "MaxRE", "channel", "[0, 5, ", "|error|", "FAIL"):
        assert word in done.out, word
    near = command("op_validate", f"--golden={conv / 'g.bin'}", f"--actual={conv / 'near.bin'}", *words)
    assert near.code == 0 and "PASS" in near.out


@pytest.mark.seed("P2")
@pytest.mark.parametrize("rate,code", [(0.0625, 1), (0.0626, 0)], ids=["at the threshold", "just above"])
def test_the_share_of_wrong_elements_must_stay_below_the_threshold(conv: Path, rate: float, code: int) -> None:
    done = command(
        "op_validate", f"--golden={conv / 'g.bin'}", f"--actual={conv / 'a.bin'}", "--op_name=Conv2d",
        "--abs_tolerance=1e-3", "--rel_tolerance=1e9", "--criterion=any", f"--error_rate_threshold={rate}",
    )  # fmt: skip
    assert done.code == code, done.out


@pytest.mark.seed("P2")
@pytest.mark.provokes("ASC5105")
def test_a_size_that_does_not_fit_is_an_error_and_never_a_shorter_tensor(conv: Path) -> None:
    (conv / "cut.bin").write_bytes((conv / "a.bin").read_bytes()[:-6])
    done = command("op_validate", "--golden", conv / "g.bin", "--actual", conv / "cut.bin")
    assert done.code == 2 and "ASC5105" in done.err
    longer = command(
        "op_validate", "--golden", conv / "g.bin", "--actual", conv / "a.bin", "--dtype=fp32", "--shape=1,16,8,9"
    )
    assert longer.code == 0 or "side" not in longer.err  # the sidecar says more than the option
    (conv / "a.bin.json").unlink()
    without = command(
        "op_validate", "--golden", conv / "g.bin", "--actual", conv / "a.bin", "--dtype=fp32", "--shape=1,16,8,9"
    )
    assert without.code == 2 and "ASC5105" in without.err


@pytest.mark.seed("P3")
@pytest.mark.parametrize("words", [("--golden_path", "--actual_path", "--output_report"), ("-gp", "-tp", "-o")])
def test_msprobe_compare_in_both_spellings(dumps: Path, tmp_path: Path, words: tuple[str, str, str]) -> None:
    report = tmp_path / "r.html"
    golden, actual, output = words
    done = command("msprobe", "compare", golden, dumps / "cpu", actual, dumps / "npu", output, report)
    assert done.code == 1, done.err
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_asc_compare_with_the_model_names_the_faulty_operator(dumps: Path, tmp_path: Path) -> None:
    junit, sarif, book = tmp_path / "j.xml", tmp_path / "s.sarif", tmp_path / "t.xlsx"
    done = asc(
        *("compare", str(dumps / "cpu"), str(dumps / "npu"), "--model", str(dumps / "net.onnx"), "-o", str(book)),
        *("--junit", str(junit), "--sarif", str(sarif), "--json"),
    )
    assert done.code == 1, done.err
    facts = json.loads(done.out)
    assert [f["op"] for f in facts["findings"]] == (dumps / "fault.txt").read_text().split()
    assert facts["model"]["limited"] == "bug"
    failures = ET.parse(junit).getroot().iter("failure")
    assert len(list(failures)) == facts["summary"]["error"]
    assert json.loads(sarif.read_text())["version"] == "2.1.0"
    sheet = openpyxl.load_workbook(book, read_only=True).active
    assert sheet is not None and len(list(sheet.rows)) == len(facts["tensors"]) + 1


def test_suggest_mix_writes_the_operators_to_keep(tmp_path: Path) -> None:
    """exp(x) - exp(x) * 0.999: cancellation that float16 cannot carry; the list goes to a file that atc takes."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Mul", ["e", "c"], ["m"], "nearly"),
        helper.make_node("Sub", ["e", "m"], ["y"], "difference"),
    ]
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 256])  # noqa: E731
    weight = helper.make_tensor("c", TensorProto.FLOAT, [1], [0.9987])
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((1, 256)).astype(np.float32)
    e = np.exp(x)
    arrays = {"x": x, "e": e, "m": e * np.float32(0.9987), "y": e - e * np.float32(0.9987)}
    half = np.exp(x).astype(np.float16)
    m = (half * np.float16(0.9987)).astype(np.float16)
    tensor_files(tmp_path / "g", arrays, False)
    tensor_files(tmp_path / "t", {"x": x.astype(np.float16), "e": half, "m": m, "y": half - m}, False)
    done = asc(
        *("compare", str(tmp_path / "g"), str(tmp_path / "t"), "--model", str(tmp_path / "m.onnx")),
        *("--suggest-mix", str(tmp_path / "keep.cfg")),
    )
    assert done.code == 1, done.err
    kept = (tmp_path / "keep.cfg").read_text().split()
    assert kept and set(kept) <= {"exp", "nearly", "difference"}
    assert "estimated" in done.out and "simulated" in done.out


@pytest.mark.parametrize(
    "words,code",
    [
        (["nowhere", "nowhere"], "ASC5101"),
        (["cpu", "npu", "--standard=canneco"], "ASC5110"),
        (["cpu", "npu", "--dtype=fp17"], "ASC5104"),
        (["cpu", "npu", "--overrides=net.onnx"], "ASC5111"),
        (["cpu", "npu", "--mapping=net.onnx"], "ASC5112"),
        (["cpu", "npu", "-o", "x.docx", "--junit", "y.doc"], "ASC5114"),
        (["cpu", "npu", "--model=fault.txt"], "E1"),
        (["cpu", "cpu", "--shape=1,-3"], "ASC5104"),
    ],
)
def test_wrong_input_is_code_two_with_a_code_and_no_traceback(dumps: Path, words: list[str], code: str) -> None:
    done = command("asc", "compare", *words, cwd=dumps)
    assert done.code == 2 and code in done.err and "Traceback" not in done.err
    assert not list(dumps.glob("x.docx"))


def test_a_run_that_was_stopped_goes_on_where_it_was(dumps: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    words = ["compare", str(dumps / "cpu"), str(dumps / "npu"), "--resume", str(journal), "--json"]
    first = asc(*words)
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:20]) + "\n" + lines[20][:30])  # stopped while writing
    second = asc(*words)
    a, b = json.loads(first.out), json.loads(second.out)
    assert first.code == second.code == 1
    assert a["tensors"] == b["tensors"] and a["findings"] == b["findings"]
