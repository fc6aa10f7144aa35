"""`asc om ...`: what it prints, writes and returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit import om
from asc_devkit.atc.select import groups
from asc_devkit.cli.errors import guarded
from asc_devkit.cli.main import cli
from asc_devkit.ge.desc import MEMBERS
from tests.om.graphs import model

INFO = om.ModelInfo("m", "Ascend310P3", atc_cmdline="atc --model=m.onnx")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = model()
    groups.collapse(made)
    om.write(tmp_path / "m.om", made, INFO)
    return tmp_path / "m.om"


@pytest.fixture
def asc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Run `asc om ARGS`; returns exit code, stdout, stderr."""

    def run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["asc", "om", *map(str, args)])
        code = guarded(cli)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.seed("D4")
def test_show_tells_inputs_outputs_attributes_and_operators(asc, file: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = asc("show", file, "--nodes")
    assert code == 0
    for words in (
        "input 0: x  float16 [1, 3, 8, 8]",
        "output 1: host:0:host_y  float16 [4, 7]",
        "soc_version: Ascend310P3",
        "atc_cmdline: atc --model=m.onnx",
        "ai.onnx::Hardmax",
        "AIcoreEngine/cube",
        "conv, relu",
    ):
        assert words in out, words
    code, out, _ = asc("show", file, "--nodes", "--json")
    facts = json.loads(out)
    assert facts["operators"]["Conv2D"] == 2 and facts["fused"] == 1
    assert [p["type"] for p in facts["partitions"]] == ["MODEL_INOUT_INFO", "MODEL_DEF", "WEIGHTS_DATA", "TASK_INFO"]
    assert facts["nodes"][0]["origin"] == ["conv", "relu"]


def test_names_cannot_steer_the_terminal(asc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    made = model()
    made.graph.inputs[0].name = "x\x1b[2J[/bold][red]"
    made.graph[0].name = "\x1b]0;owned\x07[link=http://a]"
    om.write(tmp_path / "[a].om", made, INFO)
    code, out, err = asc("show", tmp_path / "[a].om", "--nodes")
    assert code == 0, err
    assert "\x1b" not in out and "\x07" not in out
    assert "\\x1b[2J[/bold][red]" in out and "[a].om" in out
    om.write(tmp_path / "b.om", model(), INFO)
    code, out, _ = asc("diff", tmp_path / "[a].om", tmp_path / "b.om")
    assert code == 1 and "\x1b" not in out


def test_json_is_the_whole_definition(asc, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = asc("json", file)
    assert code == 0
    definition = json.loads(out)
    assert [g["name"] for g in definition["graph"]] == ["m", f"conv/{MEMBERS}"]
    assert asc("json", file, "-o", tmp_path / "m.json")[0] == 0
    assert json.loads((tmp_path / "m.json").read_text()) == definition


def test_compress_and_decompress_lead_back_to_the_same_bytes(asc, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    packed, plain = tmp_path / "packed.om", tmp_path / "plain.om"
    assert asc("compress", file, "-o", packed)[0] == 0
    assert packed.stat().st_size < file.stat().st_size
    assert asc("decompress", packed, "-o", plain)[0] == 0
    assert plain.read_bytes() == file.read_bytes()
    assert asc("diff", packed, file)[:2] == (0, "no difference\n")
    assert asc("decompress", packed, "-o", packed)[0] == 0  # onto itself
    assert packed.read_bytes() == file.read_bytes()


def test_weights_come_out_in_either_layout(asc, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = asc("extract-weights", file, "-o", tmp_path / "w")
    assert code == 0 and "4 weights" in out
    for name, value in model().graph.initializers.items():
        assert value.const_value is not None
        assert np.array_equal(np.load(tmp_path / "w" / f"{name}.npy"), value.const_value.numpy())
    code, out, _ = asc("extract-weights", file, "-o", tmp_path / "raw", "--raw", "--json")
    shapes = {row["name"]: (row["format"], row["shape"]) for row in json.loads(out)}
    assert shapes["w1"] == ("FRACTAL_Z", [9, 2, 16, 16]) and shapes["b1"] == ("ND", [20])
    assert json.loads((tmp_path / "raw" / "index.json").read_text()) == json.loads(out)


def test_diff_sees_attributes_members_and_single_weights(asc, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    other = model()
    groups.collapse(other)
    bias = other.graph.initializers["b1"]
    assert bias.const_value is not None
    array = bias.const_value.numpy().copy()
    array[3] += 0.5
    gap = float(array[3]) - float(bias.const_value.numpy()[3])  # half, rounded to fp16
    bias.const_value = ir.tensor(array, name="b1")
    member = other.graph[0].attributes[MEMBERS].as_graph()[0]
    member.attributes["pads"] = ir.AttrInt64s("pads", [0, 0, 1, 1])
    om.write(tmp_path / "o.om", other, om.ModelInfo("m", "Ascend910B2", atc_cmdline="atc --model=m.onnx"))
    code, out, _ = asc("diff", file, tmp_path / "o.om", "--json")
    assert code == 1
    found = {(row["kind"], row["name"]): row["what"] for row in json.loads(out)}
    assert found == {
        ("attribute", "soc_version"): "'Ascend310P3' -> 'Ascend910B2'",
        ("weight", "b1"): f"1 of 20 elements differ, by up to {gap:g}",
        ("operator", f"conv/{MEMBERS}/conv"): "pads [1, 1, 1, 1] -> [0, 0, 1, 1]",
    }


@pytest.mark.parametrize("command", ["show", "json", "compress", "decompress", "extract-weights"])
def test_bad_input_and_bad_output_give_exit_code_2(asc, command: str, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    output = [] if command == "show" else ["-o", tmp_path / "out"]
    code, _, err = asc(command, tmp_path / "no.om", *output)
    assert code == 2 and "E13001" in err
    (tmp_path / "bad.om").write_bytes(b"IMOD" + b"\0" * 300)
    code, _, err = asc(command, tmp_path / "bad.om", *output)
    assert code == 2 and "E10001" in err
    assert not (tmp_path / "out").exists()
    if output:
        (tmp_path / "taken").write_text("a file, not a folder")
        code, _, err = asc(command, file, "-o", tmp_path / "taken" / "x")
        assert code == 2 and "E13004" in err
