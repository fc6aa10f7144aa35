"""ATC options: the table (data/options.json), its validation, and the typed ``Options`` that the stages read.

Called by ``atc.command_line`` (which turns spellings into names) and by the Python API directly.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from asc_devkit.errors import AscError, Problem

FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow", "5": "ONNX"}
OUTPUT_TYPES = ("FP32", "FP16", "UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "DOUBLE")
ONNX_FORMATS = ("NCHW", "NCDHW", "ND")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One row of the option table. ``effect`` is ``implemented``, ``recorded`` or ``not applicable here``."""

    name: str
    kind: str
    values: tuple[str, ...]
    default: str
    effect: str
    sentence: str
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
    input_shape: str = ""
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
    oo_level: str = "O3"
    oo_constant_folding: bool = True
    oo_dead_code_elimination: bool = True
    op_select_implmode: str = ""
    optypelist_for_implmode: tuple[str, ...] = ()
    is_weight_clip: bool = True
    op_precision_mode: str = ""
    allow_hf32: str = ""
    keep_dtype: str = ""
    modify_mixlist: str = ""
    customize_dtypes: str = ""
    disable_reuse_memory: bool = False
    enable_attr_compression: bool = False
    export_compile_stat: bool = True
    check_report: Path = Path("check_result.json")
    host_ops: bool = False
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


def nearest(name: str, names: list[str]) -> str:
    """``Did you mean ...`` text for ``name``, empty when nothing is near."""
    swapped = [known for known in names if sorted(known) == sorted(name)]  # letters in the wrong order come first
    near = swapped or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""


def from_flags(flags: Mapping[str, str], command_line: str = "") -> Options:
    """Validate ``flags`` (option name -> text) and build ``Options``; raises ``AscError`` with every problem found."""
    problems: list[Problem] = []
    specs = table()
    for name, value in flags.items():
        spec = specs[name]
        if spec.kind == "enum" and value not in spec.values:
            problems.append(_bad_value(name, value, f"it must be one of {', '.join(spec.values)}", list(spec.values)))
        elif spec.kind == "int" and not value.lstrip("-").isdigit():
            problems.append(_bad_value(name, value, "it must be a whole number", []))
    problems += [_required(name) for name in ("model", "framework", "output", "soc_version") if not flags.get(name)]
    problems += _exclusive(flags)
    if flags.get("framework") == "5" and flags.get("input_format", "NCHW") not in ONNX_FORMATS:
        problems.append(
            _bad_value(
                "input_format",
                flags["input_format"],
                "ONNX models take NCHW, NCDHW or ND",
                list(ONNX_FORMATS),
            )
        )
    if flags.get("precision_mode_v2") in ("mixed_hif8", "cube_hif8"):
        problems.append(
            _bad_value("precision_mode_v2", flags["precision_mode_v2"], "hif8 arithmetic (Ascend950) is not built", [])
        )
    if flags.get("input_shape_range"):
        problems.append(
            Problem(
                "E10055",
                "--input_shape_range is not supported: every axis of a compiled model has one size, or one per gear.",
                cause="Shape ranges need kernels that are compiled for any size.",
                fix='Give the sizes you need as gears: --input_shape="x:-1,3,224,224" --dynamic_batch_size="1,4,8".',
                nodes=("--input_shape_range",),
                seed_class="EE1055",
            )
        )
    if problems:
        raise AscError(problems)

    shape, fp16 = flags.get("input_shape", ""), flags.get("input_fp16_nodes", "")
    if text := flags.get("input_fp16_nchw", ""):
        names = [part.rsplit(":", 1)[0] for part in text.split(";") if part]
        shape = ";".join(filter(None, [shape, text]))
        fp16 = ";".join(filter(None, [fp16, *names]))
    mode = flags.get("precision_mode") or V2_MODES.get(flags.get("precision_mode_v2", "fp16"), "force_fp16")
    output = flags["output"].removesuffix(".om")
    return Options(
        model=Path(flags["model"]),
        output=Path(output),
        soc_version=flags["soc_version"],
        framework=flags["framework"],
        input_format=flags.get("input_format", "NCHW"),
        input_shape=shape,
        dynamic_batch_size=flags.get("dynamic_batch_size", ""),
        dynamic_image_size=flags.get("dynamic_image_size", ""),
        dynamic_dims=flags.get("dynamic_dims", ""),
        dynamic_shape=flags.get("dynamic_shape", ""),
        precision_mode=_SYNONYMS.get(mode, mode),
        output_type=flags.get("output_type", ""),
        out_nodes=flags.get("out_nodes", ""),
        input_fp16_nodes=fp16,
        insert_op_conf=Path(flags["insert_op_conf"]) if flags.get("insert_op_conf") else None,
        log=flags.get("log", "null"),
        debug_dir=Path(flags["debug_dir"]) if flags.get("debug_dir") else None,
        fusion_switch_file=Path(flags["fusion_switch_file"]) if flags.get("fusion_switch_file") else None,
        optimization_switch=flags.get("optimization_switch", ""),
        oo_level=flags.get("oo_level", "O3"),
        oo_constant_folding=flags.get("oo_constant_folding", "true") == "true",
        oo_dead_code_elimination=flags.get("oo_dead_code_elimination", "true") == "true",
        op_select_implmode=flags.get("op_select_implmode", ""),
        optypelist_for_implmode=tuple(t for t in flags.get("optypelist_for_implmode", "").split(",") if t),
        is_weight_clip=flags.get("is_weight_clip", "1") == "1",
        op_precision_mode=flags.get("op_precision_mode", ""),
        allow_hf32=flags.get("allow_hf32", ""),
        keep_dtype=flags.get("keep_dtype", ""),
        modify_mixlist=flags.get("modify_mixlist", ""),
        customize_dtypes=flags.get("customize_dtypes", ""),
        disable_reuse_memory=flags.get("disable_reuse_memory", "0") == "1",
        enable_attr_compression=flags.get("enable_attr_compression", "false") == "true",
        export_compile_stat=flags.get("export_compile_stat", "1") != "0",
        check_report=Path(flags.get("check_report", "check_result.json")),
        host_ops=flags.get("host_ops", "false") == "true",
        command_line=command_line,
        recorded={k: v for k, v in flags.items() if specs[k].effect != "implemented"},
    )


def notes(options: Options) -> list[str]:
    """One sentence for each given option that is accepted without changing the result."""
    specs = table()
    return [
        f"--{name}={value} is {specs[name].effect}: {specs[name].sentence}" for name, value in options.recorded.items()
    ]


def _bad_value(name: str, value: str, reason: str, values: list[str]) -> Problem:
    return Problem(
        "E10001",
        f"Value [{value}] for parameter [{name}] is invalid. Reason: {reason}.",
        cause="The value is misspelt or not meant for this option.",
        fix=nearest(value, values) or f"See --{name} in `atc --help`.",
        nodes=(f"--{name}",),
        seed_class="EE1001",
    )


def _required(name: str) -> Problem:
    return Problem(
        "E10007",
        f"[--{name}] is required.",
        cause="A conversion needs --model, --framework, --output and --soc_version.",
        fix=f"Add --{name}=..." + (" (5 for ONNX)" if name == "framework" else ""),
        nodes=(f"--{name}",),
        seed_class="EE1001",
    )


_EXCLUSIVE = (
    ("precision_mode", "precision_mode_v2"),
    ("dynamic_batch_size", "dynamic_image_size"),
    ("dynamic_batch_size", "dynamic_dims"),
    ("dynamic_image_size", "dynamic_dims"),
    ("dynamic_dims", "insert_op_conf"),
    ("dynamic_batch_size", "dynamic_shape"),
    ("dynamic_image_size", "dynamic_shape"),
    ("dynamic_dims", "dynamic_shape"),
    ("dynamic_shape", "insert_op_conf"),
    ("input_shape", "input_shape_range"),
)


def _exclusive(flags: Mapping[str, str]) -> list[Problem]:
    return [
        Problem(
            "E10009",
            f"[--{a}] and [--{b}] exclude each other.",
            cause="Both were given.",
            fix=f"Keep one of --{a} and --{b}.",
            nodes=(f"--{a}", f"--{b}"),
            seed_class="EE1001",
        )
        for a, b in _EXCLUSIVE
        if flags.get(a) and flags.get(b)
    ]
