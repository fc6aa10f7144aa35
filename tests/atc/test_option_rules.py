"""Values and combinations of options that the vendor's front end refuses are refused with its codes."""

from __future__ import annotations

import pytest

from asc_devkit.atc import option_rules
from asc_devkit.atc.options import from_flags, table
from asc_devkit.errors import AscError

GOOD = {"model": "m.onnx", "framework": "5", "output": "out/m", "soc_version": "Ascend310P3"}
ANY = {"model": "m.onnx", "output": "out/m", "soc_version": "Ascend310P3"}


def codes(flags: dict[str, str]) -> list[str]:
    return [problem.code for problem in option_rules.check(flags, table())]


@pytest.mark.provokes("E10001", "E10003", "E10005", "E10006", "E10007", "E10010", "E10013")
def test_each_kind_of_value_has_the_code_of_its_option() -> None:
    for name, value, code in (
        ("op_debug_level", "7", "E10001"),
        ("device_id", "first", "E10003"),
        ("help", "maybe", "E10003"),
        ("oo_constant_folding", "on", "E10005"),
        ("disable_reuse_memory", "true", "E10006"),
        ("external_weight", "3", "E10006"),
        ("framework", "2", "E10007"),
        ("log", "verbose", "E10010"),
        ("static_model_ops_lower_limit", "99999999999", "E10013"),
    ):
        assert codes({**GOOD, name: value})[:1] == [code], name
        problem = option_rules.check({**GOOD, name: value}, table())[0]
        assert problem.nodes == (f"--{name}",) and problem.fix


def test_every_enumeration_takes_its_values_and_nothing_else() -> None:
    """Whatever else a value may need, the option itself does not refuse it."""
    for spec in table().values():
        for value in spec.values:
            assert not [
                p for p in option_rules.check({spec.name: value}, {**table()}) if p.code == spec.code != "E10007"
            ]
        if spec.kind == "enum":
            assert (spec.code or "E10001") in codes({**GOOD, spec.name: "no such value"}), spec.name


@pytest.mark.provokes("E10021")
def test_a_path_longer_than_the_system_takes_is_refused() -> None:
    assert codes({**GOOD, "insert_op_conf": "a" * 4096}) == []
    assert codes({**GOOD, "insert_op_conf": "a" * 4097}) == ["E10021"]


@pytest.mark.provokes("E10022")
def test_an_output_without_a_file_name_is_refused() -> None:
    assert codes({**GOOD, "output": "out/"}) == ["E10022"]


@pytest.mark.provokes("E10008")
def test_a_caffe_model_needs_its_weights() -> None:
    assert codes({**ANY, "framework": "0"}) == ["E10008"]
    assert codes({**ANY, "framework": "0", "weight": "m.caffemodel"}) == []


EXCLUSIVE: list[tuple[dict[str, str], str]] = [
    ({"dynamic_batch_size": "1,2", "dynamic_dims": "1;2"}, "E10009"),
    ({"dynamic_image_size": "1,2;3,4", "input_shape_range": "x:[1~2]"}, "E10009"),
    ({"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}, "E10056"),
    ({"enable_compress_weight": "true", "compress_weight_conf": "w.cfg"}, "E10047"),
    ({"dynamic_dims": "1;2", "insert_op_conf": "aipp.cfg"}, "E10001"),
    ({"input_hint_shape": "0:[1]", "dynamic_batch_size": "1,2"}, "E10001"),
]


@pytest.mark.provokes("E10009", "E10047", "E10056")
def test_what_excludes_each_other_has_the_vendors_code() -> None:
    for flags, code in EXCLUSIVE:
        found = option_rules.check({**GOOD, **flags}, table())
        assert [(p.code, p.nodes) for p in found] == [(code, tuple(f"--{name}" for name in flags))]
        for name in flags:
            assert not codes({**GOOD, **{k: v for k, v in flags.items() if k != name}})


def test_switching_weight_compression_off_does_not_exclude_its_file() -> None:
    assert codes({**GOOD, "enable_compress_weight": "false", "compress_weight_conf": "w.cfg"}) == []


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ({"optypelist_for_implmode": "Gelu"}, "--op_select_implmode"),
        ({"modify_mixlist": "mix.json"}, "--precision_mode"),
        ({"modify_mixlist": "mix.json", "precision_mode": "force_fp16"}, "--precision_mode"),
    ],
)
def test_an_option_that_needs_another_names_it(flags: dict[str, str], missing: str) -> None:
    (problem,) = option_rules.check({**GOOD, **flags}, table())
    assert problem.code == "E10001" and problem.nodes[0] == missing


@pytest.mark.parametrize("mode", [{"precision_mode": "allow_mix_precision"}, {"precision_mode_v2": "mixed_float16"}])
def test_the_mixed_modes_take_a_changed_list(mode: dict[str, str]) -> None:
    assert codes({**GOOD, "modify_mixlist": "mix.json", **mode}) == []


@pytest.mark.provokes("E10004")
def test_modes_that_look_into_a_file_need_it() -> None:
    assert codes({"mode": "6"}) == ["E10004"]
    assert codes({"mode": "1", "om": "m.om"}) == ["E10004"]
    assert codes({"mode": "5", "om": "g.txt", "json": "g.json"}) == []


@pytest.mark.provokes("E10057")
def test_mode_6_takes_an_om_and_nothing_else() -> None:
    assert codes({"mode": "6", "om": "m.om"}) == []
    (problem,) = option_rules.check({"mode": "6", "om": "m.om", "json": "m.json", "model": "m.onnx"}, table())
    assert problem.code == "E10057" and problem.nodes == ("--json", "--model")


def test_an_om2_archive_refuses_the_options_it_cannot_have() -> None:
    given = {"status_check": "1", "virtual_type": "1", "display_model_info": "1"}
    found = option_rules.check({**GOOD, "mode": "7", **given}, table())
    assert {p.nodes[0] for p in found} == {f"--{name}" for name in given} and {p.code for p in found} == {"E10001"}


@pytest.mark.parametrize(
    ("framework", "layout", "taken"),
    [
        ("5", "NCHW", True),
        ("5", "NCDHW", True),
        ("5", "NHWC", False),
        ("0", "ND", True),
        ("0", "NHWC", False),
        ("3", "NHWC", True),
    ],
)
def test_each_framework_takes_its_layouts(framework: str, layout: str, taken: bool) -> None:
    flags = {**ANY, "framework": framework, "weight": "w", "input_format": layout}
    assert codes(flags) == ([] if taken else ["E10001"])


@pytest.mark.provokes("E10055")
def test_strict_refuses_what_the_vendors_tool_does_not_know() -> None:
    ours = {spec.name for spec in table().values() if spec.origin != "vendor"} - {"strict"}
    for name in sorted(ours):
        value = next(iter(table()[name].values), "x:1")
        assert "E10055" not in codes({**GOOD, name: value}), name
        assert "E10055" in codes({**GOOD, name: value, "strict": "true"}), name
    assert codes({**GOOD, "precision_mode": "mixed_float16"}) == []
    assert codes({**GOOD, "precision_mode": "mixed_float16", "strict": "true"}) == ["E10001"]
    assert codes({**GOOD, "dynamic_dims": "1;2", "strict": "true"}) == ["E10004"]


def test_all_problems_of_a_command_are_reported_at_once() -> None:
    with pytest.raises(AscError) as refused:
        from_flags({**GOOD, "log": "loud", "output": "x/", "oo_level": "O2", "optypelist_for_implmode": "Gelu"})
    assert [p.code for p in refused.value.problems] == ["E10022", "E10010", "E10001", "E10001"]
