"""Gears: the vendor's rules, and one model for three resolutions of a real detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit import npu, om, perf
from asc_devkit.atc import gears
from asc_devkit.atc.options import Options, from_flags
from asc_devkit.atc.pipeline import compile as convert
from asc_devkit.errors import AscError
from asc_devkit.om import mbatch
from asc_devkit.om.encode import ENGINE_ATTR
from tests.models import model_path

SIZES = ((160, 160), (192, 256), (320, 320))
BASE = {"x": (-1, 3, 32, 32)}


def _options(**texts: str) -> Options:
    return Options(model=Path("m.onnx"), output=Path("m"), soc_version="Ascend310P3", **texts)  # type: ignore[arg-type]


BROKEN: list[tuple[dict[str, str], set[str]]] = [
    ({"dynamic_batch_size": "4"}, {"E10035"}),
    ({"dynamic_batch_size": ",".join(map(str, range(1, 102)))}, {"E10036"}),
    ({"dynamic_dims": "1,2;3"}, {"E10037"}),
    ({"dynamic_batch_size": "0,2,2"}, {"E10038", "E10039"}),
    ({"dynamic_batch_size": "1,two"}, {"E10001", "E10035"}),
    ({"dynamic_image_size": "32,32;64"}, {"E10020", "E10035"}),
    ({"dynamic_batch_size": "1,2", "input_shape": "x:-1,3,-1,32"}, {"E10018"}),
    ({"dynamic_batch_size": "1,2", "input_shape": "x:1,3,32,32"}, {"E10031"}),
    ({"dynamic_image_size": "32,32;64,64"}, {"E10019"}),
    ({"dynamic_dims": "1,2;3,4", "input_shape": "x:1,3,32,32"}, {"E10040"}),
    ({"dynamic_dims": "1;3", "input_shape": "x:-1,3,-1,32"}, {"E10045"}),
    ({"dynamic_dims": "1,2;3,4"}, {"E10046"}),
    ({"dynamic_batch_size": "1,2", "input_shape": "x:1~2,3,32,32"}, {"E10055"}),
    ({"dynamic_shape": "x:[1,3,32,32]"}, {"E10035"}),
    ({"dynamic_shape": "y:[1,3];[2,3]"}, {"E10016"}),
]


@pytest.mark.provokes(
    "E10018", "E10019", "E10020", "E10031", "E10035", "E10036", "E10037", "E10038", "E10039", "E10040"
)
@pytest.mark.provokes("E10045", "E10046")
def test_each_broken_rule_has_the_vendors_code() -> None:
    for texts, codes in BROKEN:
        with pytest.raises(AscError) as raised:
            gears.plan(_options(**texts), BASE)
        assert {p.code for p in raised.value.problems} == codes, texts


@pytest.mark.provokes("E10009")
def test_the_kinds_of_gears_exclude_each_other() -> None:
    flags = {"model": "m", "framework": "5", "output": "m", "soc_version": "Ascend310P3"}
    kinds = {
        "dynamic_batch_size": "1,2",
        "dynamic_image_size": "3,3;4,4",
        "dynamic_dims": "1;2",
        "dynamic_shape": "x:[1]",
    }
    with pytest.raises(AscError) as raised:
        from_flags({**flags, **kinds})
    (problem,) = raised.value.problems
    assert problem.code == "E10009"
    assert problem.nodes == tuple(f"--{name}" for name in kinds)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    folder = tmp_path_factory.mktemp("gears")
    model = model_path("ppocr_det")
    common = {"model": str(model), "framework": "5", "soc_version": "Ascend310P3"}
    made: dict[Any, Any] = {}
    for height, width in SIZES:
        flags = {**common, "output": str(folder / f"s{height}"), "input_shape": f"x:1,3,{height},{width}"}
        made[height, width] = convert(from_flags(flags))
    text = ";".join(f"{h},{w}" for h, w in SIZES)
    flags = {**common, "output": str(folder / "all"), "input_shape": "x:1,3,-1,-1", "dynamic_image_size": text}
    made["all"] = convert(from_flags(flags))
    return made


def test_all_gears_of_a_detector_equal_static_conversions_bit_for_bit(converted: dict[Any, Any]) -> None:
    session = npu.load(converted["all"].om_path, threads=2)
    for height, width in SIZES:
        feed = {"x": np.random.default_rng(1).standard_normal((1, 3, height, width)).astype(np.float32)}
        wanted = npu.load(converted[height, width].om_path, threads=2).run(feed)
        found = session.run(feed)
        assert list(found) == list(wanted)
        assert all(found[n].shape == v.shape and found[n].tobytes() == v.tobytes() for n, v in wanted.items())


def test_weights_are_stored_once_for_all_gears(converted: dict[Any, Any]) -> None:
    files = {key: om.read(result.om_path) for key, result in converted.items()}
    for key, file in files.items():
        print(key, "file", len(file.data), "weights", len(file.weights))
    static = max(len(files[size].weights) for size in SIZES)
    assert len(files["all"].weights) <= static * 1.02
    plans = sum(len(files[size].data) - len(files[size].weights) for size in SIZES)
    assert len(files["all"].data) <= static * 1.02 + plans * 1.1


def test_the_file_has_the_vendors_case_form_and_lists_the_gears(converted: dict[Any, Any]) -> None:
    file = om.read(converted["all"].om_path)
    assert file.in_out.image_gears == SIZES and file.in_out.user_order == ("x",)
    assert [t.name for t in file.inputs] == ["x", "ascend_mbatch_shape_data"]
    assert file.inputs[0].shape == (1, 3, -1, -1) and file.inputs[0].size == 3 * 320 * 320 * 4
    root, *rest = file.model_def.graph
    assert {op.type for op in root.op} == {"Data", "Const", "MapIndex", "Case", "NetOutput"}
    (case,) = (op for op in root.op if op.type == "Case")
    assert case.attr["batch_num"].i == 3 and list(case.attr["pred_value_1"].list.i) == [192, 256]
    bodies = {graph.name: graph for graph in rest}
    for index, name in enumerate(case.subgraph_name):
        assert all(op.name.endswith(f"_ascend_mbatch_batch_{index}") for op in bodies[name].op)
    assert sum(ENGINE_ATTR in op.attr for op in bodies[case.subgraph_name[0]].op) > 20


def test_reading_and_writing_a_model_with_gears_changes_nothing(converted: dict[Any, Any], tmp_path: Path) -> None:
    file = om.read(converted["all"].om_path)
    assert file.to_bytes() == bytes(file.data)
    om.write(tmp_path / "again.om", file.to_ir(), om.ModelInfo(name="all", soc_version="Ascend310P3"))
    again = om.read(tmp_path / "again.om")
    assert again.in_out == file.in_out and again.gears == file.gears
    assert bytes(again.weights) == bytes(file.weights)
    names = [[node.name for node in ir.traversal.RecursiveGraphIterator(f.to_ir(1).graph)] for f in (file, again)]
    assert names[0] == names[1] and not any("mbatch" in (name or "") for name in names[0])


def test_estimate_and_memory_are_those_of_the_largest_gear(converted: dict[Any, Any]) -> None:
    result, static = converted["all"], converted[320, 320]
    model = om.read(result.om_path).to_ir()
    estimate = perf.estimate(model, result.soc)
    assert estimate.total_us == perf.estimate(om.read(static.om_path).to_ir(), result.soc).total_us
    assert any("gear 2" in note for note in estimate.notes)
    assert result.memory.feature_bytes == static.memory.feature_bytes
    found = mbatch.largest(model)
    assert found is not None and found[0] == 2
