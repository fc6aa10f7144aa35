"""From a collection to files: one pass over the tasks feeds all tables, the timeline and the database.

Files grow in a hidden folder and move into place when all are complete, so a killed export leaves the old files.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from asc_devkit import files
from asc_devkit.profiling.records import Collection
from asc_devkit.profiling.writers import host, operators, sampling
from asc_devkit.profiling.writers.context import Context, Counted, ExportOptions, Sink
from asc_devkit.profiling.writers.database import Database
from asc_devkit.profiling.writers.timeline import Timeline
from asc_devkit.profiling.writers.tree import OUTPUT, stamp

_README = """Files of this folder (written by asc-devkit).

Device times and counters are SIMULATED by a performance model. Host times (api_statistic, the CANN rows of the timeline,
msprof_tx, host_*) are MEASURED on this computer. No NPU was used.

msprof_*.json                   timeline, for chrome://tracing, ui.perfetto.dev and MindStudio Insight
op_summary_*.csv                every kernel: shapes, times, counters of the chosen metric group
op_statistic_*.csv              totals per operator type
task_time_*.csv                 every task of every stream
api_statistic_*.csv             calls on the host
step_trace_*.csv                executions of models
fusion_op_*.csv                 kernels that stand for several operators of the model
aicpu_*.csv                     kernels on the AI CPU (--aicpu=on)
l2_cache_*.csv                  hit rates (--l2=on)
ai_core_utilization_*.csv       averages per core (--aic-mode=sample-based); ai_vector_core_utilization_* likewise
asc_core_samples_*.csv          every core and its buffers over time (--aic-mode=sample-based); not a vendor file
hbm_*.csv, ddr_*.csv            device memory bandwidth (--sys-hardware-mem=on)
cpu_usage_*.csv                 share of the AI CPUs
msprof_tx_*.csv                 markers of the program (--msproftx=on)
host_*.csv                      the program on the host (--host-sys=cpu,mem)
"""


def export(collection: Collection, tree: Path, options: ExportOptions | None = None) -> list[Path]:
    """Write the files of ``collection`` below ``tree``; the files written.

    A database that was there is replaced, and so is the folder of text files. Raises ``CannotWrite``.
    """
    chosen = options or ExportOptions()
    try:
        work = Path(tempfile.mkdtemp(prefix=".export-", dir=tree))
    except OSError as error:
        raise files.CannotWrite(tree, error) from error
    try:
        context = Context(collection, work, stamp(time.time_ns()), chosen)
        database = _fill(context)
        return _place(tree, work, database, text=chosen.kind == "text")
    except OSError as error:
        raise error if isinstance(error, files.CannotWrite) else files.CannotWrite(tree, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(context: Context) -> Path:
    """Write everything into the work folder; the database."""
    collection, text = context.collection, context.options.kind == "text"
    database = Database(context)
    timeline = Timeline(context) if text else None
    if context.on("ascendcl", "on"):
        statistic = host.ApiStatistic(context)
        for call in collection.calls():
            statistic.call(call)
            database.call(call)
            if timeline is not None:
                timeline.call(call)
        if text:
            statistic.close()
    sinks = _sinks(context, timeline, database)
    counted = Counted(context.chips)
    for task in collection.tasks():
        if context.wanted(task):
            counters = counted.of(task)
            for sink in sinks:
                sink.task(task, counters)
    for mark in collection.marks:
        database.mark(mark)
        if timeline is not None:
            timeline.mark(mark)
    for sink in sinks:
        if not isinstance(sink, Database | Timeline):
            sink.close()
    if text:
        _about_the_host(context, timeline)
    if timeline is not None:
        timeline.close()
    return database.close()


def _about_the_host(context: Context, timeline: Timeline | None) -> None:
    collection = context.collection
    if collection.executions:
        host.step_trace(context, collection.executions)
    if collection.marks:
        host.msprof_tx(context, collection.marks)
    host.host_usage(context, collection.host_samples)
    if timeline is not None:
        for sample in collection.host_samples:
            timeline.host(sample)
        for device in collection.devices:
            mhz = context.chips[device.number].cube_mhz
            timeline.counter("AI Core Freq", device.number, "AI Core Freq", collection.begin_ns, MHz=mhz)


def _sinks(context: Context, timeline: Timeline | None, database: Database) -> list[Sink]:
    """Who wants to see the tasks, by what was switched on."""
    sinks: list[Sink] = []
    if context.on("task-time", "on"):
        sinks.append(database)
        if timeline is not None:
            models = {one.model_id: one.model for one in context.collection.executions}
            sinks += [timeline, operators.OpSummary(context), operators.TaskTime(context)]
            if context.detailed:
                sinks += [operators.OpStatistic(context), operators.FusionOp(context, models)]
            if context.on("aicpu"):
                sinks.append(operators.AiCpu(context))
            if context.on("l2"):
                sinks.append(operators.L2Cache(context))
    sampled = context.setting("aic-mode", "task-based") == "sample-based"
    if sampled and context.on("ai-core", "on"):
        sinks.append(sampling.CoreSampling(context, timeline, database))
    if context.on("sys-hardware-mem"):
        sinks.append(sampling.MemorySampling(context, timeline, database))
    if sampled or context.on("sys-profiling") or context.on("sys-cpu-profiling"):
        sinks.append(sampling.AiCpuShare(context))
    return sinks


def _place(tree: Path, work: Path, database: Path, *, text: bool) -> list[Path]:
    """Move complete files to where they belong."""
    for old in tree.glob("msprof_*.db"):
        old.unlink()
    written = [database.rename(tree / database.name)]
    if not text:
        for leftover in work.iterdir():
            leftover.unlink()
        return written
    (work / "README.txt").write_text(_README, encoding="utf-8")
    target = tree / OUTPUT
    shutil.rmtree(target, ignore_errors=True)
    work.chmod(0o755)
    work.rename(target)
    return written + sorted(target.iterdir())
