"""The fusion switch file in both forms, and ``fusion_result.json``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asc_devkit.errors import AscError
from asc_devkit.ge.desc import GROUP
from asc_devkit.passes import FusionReport, PassContext, Switches, all_passes, optimise
from asc_devkit.passes.switches import vendor_passes
from tests.passes.test_patterns import CASES, parse


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def enabled(switches: Switches) -> set[str]:
    return {p.name for p in all_passes() if switches.allows(p)}


def test_lines_switch_single_passes(tmp_path: Path) -> None:
    file = write(tmp_path / "fusion.cfg", "GeluFusionPass:off\n\nSoftmaxFusionPass : on\n")
    switches = Switches.load(file)
    assert {p.name for p in all_passes()} - enabled(switches) == {"GeluFusionPass"}
    assert switches.warnings == ()


def test_json_all_switches_a_section_and_single_names_outrank_it(tmp_path: Path) -> None:
    content = {"Switch": {"GraphFusion": {"ALL": "off", "SoftmaxFusionPass": "on"}, "UBFusion": {"ALL": "off"}}}
    switches = Switches.load(write(tmp_path / "f.json", json.dumps(content)))
    assert enabled(switches) == {"SoftmaxFusionPass"}


def test_everything_off_leaves_the_graph_alone(tmp_path: Path) -> None:
    content = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
    model = parse(CASES["gelu with erf"][0])
    before = [n.op_type for n in model.graph]
    report = optimise(model, PassContext(Switches.load(write(tmp_path / "f", json.dumps(content)))))
    assert [n.op_type for n in model.graph] == before
    assert report.rewrites == []


def test_pairs_of_the_command_line_outrank_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "GeluFusionPass:off\nMishFusionPass:off")
    switches = Switches.load(file, "GeluFusionPass:on;SoftmaxFusionPass:off")
    assert {p.name for p in all_passes()} - enabled(switches) == {"MishFusionPass", "SoftmaxFusionPass"}


def test_a_typo_is_answered_with_the_nearest_name() -> None:
    (warning,) = Switches.load(pairs="GelluFusionPas:off").warnings
    assert "did you mean GeluFusionPass?" in warning


def test_a_pass_only_the_vendor_has_is_no_typo() -> None:
    (warning,) = Switches.load(pairs="SoftmaxGradFusionPass:off").warnings
    assert "no counterpart" in warning


BAD = [
    ("GeluFusionPass", "E10001"),
    ("GeluFusionPass:maybe", "E10001"),
    ('{"Switch": ', "E10032"),
    ('{"Fusion": {}}', "E10032"),
    ('{"Switch": {"Graph": {"ALL": "off"}}}', "E10032"),
    ('{"Switch": {"GraphFusion": {"ALL": 0}}}', "E10032"),
    ("[" * 100000, "E10001"),
    ("{" * 100000, "E10032"),
]


@pytest.mark.provokes("E10001", "E10032")
def test_bad_files_are_refused(tmp_path: Path) -> None:
    for text, code in BAD:
        with pytest.raises(AscError) as caught:
            Switches.load(write(tmp_path / "f", text))
        assert {p.code for p in caught.value.problems} == {code}, text[:50]


def test_all_bad_lines_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(AscError) as caught:
        Switches.load(write(tmp_path / "f", "a\nb:x\nGeluFusionPass:off"))
    assert len(caught.value.problems) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AscError, match=r"nothing\.cfg"):
        Switches.load(tmp_path / "nothing.cfg")


def test_fusion_result_has_the_vendors_layout(tmp_path: Path) -> None:
    model = parse(
        """(float[1,2,4,4] x) => (float[1,2,3,3] y)
        <float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[2] g = {1,2}>
        { a = Conv(x, w) b = BatchNormalization(a, g, g, g, g) y = Relu(b) }"""
    )
    report = optimise(model)
    report.save(tmp_path / "fusion_result.json")
    assert json.loads((tmp_path / "fusion_result.json").read_text()) == {
        "session_and_graph_id_0_0": {
            "graph_fusion": {"ConvBatchnormFusionPass": {"effect_times": "1", "match_times": "1"}},
            "ub_fusion": {
                "TbeConvCommonRules2FusionPass": {
                    "effect_times": "1",
                    "match_times": "1",
                    "repository_hit_times": "0",
                }
            },
        }
    }


def test_a_chip_without_ub_fusion_gets_no_groups_and_no_section() -> None:
    model = parse("(float[2,4] x, float[2,4] z) => (float[2,4] y) { a = Add(x, z) y = Relu(a) }")
    report = optimise(model, PassContext(soc="Ascend950PR_9589"))
    assert report.as_vendor_json() == {"session_and_graph_id_0_0": {"graph_fusion": {}}}
    assert all(GROUP not in n.meta for n in model.graph)
    assert optimise(model, PassContext(soc="Ascend910B2")).count("TbeEltwiseFusionPass").effect_times == 1
    assert len({n.meta[GROUP] for n in model.graph}) == 1


def test_rewrites_name_what_went_and_what_came() -> None:
    report = optimise(parse(CASES["gelu with erf"][0]))
    (rewrite,) = [r for r in report.rewrites if r.pass_name == "GeluFusionPass"]
    assert [name.split(" ")[1] for name in rewrite.before] == ["(Div)", "(Erf)", "(Add)", "(Mul)", "(Mul)"]
    assert [name.split(" ")[1] for name in rewrite.after] == ["(Gelu)"]


def test_every_pass_says_what_it_is() -> None:
    vendor = vendor_passes()
    for item in all_passes():
        assert item.__doc__ and item.numerics
        assert (item.name in vendor) is not item.own, item.name
    assert isinstance(FusionReport.for_passes(all_passes()), FusionReport)


def test_the_page_of_the_passes_is_current() -> None:
    from asc_devkit.passes.document import page

    stored = Path(__file__).resolve().parents[2] / "docs" / "passes.md"
    assert stored.read_text(encoding="utf-8") == page(all_passes())
