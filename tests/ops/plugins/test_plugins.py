"""A custom operator declared in a Python file works in every tool, and what is wrong with it is said with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from asc_devkit import atc, npu, om, ops, perf, soc
from asc_devkit.atc.options import Options
from asc_devkit.cli.errors import guarded
from asc_devkit.cli.main import cli
from asc_devkit.errors import AscError, Problem
from asc_devkit.ops import plugins
from tests.ops.plugins.models import WEIGHTS, chain, using, write_model, write_plugin

SOC = "Ascend310P3"


@pytest.fixture(autouse=True)
def _nothing_stays_loaded() -> Iterator[None]:
    yield
    plugins.unload_all()


def convert(model: Path, **settings: object) -> Path:
    target = {"model": model, "output": model.with_suffix(""), "soc_version": SOC}
    return atc.compile(Options(**{**target, **settings})).om_path  # type: ignore[arg-type]


def invoke(*words: object) -> tuple[int, Result]:
    """Exit code and output of an ``asc`` command line."""
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if isinstance(result.exception, AscError):
        return result.exception.exit_code, result
    if result.exception is not None:
        raise result.exception
    return result.return_value if isinstance(result.return_value, int) else result.exit_code, result


def failure(text: str, folder: Path) -> Problem:
    with pytest.raises(AscError) as caught:
        plugins.load(write_plugin(folder, text))
    return caught.value.problems[0]


def test_results_in_fp16_are_rounded_once_at_the_operator(tmp_path: Path) -> None:
    """Worked by hand: the operator reads fp16 values, computes in float32, and its result is rounded to fp16."""
    with using(write_plugin(tmp_path)):
        session = npu.load(convert(chain(tmp_path / "m.onnx")), cache=False)
        x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
        outputs, values = session.run_with_values({"x": x}, ["matmul", "clip"])
    product = values["matmul"]
    exact = x.astype(np.float16).astype(np.float64) @ WEIGHTS.astype(np.float16).astype(np.float64)
    assert product.dtype == np.float16 and np.abs(product - exact).max() < 5e-3
    clipped = np.clip(product.astype(np.float32) * np.float32(0.3), -1.5, 1.5).astype(np.float16)
    assert np.array_equal(values["clip"], clipped) and values["clip"].dtype == np.float16
    top = np.sort(np.maximum(clipped, 0), axis=-1)[:, ::-1][:, :3]
    assert np.array_equal(outputs["y"], np.concatenate([top, top], 1).astype(np.float32))


@pytest.mark.provokes("ASC2013")
def test_the_om_carries_the_operator_and_asks_for_its_plugin(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path)
    path = convert(chain(tmp_path / "m.onnx"), op_plugin_path=str(plugin))
    plugins.unload_all()
    types = [node.op_type for node in om.read(path).to_ir().graph]
    assert {"ScaledClip", "TopK2", "JoinAll"} <= set(types)
    code, shown = invoke("om", "show", path, "--nodes")
    assert code == 0 and "ScaledClip" in shown.output
    with pytest.raises(AscError) as caught:
        npu.load(path)
    assert {p.code for p in caught.value.problems} == {"ASC2013"} and len(caught.value.problems) == 3
    assert "acme_plugin.py" in caught.value.problems[0].what and "--op_plugin_path" in caught.value.problems[0].fix
    with using(plugin):
        npu.load(path)  # leaves an executable in the cache
    with pytest.raises(AscError, match="ASC2013"):
        npu.load(path)


def test_a_model_with_an_undeclared_operator_points_to_plugins(tmp_path: Path) -> None:
    with pytest.raises(AscError) as caught:
        convert(chain(tmp_path / "m.onnx"))
    assert all(p.code == "E16002" and "--op_plugin_path" in p.fix for p in caught.value.problems)


@pytest.mark.seed("C8")
def test_atc_takes_the_option_in_the_spelling_of_articles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asc_devkit.cli import atc as command

    monkeypatch.chdir(tmp_path)
    model, plugin = chain(tmp_path / "m.onnx"), write_plugin(tmp_path)
    words = ["--framework=5", f"--model={model}", "--output=out", f"--soc_version={SOC}", f"--op_plugin_path={plugin}"]
    assert guarded(lambda: command.run(words)) == 0
    assert (tmp_path / "out.om").is_file()
    assert "operator plugin" in (tmp_path / "out_conversion.log").read_text()


def test_check_compares_custom_layers_with_the_original(tmp_path: Path) -> None:
    model, plugin = chain(tmp_path / "m.onnx"), write_plugin(tmp_path)
    words = ("check", model, "--op-plugin-path", tmp_path, "-o", tmp_path / "out", "--json")
    code, result = invoke(*words)
    assert code == 0
    report = json.loads(result.stdout)
    layers = {row["type"]: row for row in report["accuracy"]["layers"]}
    assert {"ScaledClip", "TopK2", "JoinAll"} <= set(layers)
    assert 0.999 < layers["ScaledClip"]["cosine"] < 1
    assert plugin.is_file()


def test_run_and_dump_with_the_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.ENVIRONMENT, str(write_plugin(tmp_path)))
    path = convert(chain(tmp_path / "m.onnx"))
    plugins.unload_all()
    code, _ = invoke("run", path, "--dump", tmp_path / "dump")
    assert code == 0
    index = (tmp_path / "dump" / "index.json").read_text()
    assert "ScaledClip" in index and "TopK2" in index


def test_the_estimate_uses_the_declared_operations(tmp_path: Path) -> None:
    with using(write_plugin(tmp_path)):
        model = om.read(convert(chain(tmp_path / "m.onnx"))).to_ir()
        found = {op.type: op for op in perf.estimate(model, soc.get(SOC)).operators}
    assert found["TopK2"].flops == 1e9 and found["TopK2"].us > 100 * found["ScaledClip"].us
    assert "plugin" in found["TopK2"].note
    assert found["JoinAll"].cost == "aicpu"


def test_inside_a_branch(tmp_path: Path) -> None:
    def branch(name: str, scale: float) -> object:
        node = helper.make_node("ScaledClip", ["x"], [f"{name}_y"], name=name, domain="acme", scale=scale)
        result = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, (4, 16))
        return helper.make_graph([node], name, [], [result])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], name="max", keepdims=0),
        helper.make_node("Greater", ["most", "limit"], ["big"], name="greater"),
        helper.make_node(
            "If", ["big"], ["y"], name="if", then_branch=branch("then", 0.5), else_branch=branch("other", 3.0)
        ),
    ]
    model = write_model(tmp_path / "m.onnx", nodes, "y")
    with using(write_plugin(tmp_path)):
        session = npu.load(convert(model, precision_mode="must_keep_origin_dtype", soc_version="Ascend910B1"))
        for x in (np.full((4, 16), 1.0, np.float32), np.full((4, 16), 2.0, np.float32)):
            assert np.array_equal(session.run({"x": x})["y"], x * (0.5 if x.max() > 1.5 else 3.0))


def test_torch_functions_get_tensors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = """
import torch
from asc_devkit.ops import operator

@operator("acme::ScaledClip", inputs="x limit", attrs={"scale": 1.0}, framework="torch")
def clip(x, limit, *, scale):
    assert isinstance(x, torch.Tensor)
    return torch.clamp(x * scale, -limit, limit)
"""
    node = helper.make_node("ScaledClip", ["x", "limit"], ["y"], name="clip", domain="acme", scale=2.0)
    with using(write_plugin(tmp_path, text)):
        session = npu.load(convert(write_model(tmp_path / "m.onnx", [node], "y")))
        y = session.run({"x": np.full((4, 16), 0.25, np.float32)})["y"]
    assert np.array_equal(y, np.full((4, 16), 0.5, np.float32))


def test_attributes_come_in_their_declared_kinds(tmp_path: Path) -> None:
    text = """
import numpy as np
from asc_devkit.ops import operator

@operator("acme::Probe", attrs={"domain": "", "axes": [1, 2], "flag": False, "ratio": 2, "weights": list[float],
                                "table": np.ndarray})
def probe(x, **attrs):
    expected = {"domain": "here", "axes": [1, 2], "flag": True, "ratio": 2, "weights": [0.5, 1.0]}
    table = attrs.pop("table")
    assert attrs == expected and type(attrs["flag"]) is bool, attrs
    return x + table
"""
    table = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    node = helper.make_node("Probe", ["x"], ["y"], name="p", domain="acme", flag=1, weights=[0.5, 1.0], table=table)
    node.attribute.append(helper.make_attribute("domain", "here"))
    with using(write_plugin(tmp_path, text)):
        session = npu.load(convert(write_model(tmp_path / "m.onnx", [node], "y", (3, 2))), cache=False)
        assert session.run({"x": np.zeros((3, 2), np.float32)})["y"].tolist() == [[1.0, 2.0]] * 3


def test_a_changed_file_replaces_its_operators(tmp_path: Path) -> None:
    text = 'from asc_devkit.ops import operator\n@operator("acme::Scale")\ndef f(x):\n    return x * {}\n'
    node = helper.make_node("Scale", ["x"], ["y"], name="s", domain="acme")
    model = write_model(tmp_path / "m.onnx", [node], "y")
    for factor in (2, 3):
        plugins.load(write_plugin(tmp_path, text.format(factor)))
        session = npu.load(convert(model))
        assert session.run({"x": np.ones((4, 16), np.float32)})["y"][0, 0] == factor
    assert len(plugins.loaded()) == 1


def test_nothing_in_a_folder_runs_but_its_plugins(tmp_path: Path) -> None:
    write_plugin(tmp_path, "raise SystemExit('ran')", "test_something.py")
    write_plugin(tmp_path)
    assert [p.path.name for p in plugins.load(tmp_path)] == ["acme_plugin.py"]


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("import numpy\n\nx = (1,\n", "SyntaxError", 3),
        ("\nimport no_such_module_at_all\n", "ModuleNotFoundError", 2),
        ("raise SystemExit(3)\n", "SystemExit", 1),
        ("from asc_devkit.ops import operator\n\noperator('a b')\n", "no operator name", 3),
        ("from asc_devkit.ops import operator\n@operator('Relu')\ndef f(x): ...\n", "in the catalogue already", 2),
        ("from asc_devkit.ops import operator\n@operator('acme::Swish')\ndef f(x): ...\n", "another type", 2),
        ("from asc_devkit.ops import operator\n@operator('ge::A')\ndef f(x): ...\n", "own; use another", 2),
        ("from asc_devkit.ops import operator\noperator('a::B', cost='conv', floats='int8')\n", "cost='conv'", 2),
        ("from asc_devkit.ops import operator\noperator('a::B', inputs='x* y')\n", "only the last", 2),
        ("from asc_devkit.ops import operator\noperator('a::B', attrs={'k': object()})\n", "attrs: 'k'", 2),
        ("from asc_devkit.ops import operator\noperator('a::B', outputs='y y')\n", "different names", 2),
    ],
)
def test_faults_in_a_file_are_said_with_the_line(text: str, says: str, line: int, tmp_path: Path) -> None:
    before = [op.type for op in ops.all_ge()]
    problem = failure(text, tmp_path)
    assert problem.code == "ASC2011" and says in problem.what and f"line {line}" in problem.what
    assert "Traceback" not in problem.what
    assert [op.type for op in ops.all_ge()] == before and not plugins.loaded()


@pytest.mark.provokes("ASC2011")
def test_paths_that_are_no_plugins(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    paths = [tmp_path / "absent.py", tmp_path / "empty", tmp_path / "notes.txt"]
    with pytest.raises(AscError) as caught:
        plugins.load(paths)
    assert [p.code for p in caught.value.problems] == ["ASC2011"] * 3
    assert "declares no operator" in failure("x = 1\n", tmp_path).what


def test_a_failure_while_computing_is_said_with_the_line(tmp_path: Path) -> None:
    text = 'from asc_devkit.ops import operator\n@operator("acme::Bad")\ndef bad(x):\n    return x[99]\n'
    node = helper.make_node("Bad", ["x"], ["y"], name="bad", domain="acme")
    with using(write_plugin(tmp_path, text)):
        session = npu.load(convert(write_model(tmp_path / "m.onnx", [node], "y")), cache=False)
        with pytest.raises(AscError) as caught:
            session.run({"x": np.zeros((4, 16), np.float32)})
    problem = caught.value.problems[0]
    assert problem.code == "ASC2012" and "IndexError" in problem.what and "line 4" in problem.nodes[0]


@pytest.mark.provokes("ASC2012")
def test_shapes_that_are_not_as_promised(tmp_path: Path) -> None:
    text = 'from asc_devkit.ops import operator\n@operator("acme::Bad")\ndef bad(x):\n    return x[:1]\n'
    node = helper.make_node("Bad", ["x"], ["y"], name="bad", domain="acme")
    with using(write_plugin(tmp_path, text)):
        session = npu.load(convert(write_model(tmp_path / "m.onnx", [node], "y")), cache=False)
        with pytest.raises(AscError, match=r"promised \[\[4, 16\]\]"):
            session.run({"x": np.zeros((4, 16), np.float32)})


def test_a_failing_shape_inference_and_a_wrong_one(tmp_path: Path) -> None:
    head = 'from asc_devkit.ops import operator\n@operator("acme::Bad")\ndef bad(x):\n    return x\n@bad.infer\n'
    model = write_model(tmp_path / "m.onnx", [helper.make_node("Bad", ["x"], ["y"], domain="acme")], "y")
    for body, says in (
        ("def _(x):\n    return 1 // 0\n", "ZeroDivision"),
        ("def _(x):\n    return [3]\n", "TensorType"),
    ):
        with using(write_plugin(tmp_path, head + body)), pytest.raises(AscError) as caught:
            convert(model)
        assert caught.value.problems[0].code == "ASC2012" and says in caught.value.problems[0].what


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (helper.make_node("TopK2", ["x"], ["y"], name="n", domain="acme"), "lacks the attribute k"),
        (helper.make_node("ScaledClip", ["x"], ["y"], name="n", domain="acme", scala=2.0), "no attribute scala"),
        (helper.make_node("ScaledClip", ["x", "limit", "w"], ["y"], name="n", domain="acme"), "3 inputs"),
    ],
)
def test_a_node_that_does_not_fit_its_declaration(node: object, says: str, tmp_path: Path) -> None:
    with using(write_plugin(tmp_path)), pytest.raises(AscError) as caught:
        convert(write_model(tmp_path / "m.onnx", [node], "y"))  # type: ignore[list-item]
    assert caught.value.problems[0].code == "E16002" and says in caught.value.problems[0].cause


def test_the_example_of_the_page_loads() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")
    (code,) = [part.removeprefix("python\n") for part in page.split("```")[1::2] if part.startswith("python\n")]
    namespace: dict[str, object] = {}
    try:
        exec(code, namespace)
        top = namespace["top_means"]
        values, mean = top(np.array([[3.0, 1.0, 2.0]]), k=2)  # type: ignore[operator]
        assert values.tolist() == [[3.0, 2.0]] and mean.tolist() == [2.0]
        assert ops.lookup("ScaledClip") is not None
    finally:
        plugins.unload_all()
    assert ops.lookup("ScaledClip") is None
