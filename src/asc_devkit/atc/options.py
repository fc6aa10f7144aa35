"""ATC options: the table (data/options.json), its validation, and the typed ``Options`` that the stages read.

Called by ``atc.command_line`` (which turns spellings into names) and by the Python API directly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from asc_devkit.atc import option_rules
from asc_devkit.atc.option_rules import nearest as nearest
from asc_devkit.errors import AscError

FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow", "5": "ONNX"}
OUTPUT_TYPES = ("FP32", "FP16", "UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "DOUBLE")
EFFECTS = ("implemented", "recorded", "not applicable here")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One row of the option table.

    ``kind``: flag (may stand alone), enum, int, path or text. ``since``: month of the oldest public material that shows the
    option. ``effect`` is one of ``EFFECTS``. ``code`` is reported for a value outside ``values``. ``origin``: ``vendor``,
    ``article spelling`` (public articles use it, the vendor's tool lacks it) or ``asc-devkit``; ``alias``: what it stands for.
    """

    name: str
    group: str
    kind: str
    values: tuple[str, ...]
    default: str
    since: str
    effect: str
    sentence: str
    code: str = ""
    origin: str = "vendor"
    alias: str = ""


@lru_cache(maxsize=1)
def table() -> dict[str, OptionSpec]:
    """All options by name, in documentation order."""
    text = resources.files("asc_devkit.atc").joinpath("data/options.json").read_text(encoding="utf-8")
    return {row["name"]: OptionSpec(**{**row, "values": tuple(row["values"])}) for row in json.loads(text)["options"]}


@dataclass(frozen=True)
class Options:
    """What one conversion was asked to do. Text-valued fields hold the option text as given."""

    model: Path
    output: Path
    soc_version: str
    framework: str = "5"
    input_format: str = "NCHW"
    weight: Path | None = None
    input_shape: str = ""
    input_shape_range: str = ""
    dynamic_batch_size: str = ""
    dynamic_image_size: str = ""
    dynamic_dims: str = ""
    dynamic_shape: str = ""
    precision_mode: str = "force_fp16"
    output_type: str = ""
    out_nodes: str = ""
    input_fp16_nodes: str = ""
    insert_op_conf: Path | None = None
    log: str = "null"
    debug_dir: Path | None = None
    fusion_switch_file: Path | None = None
    optimization_switch: str = ""
    enable_scope_fusion: bool = True
    oo_level: str = "O3"
    oo_constant_folding: bool = True
    oo_dead_code_elimination: bool = True
    op_select_implmode: str = ""
    optypelist_for_implmode: tuple[str, ...] = ()
    is_weight_clip: bool = True
    allow_hf32: str = ""
    op_precision_mode: str = ""
    keep_dtype: str = ""
    auto_keep_dtype: str = ""
    metric: str = "cosine"
    data: Path | None = None
    modify_mixlist: str = ""
    customize_dtypes: str = ""
    op_plugin_path: str = ""
    disable_reuse_memory: bool = False
    enable_attr_compression: bool = False
    export_compile_stat: bool = True
    check_report: Path = Path("check_result.json")
    host_ops: bool = False
    strict: bool = False
    archive: bool = False
    allow_empty: bool = False
    command_line: str = ""
    recorded: Mapping[str, str] = field(default_factory=dict)


# precision_mode_v2 value -> the precision_mode that means the same
V2_MODES: Mapping[str, str] = {
    "fp16": "force_fp16",
    "origin": "must_keep_origin_dtype",
    "cube_fp16in_fp32out": "cube_fp16in_fp32out",
    "mixed_float16": "allow_mix_precision_fp16",
    "mixed_bfloat16": "allow_mix_precision_bf16",
}
_SYNONYMS = {
    "allow_mix_precision": "allow_mix_precision_fp16",
    "mixed_float16": "allow_mix_precision_fp16",
    "mixed_bfloat16": "allow_mix_precision_bf16",
    "force_fp32": "cube_fp16in_fp32out",
}


def from_flags(flags: Mapping[str, str], command_line: str = "") -> Options:
    """Validate ``flags`` (option name -> text) and build ``Options``; raises ``AscError`` with every problem found."""
    specs = table()
    problems = option_rules.check(flags, specs)
    if flags.get("precision_mode_v2") in ("mixed_hif8", "cube_hif8"):
        problems.append(
            option_rules.bad_value(
                "precision_mode_v2",
                flags["precision_mode_v2"],
                "hif8 arithmetic (Ascend950) is not built",
                "Use mixed_bfloat16 or mixed_float16.",
            )
        )
    if problems:
        raise AscError(problems)

    shape, fp16 = flags.get("input_shape", ""), flags.get("input_fp16_nodes", "")
    if fixed := flags.get("input_fp16_nchw", ""):
        names = [part.rsplit(":", 1)[0] for part in fixed.split(";") if part]
        shape = ";".join(filter(None, [shape, fixed]))
        fp16 = ";".join(filter(None, [fp16, *names]))
    mode = flags.get("precision_mode") or V2_MODES.get(flags.get("precision_mode_v2", "fp16"), "force_fp16")

    def path(name: str) -> Path | None:
        return Path(flags[name]) if flags.get(name) else None

    def switch(name: str) -> bool:
        return (flags.get(name) or specs[name].default).lower() in option_rules.TRUE

    def text(name: str) -> str:
        return flags.get(name) or specs[name].default

    return Options(
        model=Path(flags["model"]),
        output=Path(flags["output"].removesuffix(".om2").removesuffix(".om")),
        soc_version=flags["soc_version"],
        framework=flags["framework"],
        input_format=flags.get("input_format") or ("NHWC" if flags["framework"] == "3" else "NCHW"),
        weight=path("weight"),
        input_shape=shape,
        input_shape_range=text("input_shape_range"),
        dynamic_batch_size=text("dynamic_batch_size"),
        dynamic_image_size=text("dynamic_image_size"),
        dynamic_dims=text("dynamic_dims"),
        dynamic_shape=text("dynamic_shape"),
        precision_mode=_SYNONYMS.get(mode, mode),
        output_type=text("output_type"),
        out_nodes=text("out_nodes"),
        input_fp16_nodes=fp16,
        insert_op_conf=path("insert_op_conf"),
        log=text("log"),
        debug_dir=path("debug_dir"),
        fusion_switch_file=path("fusion_switch_file"),
        optimization_switch=text("optimization_switch"),
        enable_scope_fusion=switch("enable_scope_fusion"),
        oo_level=text("oo_level"),
        oo_constant_folding=switch("oo_constant_folding"),
        oo_dead_code_elimination=switch("oo_dead_code_elimination"),
        op_select_implmode=text("op_select_implmode"),
        optypelist_for_implmode=tuple(t.strip() for t in text("optypelist_for_implmode").split(",") if t.strip()),
        is_weight_clip=switch("is_weight_clip"),
        allow_hf32=text("allow_hf32"),
        op_precision_mode=text("op_precision_mode"),
        keep_dtype=text("keep_dtype"),
        auto_keep_dtype=text("auto_keep_dtype"),
        metric=text("metric"),
        data=path("data"),
        modify_mixlist=text("modify_mixlist"),
        customize_dtypes=text("customize_dtypes"),
        op_plugin_path=text("op_plugin_path"),
        disable_reuse_memory=switch("disable_reuse_memory"),
        enable_attr_compression=switch("enable_attr_compression"),
        export_compile_stat=text("export_compile_stat") != "0",
        check_report=Path(text("check_report")),
        host_ops=switch("host_ops"),
        strict=switch("strict"),
        archive=flags.get("mode") == "7",
        command_line=command_line,
        recorded={k: v for k, v in flags.items() if v and specs[k].effect != "implemented"},
    )


def notes(options: Options) -> list[str]:
    """One sentence for each given option that is accepted without changing the result."""
    specs = table()
    return [
        f"--{name}={value} is {specs[name].effect}: {specs[name].sentence}" for name, value in options.recorded.items()
    ]
