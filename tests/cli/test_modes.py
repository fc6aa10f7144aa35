"""`atc --mode=1|3|5|6|7`: what each writes and prints, and how it refuses."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import helper

from asc_devkit import npu, om
from asc_devkit.cli.atc import run
from asc_devkit.errors import AscError
from asc_devkit.om.container import Part
from tests.cli.shell import atc, onnx_cnn

BASE = ["--framework=5", "--soc_version=Ascend310P3", "--input_shape=images:2,3,32,32"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small CNN as .onnx and as .om."""
    folder = tmp_path_factory.mktemp("modes")
    onnx_cnn(folder / "m.onnx", "images")
    assert run([f"--model={folder / 'm.onnx'}", f"--output={folder / 'm'}", *BASE]) == 0
    return folder


def refusals(*words: str) -> list[str]:
    with pytest.raises(AscError) as caught:
        run(list(words))
    assert caught.value.exit_code == 2
    return [problem.code for problem in caught.value.problems]


def test_mode_6_prints_the_lines_of_the_vendor(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--mode=6", f"--om={place / 'm.om'}"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:-1]
    assert lines[0] == "============ Display Model Info start ============"
    assert lines[1].startswith("Original Atc command line: atc --model=")
    assert re.fullmatch(
        r"system   info: atc_version\[.+\], soc_version\[Ascend310P3\], framework_type\[5\]\.", lines[2]
    )
    assert re.fullmatch(
        r"resource info: memory_size\[\d+ B\], weight_size\[\d+ B\], stream_num\[1\], event_num\[0\]\.", lines[3]
    )
    file = om.read(place / "m.om")
    sizes = [len(file.part(part)) for part in (Part.MODEL_DEF, Part.WEIGHTS_DATA, Part.TASK_INFO)]
    assert lines[4] == (
        f"om       info: modeldef_size[{sizes[0]} B], weight_data_size[{sizes[1]} B], tbe_kernels_size[0 B], "
        f"cust_aicpu_kernel_store_size[0 B], task_info_size[{sizes[2]} B], so_store_size[0 B]."
    )
    assert lines[5] == "============ Display Model Info end   ============"


@pytest.mark.provokes("E10057")
def test_mode_6_takes_nothing_but_the_file(place: Path) -> None:
    assert refusals("--mode=6", f"--om={place / 'm.om'}", "--soc_version=Ascend310P3") == ["E10057"]


def test_mode_1_writes_offline_and_original_models_as_json(place: Path) -> None:
    assert run(["--mode=1", f"--om={place / 'm.om'}", f"--json={place / 'om.json'}"]) == 0
    definition = json.loads((place / "om.json").read_text())
    assert {op["type"] for graph in definition["graph"] for op in graph["op"]} >= {"Data", "Conv2D", "NetOutput"}
    assert definition["attr"]["soc_version"]

    assert run(["--mode=1", f"--om={place / 'm.onnx'}", f"--json={place / 'onnx.json'}", "--framework=5"]) == 0
    original = json.loads((place / "onnx.json").read_text())
    assert [node["opType"] for node in original["graph"]["node"]][:2] == ["Conv", "BatchNormalization"]
    assert "valueInfo" not in original["graph"]
    shaped = ["--mode=1", f"--om={place / 'm.onnx'}", f"--json={place / 'onnx.json'}", "--framework=5", "--dump_mode=1"]
    assert run(shaped) == 0
    values = {v["name"]: v for v in json.loads((place / "onnx.json").read_text())["graph"]["valueInfo"]}
    assert [d.get("dimValue", d.get("dimParam")) for d in values["c1"]["type"]["tensorType"]["shape"]["dim"]] == [
        "N", "8", "32", "32"
    ]  # fmt: skip
    assert set(refusals("--mode=1", f"--om={place / 'm.om'}")) == {"E10004"}


def test_mode_3_reports_every_operator_or_all_that_are_to_blame(place: Path, tmp_path: Path) -> None:
    words = ["--mode=3", *BASE, f"--check_report={tmp_path / 'r.json'}"]
    assert run([*words, f"--model={place / 'm.onnx'}"]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["result"] == "success" and {row["result"] for row in report["op"]} == {"success"}
    assert not list(tmp_path.glob("*.om"))

    model = onnx.load(place / "m.onnx")
    for index in range(2):  # operators that nobody has
        model.graph.node.insert(0, helper.make_node("Odd", ["images"], [f"odd{index}"], f"odd_{index}", domain="mine"))
        model.graph.output.append(helper.make_tensor_value_info(f"odd{index}", 1, ["N", 3, 32, 32]))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    onnx.save(model, tmp_path / "odd.onnx")
    assert refusals(*words, f"--model={tmp_path / 'odd.onnx'}") == ["E16002"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["result"] == "failed" and {row["name"] for row in report["op"]} == {"odd_0", "odd_1"}
    assert all(cause["code"] == "E16002" and cause["solution"] for row in report["op"] for cause in row["cause"])


def test_mode_5_reads_a_dumped_graph(place: Path, tmp_path: Path) -> None:
    definition = om.read(place / "m.om").model_def
    dump = tmp_path / "ge_proto_00000000_PreRunBegin.txt"
    dump.write_text(text_format.MessageToString(definition))
    assert run(["--mode=5", f"--om={dump}", f"--json={tmp_path / 'g.json'}"]) == 0
    assert (tmp_path / "g.json").read_text() == om.to_json(om.read(place / "m.om")) + "\n"


@pytest.mark.provokes("E10001")
@pytest.mark.parametrize("content", [b"", b"graph {", b"ir_version: 8", b"\xff\xfe", b"graph { op {" * 5000])
def test_what_is_no_dumped_graph_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_bytes(content)
    assert refusals("--mode=5", f"--om={tmp_path / 'g.txt'}", f"--json={tmp_path / 'g.json'}") == ["E10001"]
    assert not (tmp_path / "g.json").exists()


def test_mode_7_writes_an_archive_that_runs_like_the_om(place: Path, tmp_path: Path) -> None:
    words = [f"--model={place / 'm.onnx'}", f"--output={tmp_path / 'net'}", *BASE]
    done = atc("--mode=7", *words, cwd=tmp_path)
    assert done.code == 0 and f"save path is {tmp_path / 'net.om2'}" in done.out
    assert not (tmp_path / "net.om").exists() and (tmp_path / "net_conversion.log").exists()
    with zipfile.ZipFile(tmp_path / "net.om2") as archive:
        assert archive.testzip() is None
        names = {name.removeprefix("net/") for name in archive.namelist()}

        def load(name: str) -> dict[str, object]:
            return json.loads(archive.read(f"net/{name}"))  # type: ignore[no-any-return]

        manifest, meta = load("manifest.json"), load("data/model_0/model_meta.json")
        constants = load("data/constants/model_0_constants_config.json")
        pool = archive.read("net/data/constants/constant_0")
    assert names >= {"data/model_0/debug/op_attr.json", "data/model_0/debug/ge_visual_00000000_graph_0.json"}
    assert (
        manifest["om2_version"] == "0" and manifest["model_num"] == "1" and "--mode=7" in str(manifest["atc_command"])
    )
    (first,) = meta["inputs"]  # type: ignore[misc]
    assert (first["name"], first["shape"], first["data_type"], first["format"]) == (
        "images", [2, 3, 32, 32], "DT_FLOAT", "NCHW"
    )  # fmt: skip
    assert constants["internal_weight_size"] == len(pool) == len(om.read(place / "m.om").weights)
    for row in constants["consts"].values():  # type: ignore[attr-defined]
        assert 0 <= row["offset"] <= row["offset"] + row["size"] <= len(pool)

    feed = {"images": np.random.default_rng(0).random((2, 3, 32, 32), np.float32)}
    plain, packed = npu.load(place / "m.om").run(feed), npu.load(tmp_path / "net.om2").run(feed)
    assert all(np.array_equal(plain[name], packed[name]) for name in plain)
    om.read(tmp_path / "net.om2").rewrite(tmp_path / "back.om", compressed=False)
    assert om.read(tmp_path / "back.om").to_ir().graph.num_nodes() == om.read(place / "m.om").to_ir().graph.num_nodes()


def test_an_archive_lists_its_gears(place: Path, tmp_path: Path) -> None:
    shape = ["--input_shape=images:-1,3,32,32", "--dynamic_batch_size=1,4", *BASE[:2]]
    assert run(["--mode=7", f"--model={place / 'm.onnx'}", f"--output={tmp_path / 'g'}", *shape]) == 0
    with zipfile.ZipFile(tmp_path / "g.om2") as archive:
        meta = json.loads(archive.read("g/data/model_0/model_meta.json"))
    assert (meta["dynamic_type"], meta["dynamic_batch_info"]) == (1, [[1], [4]])
    assert npu.load(tmp_path / "g.om2").run({"images": np.zeros((4, 3, 32, 32), np.float32)})["output"].shape == (4, 10)


def test_archives_of_others_and_damaged_ones_are_refused(place: Path, tmp_path: Path) -> None:
    assert run(["--mode=7", f"--model={place / 'm.onnx'}", f"--output={tmp_path / 'n'}", *BASE]) == 0
    good = (tmp_path / "n.om2").read_bytes()
    with zipfile.ZipFile(tmp_path / "vendor.om2", "w") as archive:
        archive.writestr("v/manifest.json", '{"om2_version": "0", "model_num": "1"}')
        archive.writestr("v/data/model_0/runtime/libmodel.so", b"\x7fELF")
    with pytest.raises(AscError, match="compiled program"):
        om.read(tmp_path / "vendor.om2")
    with zipfile.ZipFile(tmp_path / "other.om2", "w") as archive:
        archive.writestr("v/readme.txt", "hello")
    with pytest.raises(AscError, match="without manifest"):
        om.read(tmp_path / "other.om2")
    rng = np.random.default_rng(3)
    for number in range(120):
        bad = bytearray(good)
        for position in rng.integers(0, len(bad), 40 if number % 2 else 2000):
            bad[position] ^= 1 << int(rng.integers(8))
        path = tmp_path / f"bad{number}.om2"
        path.write_bytes(bytes(bad[: int(rng.integers(4, len(bad)))] if number % 3 == 0 else bad))
        try:
            file = om.read(path)
            om.to_json(file)
            file.to_ir()
        except AscError:
            pass


@pytest.mark.provokes("E10055")
def test_mode_30_and_options_that_archives_lack(place: Path, tmp_path: Path) -> None:
    words = [f"--model={place / 'm.onnx'}", f"--output={tmp_path / 'n'}", *BASE]
    assert refusals("--mode=30", *words) == ["E10055"]
    assert refusals("--mode=7", "--enable_attr_compression=true", *words) == ["E10001"]
    assert not list(tmp_path.iterdir())
