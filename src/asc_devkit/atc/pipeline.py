"""One conversion from options to `.om`: runs the five stages, keeps the log, writes the side outputs.

Called by the `atc` and `asc convert` commands, by ``check`` and by the Python API (``asc_devkit.atc.compile``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from asc_devkit.atc import failure, gears, stages, strict
from asc_devkit.atc.log import ConversionLog
from asc_devkit.atc.options import Options, notes
from asc_devkit.errors import AscError
from asc_devkit.ops import plugins

if TYPE_CHECKING:
    import onnx_ir as ir

    from asc_devkit.atc.stages import InputSpec
    from asc_devkit.frontends.source import Source
    from asc_devkit.passes import FusionReport
    from asc_devkit.perf.memory import MemoryPlan
    from asc_devkit.soc import Soc


@dataclass(frozen=True)
class Result:
    """What a conversion made. ``model`` is the GE graph as written; ``timings_s`` wall seconds per stage.

    ``gears``: input shapes by name of each gear; inputs, counts, fusion and memory are then those of the largest.
    """

    om_path: Path
    model: ir.Model
    inputs: tuple[InputSpec, ...]
    soc: Soc
    options: Options
    fusion: FusionReport
    memory: MemoryPlan
    warnings: tuple[str, ...]
    timings_s: dict[str, float]
    log_text: str
    counts: dict[str, int]
    gears: tuple[dict[str, tuple[int, ...]], ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """JSON form: paths, chip, counts, memory in bytes, timings in seconds, warnings."""
        return {
            "schema": "asc-devkit/convert/1",
            "om": str(self.om_path),
            "om_bytes": self.om_path.stat().st_size,
            "soc_version": self.soc.name,
            "precision_mode": self.options.precision_mode,
            "counts": self.counts,
            "gears": [{name: list(shape) for name, shape in gear.items()} for gear in self.gears],
            "memory": {
                "weights_bytes": self.memory.weight_bytes,
                "features_bytes": self.memory.feature_bytes,
                "workspace_bytes": self.memory.workspace_bytes,
            },
            "timings_s": {k: round(v, 4) for k, v in self.timings_s.items()},
            "warnings": list(self.warnings),
        }

    def summary(self) -> str:
        """A few lines for the terminal."""
        counts = self.counts
        mib = 1024 * 1024
        lines = [
            f"{self.om_path}  ({self.om_path.stat().st_size / mib:.1f} MiB, {self.soc.name}, "
            f"{self.options.precision_mode})",
            f"  operators: {counts['original']} in the model -> {counts['optimised']} after optimisation "
            f"({counts['fused_groups']} fused groups; {counts['casts']} Cast, {counts['trans_data']} TransData added)",
            f"  memory:    weights {self.memory.weight_bytes / mib:.1f} MiB, features "
            f"{self.memory.feature_bytes / mib:.1f} MiB, workspace {self.memory.workspace_bytes / mib:.1f} MiB",
            "  stages:    " + ", ".join(f"{k} {v:.2f} s" for k, v in self.timings_s.items()),
        ]
        if self.gears:
            lines.append(f"  gears:     {len(self.gears)}; the figures above are those of the largest")
        lines += [f"  warning:   {w}" for w in self.warnings]
        return "\n".join(lines)


def compile(
    options: Options,
    *,
    on_stage: Callable[[str], None] | None = None,
    echo: IO[str] | None = None,
) -> Result:
    """Convert ``options.model`` and write ``options.output`` + ``.om`` with its log and fusion_result.json.

    ``on_stage`` is called with each stage's name as it starts; log lines at ``options.log`` or above go to ``echo``.
    Raises ``AscError`` with all problems of the stage that failed; then no ``.om`` is written or changed, but the log is
    (and check_result.json, when operators are to blame).
    """
    log = ConversionLog(options.log, echo)
    plugins.load_from_environment()
    if options.op_plugin_path:
        plugins.load(options.op_plugin_path)
    for plugin in plugins.loaded():
        log.info(f"operator plugin {plugin.path}: {', '.join(op.onnx_name for op in plugin.operators)}")
    try:
        return _run(options, log, on_stage or (lambda stage: None))
    except AscError as error:
        failure.record(options, log, error)
        raise


def _run(options: Options, log: ConversionLog, on_stage: Callable[[str], None]) -> Result:
    for note in notes(options):
        log.warning(note)
    source = stages.open_source(options)
    wanted = _gears(options, source)
    variants = [options] if wanted is None else wanted.variants(options)
    main = 0 if wanted is None else _largest(wanted)
    logs = [log if i == main else ConversionLog() for i in range(len(variants))]  # the log tells of one gear
    jobs: list[stages.Job] = []
    stages.check_output(options)
    on_stage("parse")
    with log.timed("parse"):
        if wanted is not None:
            log.info(f"{len(variants)} gears, the log describes gear {main}\n{wanted.text}")
        if options.strict:
            strict.check(source)
        jobs += [stages.parse(variant, one, source) for variant, one in zip(variants, logs, strict=True)]
    for stage, work in (("optimise", stages.optimise), ("select", stages.select), ("allocate", stages.allocate)):
        on_stage(stage)
        with log.timed(stage):
            for one_job, one in zip(jobs, logs, strict=True):
                work(one_job, one)
    job = jobs[main] if wanted is None else _joined(jobs, main, wanted, options)
    on_stage("emit")
    with log.timed("emit"):
        om_path = stages.emit(job, log)
    assert job.fusion is not None and job.memory is not None
    return Result(
        om_path=om_path,
        model=job.model,
        inputs=job.inputs,
        soc=job.soc,
        options=options,
        fusion=job.fusion,
        memory=job.memory,
        warnings=tuple(log.warnings),
        timings_s=log.timings_s,
        log_text=log.text(),
        counts=job.counts,
        gears=() if wanted is None else wanted.shapes,
    )


def _gears(options: Options, source: Source) -> gears.Plan | None:
    """The gears the options ask for; the model is looked at only then."""
    if not (options.dynamic_batch_size or options.dynamic_image_size or options.dynamic_dims or options.dynamic_shape):
        return None
    return gears.plan(options, source.declared_inputs())


def _largest(wanted: gears.Plan) -> int:
    return max(range(len(wanted.shapes)), key=lambda i: sum(prod(s) for s in wanted.shapes[i].values()))


def _joined(jobs: list[stages.Job], main: int, wanted: gears.Plan, options: Options) -> stages.Job:
    """One job over all gears: the root graph, the memory of the gear that needs most, the rest of the largest."""
    from asc_devkit.om import mbatch

    plans = [job.memory for job in jobs if job.memory is not None]
    return replace(
        jobs[main],
        options=options,
        model=mbatch.join([job.model for job in jobs], wanted.gears),
        memory=max(plans, key=lambda plan: plan.feature_bytes + plan.workspace_bytes),
        gear_plans=tuple(plans),
    )
