"""The command line is read as the vendor's parser reads it, and every mistake is named at once."""

from __future__ import annotations

import pytest

from asc_devkit.atc.command_line import parse
from asc_devkit.atc.options import from_flags, table
from asc_devkit.errors import AscError

GOOD = {"model": "m.onnx", "framework": "5", "output": "out/m.om", "soc_version": "Ascend310P3"}


@pytest.mark.parametrize(
    "words",
    [
        ["--input_shape=a:1,3;b:2"],
        ["--input_shape", "a:1,3;b:2"],
        ["-input_shape=a:1,3;b:2"],
        ["--input-shape=a:1,3;b:2"],
    ],
)
def test_every_spelling_of_an_option_means_the_same(words: list[str]) -> None:
    assert parse(words) == {"input_shape": "a:1,3;b:2"}


def test_a_value_may_contain_an_equals_sign() -> None:
    assert parse(["--raw_ge_options=a=b"]) == {"raw_ge_options": "a=b"}


def test_an_unambiguous_prefix_is_completed() -> None:
    assert parse(["--soc=Ascend310"]) == {"soc_version": "Ascend310"}


@pytest.mark.parametrize(
    ("wrong", "right"), [("out_node", "out_nodes"), ("modle", "model"), ("input_shap3", "input_shape")]
)
def test_typos_get_the_nearest_option(wrong: str, right: str) -> None:
    if wrong == "out_node":  # a prefix of out_nodes, so it is simply completed
        assert parse([f"--{wrong}=x:0"]) == {right: "x:0"}
        return
    with pytest.raises(AscError) as refused:
        parse([f"--{wrong}=x"])
    assert f"--{right}" in refused.value.problems[0].fix


def test_a_missing_value_is_an_error_of_its_own() -> None:
    with pytest.raises(AscError, match="E10004"):
        parse(["--model", "--framework=5"])


def test_all_missing_options_are_named_together() -> None:
    with pytest.raises(AscError) as refused:
        from_flags({})
    assert [p.nodes[0] for p in refused.value.problems] == ["--model", "--framework", "--output", "--soc_version"]


def test_precision_mode_and_its_v2_exclude_each_other() -> None:
    with pytest.raises(AscError, match="E10009"):
        from_flags({**GOOD, "precision_mode": "force_fp16", "precision_mode_v2": "fp16"})


@pytest.mark.parametrize(
    ("v2", "v1"),
    [
        ("fp16", "force_fp16"),
        ("origin", "must_keep_origin_dtype"),
        ("mixed_float16", "allow_mix_precision_fp16"),
        ("mixed_bfloat16", "allow_mix_precision_bf16"),
        ("cube_fp16in_fp32out", "cube_fp16in_fp32out"),
    ],
)
def test_v2_values_mean_what_the_manual_says(v2: str, v1: str) -> None:
    assert from_flags({**GOOD, "precision_mode_v2": v2}).precision_mode == v1


def test_enumerations_are_checked_with_the_nearest_value() -> None:
    with pytest.raises(AscError) as refused:
        from_flags({**GOOD, "op_select_implmode": "high_preformance"})
    assert "high_performance" in refused.value.problems[0].fix


def test_the_om_suffix_of_output_is_not_doubled() -> None:
    assert str(from_flags(GOOD).output) == "out/m"


def test_every_option_has_a_sentence_and_a_known_effect() -> None:
    assert all(
        spec.sentence and spec.effect in ("implemented", "recorded", "not applicable here") for spec in table().values()
    )
