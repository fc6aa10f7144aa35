"""The five stages. Each takes the ``Job`` that the stage before left and says in the log what it did."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from asc_devkit import files, ops, passes, soc
from asc_devkit.atc import requests
from asc_devkit.atc.failure import log_path
from asc_devkit.atc.log import ConversionLog
from asc_devkit.atc.options import Options
from asc_devkit.atc.select import formats, groups, implmode, overrides, precision
from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.source import Source
from asc_devkit.ge.desc import ENGINE, MEMBERS, Engine

if TYPE_CHECKING:
    from asc_devkit.passes import FusionReport
    from asc_devkit.perf.memory import MemoryPlan


@dataclass(frozen=True)
class InputSpec:
    """An input of the user's model: name, static shape, element type, and how many rows the tables have that an integer
    input picks from (2 when it picks from none)."""

    name: str
    shape: tuple[int, ...]
    dtype: ir.DataType
    index_limit: int


@dataclass
class Job:
    """A conversion on its way: the IR and what the stages learned."""

    options: Options
    soc: soc.Soc
    model: ir.Model
    opset: int = 0
    inputs: tuple[InputSpec, ...] = ()
    fusion: FusionReport | None = None
    memory: MemoryPlan | None = None
    gear_plans: tuple[MemoryPlan, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


def parse(options: Options, log: ConversionLog, source: Source | None = None) -> Job:
    """Model file -> canonical IR with static shapes; also resolves the chip and cuts the graph at ``out_nodes``.

    ``source``: the model file, when several conversions share it (gears).
    """
    resolution = soc.resolve(options.soc_version)
    for warning in resolution.warnings:
        log.warning(warning)
    from asc_devkit.frontends.shapes import parse_input_shape, parse_shape_range, ranges_unsupported
    from asc_devkit.ops.infer import infer

    if options.input_shape_range:
        parse_shape_range(options.input_shape_range)
        raise AscError(ranges_unsupported("input_shape_range", options.input_shape_range))
    loaded = (source or open_source(options)).load(
        input_shapes=parse_input_shape(options.input_shape, options.allow_empty) if options.input_shape else None,
        out_nodes=options.out_nodes.split(";") if options.out_nodes else None,
        host_ops=options.host_ops,
        allow_empty=options.allow_empty,
    )
    for warning in loaded.warnings:
        log.warning(warning)
    model = loaded.model
    if loaded.dynamic:
        raise AscError(_dynamic([v for v in model.graph.inputs if v.name in loaded.dynamic]))
    infer(model)
    original = loaded.original
    job = Job(options, resolution.soc, model, opset=original.opset, inputs=tuple(map(_input, model.graph.inputs)))
    job.counts["original"] = sum(count for kind, count in original.nodes.items() if kind != "Constant")
    log.info(
        f"{options.model}: {job.counts['original']} operators, opset {original.opset}, "
        f"IR {original.ir_version}, by {original.producer or 'an unknown producer'}"
    )
    for value in model.graph.inputs:
        log.info(f"input {value.name}: {value.dtype} {list(value.shape or ())}")
    _dump(job, "parse")
    return job


def open_source(options: Options) -> Source:
    """The model file and its framework."""
    from asc_devkit.atc import offline  # noqa: F401 - makes .om files readable

    return Source(options.model, options.framework, options.weight)


def _input(value: ir.Value) -> InputSpec:
    assert value.dtype is not None
    shape = tuple(int(d) for d in value.shape or ())  # type: ignore[arg-type]
    return InputSpec(value.name or "", shape, value.dtype, _index_limit(value))


def _index_limit(value: ir.Value) -> int:
    frontier, seen, limit = [value], {value}, 0
    while frontier and len(seen) < 64:
        for node, index in frontier.pop().uses():
            if node.op_type == "Gather" and index == 1 and node.inputs[0] is not None:
                table = node.inputs[0].shape
                axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
                if table is not None and len(table) > axis and isinstance(table[axis], int):
                    rows = int(table[axis])  # type: ignore[arg-type]
                    limit = rows if not limit else min(limit, rows)
            elif node.op_type in ("Cast", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Clip") and index == 0:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                frontier += fresh
    return limit or 2


def optimise(job: Job, log: ConversionLog) -> None:
    """Graph passes; logs how often each matched and which of the user's nodes are gone."""
    options = job.options
    switches = passes.Switches.load(options.fusion_switch_file or "", options.optimization_switch)
    if not options.enable_scope_fusion:
        switches = switches.without_graph_fusion()
    if options.oo_level == "O1":
        switches = switches.only_basic()
    if not options.oo_constant_folding:
        switches = switches.off("ConstantFoldingPass")
    if not options.oo_dead_code_elimination:
        switches = switches.off("PrunePass")
    for warning in switches.warnings:
        log.warning(warning)
    before = count_nodes(job.model.graph)
    job.fusion = passes.optimise(job.model, passes.PassContext(switches=switches, soc=job.soc.name))
    job.counts["optimised"] = count_nodes(job.model.graph)
    log.info(f"{before} operators -> {job.counts['optimised']}")
    for rewrite in job.fusion.rewrites:
        gone = [name for name in rewrite.before if name not in rewrite.after]
        log.debug(
            f"{rewrite.pass_name}: {', '.join(rewrite.before)} -> {', '.join(rewrite.after) or 'nothing'}"
            + (f"; removed {', '.join(gone)}" if gone else "")
        )
    for count in job.fusion.counts:
        if count.effect_times:
            log.info(f"{count.name}: matched {count.match_times}, applied {count.effect_times}")
    _dump(job, "optimise")


def select(job: Job, log: ConversionLog) -> None:
    """ONNX -> GE operators, float types, device formats, kernel implementations, fused nodes."""
    options = job.options
    converted = ops.convert.to_ge(job.model, host_ops=options.host_ops)
    if converted.unsupported and not options.host_ops:
        raise AscError(_unsupported(converted.unsupported, job.opset))
    job.model = converted.model
    graph = job.model.graph
    for node in graph:
        log.debug(f"operator {node.name}: {node.op_type}")
    _insert_aipp(job, log)
    types = requests.output_types(graph, options.output_type)
    chosen = precision.apply(
        job.model,
        job.soc,
        options.precision_mode,
        fp16_inputs=requests.fp16_inputs(graph, options.input_fp16_nodes),
        output_types=types,
        weight_clip=options.is_weight_clip,
        overrides=overrides.load(options.keep_dtype, options.modify_mixlist, options.customize_dtypes),
    )
    modes = implmode.load(
        options.op_precision_mode, options.op_select_implmode, options.optypelist_for_implmode, options.allow_hf32
    )
    for warning in (*chosen.warnings, *implmode.apply(job.model, job.soc, modes)):
        log.warning(warning)
    laid_out = formats.apply(job.model, job.soc, options.input_format)
    job.counts["casts"] = chosen.casts
    job.counts["trans_data"] = laid_out.trans_data
    job.counts["fused_groups"] = groups.collapse(job.model)
    job.counts["compiled"] = sum(1 for _ in job.model.graph)
    hosts = [n for n in job.model.graph if n.meta.get(ENGINE) is Engine.HOST]
    if hosts:
        kinds = Counter(n.op_type for n in hosts)
        log.warning(
            f"{len(hosts)} operators run on the host, not on the NPU: "
            + ", ".join(f"{kind} x{n}" for kind, n in sorted(kinds.items()))
        )
    log.info(
        f"{options.precision_mode}: {chosen.low_nodes} operators in the low float type, {chosen.full_nodes} in float32, "
        f"{chosen.casts} Cast and {laid_out.trans_data} TransData added, {job.counts['fused_groups']} fused groups"
    )
    _dump(job, "select")


def _insert_aipp(job: Job, log: ConversionLog) -> None:
    """Picture preprocessing behind the inputs that --insert_op_conf names."""
    if job.options.insert_op_conf is None:
        return
    from asc_devkit.atc import aipp

    made = aipp.insert(
        job.model.graph,
        aipp.load(job.options.insert_op_conf),
        generation=job.soc.generation,
        input_format=job.options.input_format,
        fp16_inputs=[name.strip() for name in job.options.input_fp16_nodes.split(";")],
    )
    for name, found in made.items():
        if isinstance(found, aipp.DynamicAipp):
            log.info(
                f"AIPP: input {name} takes pictures of up to {found.max_src_image_size} bytes, parameters at run time"
            )
            continue
        size = f"{found.src_image_size_w} x {found.src_image_size_h}"
        log.info(f"AIPP: input {name} takes uint8 {found.input_format} pictures of {size}")


def allocate(job: Job, log: ConversionLog) -> None:
    """Static memory plan against the chip's capacity."""
    from asc_devkit.perf import memory

    job.memory = memory.plan(job.model, job.soc, reuse=not job.options.disable_reuse_memory)
    job.memory.check(job.soc)
    log.info(
        f"weights {job.memory.weight_bytes} bytes, features {job.memory.feature_bytes} bytes, "
        f"workspace {job.memory.workspace_bytes} bytes"
    )


def emit(job: Job, log: ConversionLog) -> Path:
    """Write fusion_result.json and the conversion log, then the `.om` beside them; returns its path.

    The `.om` comes last: when it is there, everything is.
    """
    from asc_devkit import om

    options = job.options
    assert job.memory is not None and job.fusion is not None
    path = om_path(options)
    info = om.ModelInfo(
        name=options.output.name,
        soc_version=job.soc.name,
        atc_cmdline=options.command_line,
        precision_mode=options.precision_mode,
        overflow_mode=job.soc.overflow_mode,
        framework=int(options.framework),
        attr_compression=options.enable_attr_compression,
    )
    log.info(f"writing {path}")
    if options.debug_dir is not None:
        _dump_operators(job, options.debug_dir)
    if options.export_compile_stat:
        files.write_text(path.with_name("fusion_result.json"), json.dumps(job.fusion.as_vendor_json(), indent=4) + "\n")
    files.write_text(log_path(options), log.text())
    layout = om.MemoryLayout.from_plan(job.memory, job.gear_plans)
    if options.archive:
        with tempfile.TemporaryDirectory() as scratch:
            plain = Path(scratch) / "model.om"
            om.write(plain, job.model, info, layout)
            om.write_archive(path, om.read(plain))
    else:
        om.write(path, job.model, info, layout)
    return path


def om_path(options: Options) -> Path:
    """Where the `.om` (or `.om2`) goes."""
    return options.output.with_name(options.output.name + (".om2" if options.archive else ".om"))


def count_nodes(graph: ir.Graph) -> int:
    """Operators of the root graph; members of a fused node count one by one."""
    total = 0
    for node in graph:
        members = node.attributes.get(MEMBERS)
        total += count_nodes(members.as_graph()) if members is not None else 1
    return total


def _dynamic(inputs: list[ir.Value]) -> Problem:
    known = {value.name or "": _dims_text(value, named=True) for value in inputs}
    example = ";".join(f"{value.name}:{_dims_text(value, named=False)}" for value in inputs)
    axes = "; ".join(f"{name} ({dims})" for name, dims in known.items())
    return Problem(
        "E10001",
        f"Value [] for parameter [input_shape] is invalid. Reason: "
        f"{len(inputs)} input{'s have' if len(inputs) > 1 else ' has'} axes of unknown size: {axes}",
        cause="The compiled model has fixed shapes, and the model leaves these axes open.",
        fix=f'Give every input a shape, numbers in place of letters: --input_shape="{example}"',
        nodes=tuple(known),
        seed_class="EE1001",
    )


def _dims_text(value: ir.Value, *, named: bool) -> str:
    """Dimensions of an input: unknown ones as the model names them, or as a template with batch 1 and letters."""
    shape = list(value.shape or ())
    letters = "NCHW" if len(shape) == 4 else "NCDHW" if len(shape) == 5 else "N" + "LMKJI"[: max(len(shape) - 1, 0)]
    dims = []
    for axis, dim in enumerate(shape):
        if isinstance(dim, int):
            dims.append(str(dim))
        elif named:
            dims.append(dim.value or "?")
        else:
            dims.append("1" if axis == 0 else letters[axis] if axis < len(letters) else "D")
    return ",".join(dims)


def _unsupported(rows: list[Any], opset: int) -> list[Problem]:
    """One problem per operator type, each naming all its nodes, in the wording users search for."""
    by_type: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        by_type.setdefault((row.domain, row.op_type), []).append(row)
    problems = []
    for (domain, op_type), found in sorted(by_type.items()):
        full = f"{domain or 'ai.onnx'}::{found[0].opset if domain else opset}::{op_type}"
        problems.append(
            Problem(
                "E16002",
                f"ATC unsupported op type: {op_type}. No parser is registered for Op [{found[0].name}, "
                f"optype [{full}]]" + (f" and {len(found) - 1} more of its kind" if len(found) > 1 else "") + ".",
                cause=found[0].reason or "CANN has no such operator.",
                fix=found[0].hint
                or "Rewrite the node with supported operators, or let the host run it with --host_ops=true.",
                nodes=tuple(f"{row.name} ({full})" for row in found),
                seed_class="EE2002",
            )
        )
    return problems


def check_output(options: Options) -> None:
    """Refuse an ``--output`` that cannot be written before any work is done; creates nothing."""
    if options.output.name in ("", ".."):
        raise AscError(_no_output(str(options.output), "it names a folder", "E10022"))
    path = om_path(options)
    try:
        if path.is_dir():
            raise AscError(_no_output(str(options.output), f"{path} is a folder", "E10022"))
        folder = next(p for p in path.absolute().parents if p.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise AscError(_no_output(str(options.output), f"{folder} is no folder that can be written"))
    except (OSError, ValueError) as error:
        raise files.CannotWrite(path, error) from error


def _no_output(output: str, reason: str, code: str = "E10001") -> Problem:
    return Problem(
        code,
        f"Value [{output}] for parameter [output] is invalid. Reason: {reason}.",
        cause="The .om is written as a file of this name plus .om.",
        fix="Give --output the path of a file in a folder that can be written.",
        nodes=("--output",),
        seed_class="EE1001",
    )


def _dump(job: Job, stage: str) -> None:
    """Text of the graph after a stage, when --debug_dir is given."""
    if job.options.debug_dir is not None:
        text = "\n".join(f"{node}" for node in job.model.graph) + "\n"
        order = ("parse", "optimise", "select").index(stage)
        files.write_text(job.options.debug_dir / f"ge_graph_{order:08d}_{stage}.txt", text)


def _dump_operators(job: Job, folder: Path) -> None:
    """One JSON description per compiled operator."""
    from asc_devkit.atc.describe import describe

    for index, node in enumerate(job.model.graph):
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in node.name or "op")[:100]
        files.write_text(
            folder / f"{index:05d}_{node.op_type}_{safe}.json", json.dumps(describe(node), indent=2) + "\n"
        )
