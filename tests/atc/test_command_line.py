"""The command line is read as the vendor's parser reads it, and every mistake is named at once."""

from __future__ import annotations

import pytest

from asc_devkit.atc import option_rules
from asc_devkit.atc.command_line import parse
from asc_devkit.atc.options import EFFECTS, from_flags, table
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


@pytest.mark.provokes("ASC1101", "E10054")
def test_every_word_that_cannot_be_read_is_named() -> None:
    with pytest.raises(AscError) as refused:
        parse(["--modle=x", "--dynamic=1", "stray", "--model", "m.onnx", "stray"])
    assert [(p.code, p.nodes[0]) for p in refused.value.problems] == [
        ("ASC1101", "--modle"),
        ("ASC1101", "--dynamic"),
        ("E10054", "stray"),
        ("E10054", "stray"),
    ]


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


@pytest.mark.provokes("E10004")
def test_a_missing_value_is_an_error_of_its_own() -> None:
    with pytest.raises(AscError, match="E10004"):
        parse(["--model", "--framework=5"])


@pytest.mark.provokes("E10007", "E10054")
def test_all_missing_options_are_named_together() -> None:
    with pytest.raises(AscError) as refused:
        from_flags({})
    assert [p.nodes[0] for p in refused.value.problems] == ["--model", "--framework", "--output", "--soc_version"]


@pytest.mark.provokes("E10056")
def test_precision_mode_and_its_v2_exclude_each_other() -> None:
    with pytest.raises(AscError, match="E10056"):
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


@pytest.mark.provokes("E10001")
def test_enumerations_are_checked_with_the_nearest_value() -> None:
    with pytest.raises(AscError) as refused:
        from_flags({**GOOD, "op_select_implmode": "high_preformance"})
    assert "high_performance" in refused.value.problems[0].fix


def test_the_om_suffix_of_output_is_not_doubled() -> None:
    assert str(from_flags(GOOD).output) == "out/m"


VENDOR = """
help mode model weight om json singleop output framework input_format input_shape input_shape_range input_hint_shape
dynamic_batch_size dynamic_image_size dynamic_dims out_nodes output_type input_fp16_nodes is_input_adjust_hw_layout
is_output_adjust_hw_layout soc_version insert_op_conf op_name_map cal_conf check_report target core_type aicore_num
virtual_type device_id precision_mode precision_mode_v2 op_precision_mode modify_mixlist keep_dtype customize_dtypes
allow_hf32 is_weight_clip op_select_implmode optypelist_for_implmode fusion_switch_file optimization_switch oo_level
oo_constant_folding oo_dead_code_elimination enable_scope_fusion_passes buffer_optimize enable_small_channel
enable_compress_weight compress_weight_conf compression_optimize_conf sparsity enable_attr_compression external_weight
disable_reuse_memory enable_single_stream ac_parallel_enable tiling_schedule_optimize topo_sorting_mode
multi_stream_parallel_mode h2d_overlapped_with_compute static_model_ops_lower_limit mdl_bank_path op_bank_path
auto_tune_mode jit_compile shape_generalized_build_mode log debug_dir op_debug_level op_debug_config
op_compiler_cache_mode op_compiler_cache_dir dump_mode status_check atomic_clean_policy deterministic
deterministic_level display_model_info save_original_model quant_dumpable export_compile_stat host_env_os host_env_cpu
cluster_config hccl_sub_comm_config raw_ge_options raw_ge_options_ignore_unsupported build_config
"""  # the option registrations of the vendor's command line, August 2026


def test_the_table_holds_exactly_the_ninety_options_of_the_vendor() -> None:
    rows = [spec.name for spec in table().values() if spec.origin == "vendor"]
    assert len(rows) == 90
    assert sorted(rows) == sorted(VENDOR.split())


def test_every_option_has_a_sentence_and_a_known_effect() -> None:
    for spec in table().values():
        assert spec.sentence.endswith(".") and spec.effect in EFFECTS, spec.name
        assert spec.kind in ("flag", "enum", "int", "path", "text"), spec.name
        assert spec.kind != "enum" or (len(spec.values) > 1 and spec.default in ("", *spec.values)), spec.name
        assert spec.since or spec.origin != "vendor", spec.name


def test_rules_between_options_name_options_and_values_that_exist() -> None:
    for rule in option_rules.rules():
        listed = rule.get("options", ()) if rule.get("options") != "beyond the vendor" else ()
        conditions = [*rule.get("when", ()), *rule.get("unless", ()), *rule.get("any_of", ()), *listed]
        for condition in [*conditions, *([rule["option"]] if "option" in rule else [])]:
            name, _, values = condition.partition("=")
            assert name in table(), condition
            if values and table()[name].values:
                assert set(values.split("|")) <= set(table()[name].values), condition
