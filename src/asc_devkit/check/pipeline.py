"""``run``: the whole check from options to report, each part recorded even when a later one cannot be done."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from asc_devkit import __version__, atc, files, npu, om, perf, soc
from asc_devkit.atc.describe import describe
from asc_devkit.atc.options import from_flags
from asc_devkit.check import accuracy, gears, verdict
from asc_devkit.check import data as samples_module
from asc_devkit.check.labels import load_labels
from asc_devkit.check.options import CheckOptions
from asc_devkit.check.pictures import Pictures
from asc_devkit.check.reference import Reference
from asc_devkit.check.result import SCHEMA, CheckResult
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ENGINE, Engine
from asc_devkit.npu.geared import GearedSession
from asc_devkit.om import mbatch

Progress = Callable[[str, float], None]
_LIBRARIES: Final = ("numpy", "onnx", "onnx-ir", "onnxruntime", "protobuf")


def run(options: CheckOptions, progress: Progress | None = None) -> CheckResult:
    """Check a model and write report.html, report.json and the `.om` into ``options.output``.

    ``progress(stage, share)`` is called as work goes on. A model that cannot be converted still gets a report (exit
    code 2). Raises ``AscError`` for wrong options, a missing model, unreadable data or an output folder that cannot be
    written.
    """
    tell = progress or (lambda stage, share: None)
    if options.model is None:
        from asc_devkit.check.example import example_options

        options = example_options(options)
    assert options.model is not None
    resolution = soc.resolve(options.soc)
    request = _request(options)
    labels = load_labels(options.labels) if options.labels else None
    report = _frame(options, request, resolution)
    result = CheckResult(report, 0)
    tell("convert", 0.0)
    try:
        converted = atc.compile(request, on_stage=lambda stage: tell(f"convert: {stage}", 0.0))
    except AscError as error:
        report["problems"] = [p.as_dict() for p in error.problems]
        report["conversion"] = {"counts": {}, "warnings": list(resolution.warnings)}
        result.exit_code = error.exit_code
    else:
        _after_conversion(options, converted, report, result, labels, tell)
    report["verdict"] = verdict.build(report)
    tell("write report", 0.95)
    _write(options.output, result)
    return result


def _frame(options: CheckOptions, request: atc.Options, resolution: soc.Resolution) -> dict[str, Any]:
    chip = resolution.soc
    model = options.model
    return {
        "schema": SCHEMA,
        "tool": {"name": "asc-devkit", "version": __version__},
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": {"path": str(model), "name": model.stem if model else "", "bytes": _size(model)},
        "soc": {
            "name": chip.name,
            "series": chip.series,
            "cube_core_count": chip.cube_core_count,
            "vector_units": chip.vector_units,
            "fp16_cube_tflops": chip.fp16_cube_tflops,
            "vector_fp16_tflops": chip.vector_fp16_tflops,
            "memory_gbps": chip.memory_gbps,
            "l2_gbps": chip.l2_gbps,
            "memory_bytes": chip.memory_bytes,
        },
        "options": {
            "precision_mode": request.precision_mode,
            "input_shape": options.input_shape,
            "threshold": options.threshold,
            "host_ops": options.host_ops,
            "atc": dict(options.atc_flags),
        },
        "problems": [],
        "environment": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cpu": platform.processor() or platform.machine(),
            "libraries": {name: version(name) for name in _LIBRARIES},
        },
    }


def _size(model: Path | None) -> int | None:
    return model.stat().st_size if model is not None and model.is_file() else None


def _request(options: CheckOptions) -> atc.Options:
    """The conversion's options; what is wrong with them is the caller's mistake, not a finding of the check."""
    assert options.model is not None
    if not options.model.is_file():
        raise AscError(
            Problem(
                "E10041", f"There is no model at {options.model}.", fix="Check the path.", nodes=(str(options.model),)
            )
        )
    flags = {
        "model": str(options.model),
        "framework": "5",
        "output": str(options.output / options.model.stem),
        "soc_version": options.soc,
        "input_shape": options.input_shape,
        "insert_op_conf": str(options.insert_op_conf or ""),
        "precision_mode": options.precision_mode,
        "host_ops": "true" if options.host_ops else "",
        "check_report": str(options.output / "check_result.json"),
    }
    if options.atc_flags.get("precision_mode_v2"):
        del flags["precision_mode"]  # the other name of the same choice
    wanted = {**flags, **options.atc_flags}
    return from_flags({k: v for k, v in wanted.items() if v}, command_line=f"asc check {options.model}")


def _after_conversion(
    options: CheckOptions,
    converted: atc.Result,
    report: dict[str, Any],
    result: CheckResult,
    labels: Any,
    tell: Progress,
) -> None:
    result.om = converted.om_path
    report["conversion"] = _conversion(converted)
    model = om.read(converted.om_path).to_ir()
    tell("estimate", 0.1)
    report["performance"] = _performance(model, converted.soc)
    report["memory"] = _memory(converted)
    tell("run", 0.2)
    largest = mbatch.largest(model)
    compiled = model if largest is None else largest[1]
    pictures = Pictures(compiled.graph, converted.inputs)
    inputs = pictures.specs(samples_module.specs(converted.inputs))
    report["model"]["inputs"] = [{"name": i.name, "dtype": i.dtype.name, "shape": list(i.shape)} for i in inputs]
    if options.data is not None:
        samples = samples_module.load(options.data, inputs, options.samples)
    else:
        samples = samples_module.random_samples(inputs, options.seed)
    assert options.model is not None
    loaded = npu.load(converted.om_path, threads=options.threads or None)
    session = loaded.session(loaded.largest) if isinstance(loaded, GearedSession) else loaded
    reference = Reference(options.model, options.threads, pictures.prepare)
    try:
        report["accuracy"] = accuracy.measure(
            session,
            compiled.graph,
            reference,
            samples,
            labels,
            options.threshold,
            lambda stage, share: tell(stage, 0.3 + 0.6 * share),
        )
        if isinstance(loaded, GearedSession):
            gears.measure(report["accuracy"], loaded, reference, inputs, options)
    except AscError:
        raise
    except RuntimeError as error:  # ONNX Runtime refuses the original model or these inputs
        report["accuracy"] = {"error": f"the original model does not run here: {str(error)[:300]}"}
    else:
        report["accuracy"]["notes"] += pictures.notes
        result.exit_code = 0 if report["accuracy"]["passed"] else 1
    report["environment"]["virtual_npu"] = dict(session.info)


def _conversion(converted: atc.Result) -> dict[str, Any]:
    gear = mbatch.largest(converted.model)
    nodes = list(converted.model.graph if gear is None else gear[1].graph)
    return {
        "om": str(converted.om_path),
        "om_bytes": converted.om_path.stat().st_size,
        "counts": converted.counts,
        "host_operators": sum(n.meta.get(ENGINE) is Engine.HOST for n in nodes),
        "timings_s": converted.timings_s,
        "warnings": list(converted.warnings),
        "passes": [
            {"name": c.name, "group": c.group, "matched": c.match_times, "applied": c.effect_times}
            for c in converted.fusion.counts
            if c.match_times
        ],
        "rewrites": [
            {"pass": r.pass_name, "before": list(r.before), "after": list(r.after)} for r in converted.fusion.rewrites
        ],
        "operators": [describe(node) for node in nodes],
        "log": converted.log_text,
    }


def _performance(compiled: Any, chip: soc.Soc) -> dict[str, Any]:
    found = perf.estimate(compiled, chip)
    return {
        "basis": "estimated",
        "total_us": found.total_us,
        "lo80": found.lo80,
        "hi80": found.hi80,
        "bound_by": found.bound_by,
        "operators": [op.as_dict() for op in found.operators],
        "notes": list(found.notes),
    }


def _memory(converted: atc.Result) -> dict[str, Any]:
    plan = converted.memory
    return {
        "basis": "planned",
        "weight_bytes": plan.weight_bytes,
        "feature_bytes": plan.feature_bytes,
        "workspace_bytes": plan.workspace_bytes,
        "total_bytes": plan.total_bytes,
        "capacity_bytes": converted.soc.memory_bytes,
        "boards": [asdict(board) for board in soc.boards(converted.soc.generation)],
        "live_bytes": list(plan.live),
        "steps": list(plan.step_names),
        "peak_step": plan.peak_step,
        "at_peak": [asdict(block) for block in plan.at_peak(20)],
        "unknown": list(plan.unknown),
    }


def _write(folder: Path, result: CheckResult) -> None:
    from asc_devkit.report import render_html

    _spell_out_infinities(result.report)
    text = json.dumps(result.report, indent=1, allow_nan=False)
    result.json = folder / "report.json"
    result.html = folder / "report.html"
    files.write_text(result.json, text + "\n")
    files.write_text(result.html, render_html(result.report))


def _spell_out_infinities(value: Any) -> None:
    """Replace NaN and infinities inside the report by strings, in place, so that the JSON is standard."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        if isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
            value[key] = str(item)
        elif isinstance(item, (dict, list)):
            _spell_out_infinities(item)
