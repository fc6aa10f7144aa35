"""`--strict` accepts a model exactly when the vendor's ATC has parsers for its operators at its opset."""

from __future__ import annotations

import csv
import json
from importlib import resources
from pathlib import Path

import onnx
import pytest
from onnx import defs, helper

from asc_devkit import atc
from asc_devkit.atc import strict
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.frontends.source import Source
from tests.cli.shell import asc, onnx_cnn

STANDARD = sorted({schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""})
OPSETS = range(1, defs.onnx_opset_version() + 1)


def plugin_table(domain: str = "ai.onnx") -> dict[str, range]:
    """Operator -> opsets with a parser, as the data file has them."""
    text = resources.files("asc_devkit.ops").joinpath("data/atc_onnx_ops.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {r["onnx_op"]: range(int(r["opset_min"]), int(r["opset_max"]) + 1) for r in rows if r["domain"] == domain}


def saved(path: Path, nodes: list[onnx.NodeProto], **opsets: int) -> Path:
    imports = [helper.make_opsetid("" if domain == "onnx" else domain, n) for domain, n in opsets.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], []), opset_imports=imports, ir_version=8), path)
    return path


def refused(path: Path) -> set[str]:
    try:
        strict.check(Source(path))
    except AscError as error:
        assert {problem.code for problem in error.problems} == {"E16002"}
        return {node.split(" ")[0] for problem in error.problems for node in problem.nodes}
    return set()


@pytest.mark.provokes("E16002")
@pytest.mark.parametrize("opset", OPSETS)
def test_all_standard_operators_are_judged_as_the_table_says(opset: int, tmp_path: Path) -> None:
    assert len(STANDARD) == 203
    table = plugin_table()
    nodes = [helper.make_node(name, ["x"], [f"{name}_out"], name) for name in STANDARD]
    parsed = {name for name in STANDARD if opset in table.get(name, range(0)) or name == "Constant"}
    assert refused(saved(tmp_path / "m.onnx", nodes, onnx=opset)) == set(STANDARD) - parsed


def test_operators_of_the_vendors_own_domain_and_of_others(tmp_path: Path) -> None:
    table = plugin_table("npu")
    assert len(table) == 46
    nodes = [helper.make_node(name, ["x"], [f"{name}_out"], name, domain="npu") for name in table]
    nodes.append(helper.make_node("Gelu", ["x"], ["y"], "theirs", domain="com.microsoft"))
    first = {name: opsets[0] for name, opsets in table.items()}
    (number,) = set(first.values())
    assert refused(saved(tmp_path / "m.onnx", nodes, onnx=11, npu=number, **{"com.microsoft": 1})) == {"theirs"}


def test_bodies_are_judged_too(tmp_path: Path) -> None:
    body = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], "inner")], "b", [], [])
    nodes = [helper.make_node("If", ["c"], ["z"], "outer", then_branch=body, else_branch=body)]
    assert refused(saved(tmp_path / "m.onnx", nodes, onnx=18)) == {"inner"}


def test_an_accepted_model_converts_to_the_same_file(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", "images")
    made = []
    for folder, option in (("a", {}), ("b", {"strict": "true"})):
        flags = {"model": str(model), "framework": "5", "output": str(tmp_path / folder / "m"),
                 "soc_version": "Ascend310P3", "input_shape": "images:1,3,32,32"}  # fmt: skip
        made.append(atc.compile(from_flags({**flags, **option})).om_path.read_bytes())
    assert made[0] == made[1]


def test_a_newer_model_converts_and_is_refused_with_strict(tmp_path: Path) -> None:
    model = onnx.version_converter.convert_version(onnx.load(onnx_cnn(tmp_path / "m.onnx", "images")), 21)
    onnx.save(model, tmp_path / "new.onnx")
    words = ["convert", "new.onnx", "--input-shape=images:1,3,32,32", "--json"]
    assert asc(*words, cwd=tmp_path).code == 0
    done = asc(*words, "--strict", cwd=tmp_path)
    assert done.code == 2
    problems = json.loads(done.out)["problems"]
    assert {problem["code"] for problem in problems} == {"E16002"}
    named = [node for problem in problems for node in problem["nodes"]]
    assert len(named) == len(model.graph.node)
    assert all("opset 8 to 18, the model has opset 21" in problem["cause"] for problem in problems)
    assert all("asc onnx fix" in problem["fix"] for problem in problems)
