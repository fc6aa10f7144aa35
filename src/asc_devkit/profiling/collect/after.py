"""What ``msprof`` does with trees that exist: export, query, parse, analyze."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.profiling.collect import raw
from asc_devkit.profiling.collect.options import Command
from asc_devkit.profiling.records import Collection
from asc_devkit.profiling.writers import tree as trees
from asc_devkit.profiling.writers.context import ExportOptions
from asc_devkit.profiling.writers.export import export

_LARGEST_REPORTS: Final = 64 << 20  # the vendor's limit for --reports


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of ``--query``: a model of a tree. ``top`` are the iterations that took longest (simulated)."""

    directory: str
    device: int
    collected: str
    model_id: int
    iterations: int
    top: tuple[int, ...]
    rank: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "Job Info": "NA",
            "Device ID": self.device,
            "Dir Name": self.directory,
            "Collection Time": self.collected,
            "Model ID": self.model_id,
            "Iteration Number": self.iterations,
            "Top Time Iteration": ",".join(map(str, self.top)),
            "Rank ID": self.rank,
        }


def export_options(command: Command) -> ExportOptions:
    """What the command line says about exporting. Raises ``AscError`` for a reports file that cannot be used."""
    given = command.given
    size = given.get("slice-size")
    return ExportOptions(
        kind=command.get("type"),
        summary_format=command.get("summary-format"),
        model_id=int(given["model-id"]) if "model-id" in given else None,
        iteration_id=int(given["iteration-id"]) if "iteration-id" in given else None,
        timeline_parts=_reports(given["reports"]) if "reports" in given else {},
        slice_bytes=int(size) << 20 if size else 0,
    )


def _reports(name: str) -> Mapping[str, bool]:
    path = Path(name)
    try:
        if path.stat().st_size > _LARGEST_REPORTS:
            raise ValueError("larger than 64 MB")
        parts = json.loads(path.read_text(encoding="utf-8"))["json_process"]
        return {str(name): bool(value) for name, value in parts.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AscError(
            Problem(
                "ASC6014",
                f"{path} cannot be used as --reports: {error}.",
                fix='Write {"json_process": {"cann": true, "ascend": true, ...}}.',
                nodes=(str(path),),
            )
        ) from error


def export_tree(tree: Path, options: ExportOptions, *, clear: bool = False) -> list[Path]:
    """Read the raw data of ``tree`` and write its files; the files written."""
    collection = raw.read(tree)
    if options.model_id is not None:
        _must_have(collection, options, tree)
    trees.describe(tree, collection)
    written = export(collection, tree, options)
    if clear:
        for folder in tree.glob("device_*/sqlite"):
            shutil.rmtree(folder, ignore_errors=True)
    return written


def _must_have(collection: Collection, options: ExportOptions, tree: Path) -> None:
    known = {(e.model_id, e.infer_id) for e in collection.executions}
    if (options.model_id, options.iteration_id) in known:
        return
    models = sorted({m for m, _ in known})
    counts = "; ".join(f"model {m}: iterations 1 to {max(i for n, i in known if n == m)}" for m in models)
    raise AscError(
        Problem(
            "ASC6015",
            f"{tree.name} has no iteration {options.iteration_id} of model {options.model_id}.",
            fix=f"It has {counts or 'no executions of models'}; msprof --query=on lists them.",
            nodes=(str(tree),),
        )
    )


def query(path: Path) -> list[Summary]:
    """Models and iterations of the trees in ``path``."""
    rows = []
    for tree in trees.trees(path):
        collection = raw.read(tree)
        by_model: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for one in collection.executions:
            by_model.setdefault((one.device, one.model_id), []).append((one.end_ns - one.start_ns, one.infer_id))
        text = tree.name.split("_")[2]
        when = f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:]}"
        for (device, model), times in sorted(by_model.items()):
            top = tuple(number for _, number in sorted(times, key=lambda t: (-t[0], t[1]))[:5])
            rows.append(Summary(tree.name, device, when, model, len(times), top))
        if not by_model:
            device = collection.devices[0].number if collection.devices else -1
            rows.append(Summary(tree.name, device, when, -1, 0, ()))
    return rows


def parse_tree(tree: Path) -> dict[str, int]:
    """Read all raw data; how many records of each kind there are."""
    collection = raw.read(tree)
    return {
        "api calls": sum(1 for _ in collection.calls()),
        "device tasks": sum(1 for _ in collection.tasks()),
        "executions": len(collection.executions),
        "markers": len(collection.marks),
    }


def analyze_tree(tree: Path, rules: str) -> list[Path]:
    """The communication analysis: files with the vendor's names and no content, since one device does not communicate."""
    known = ("communication", "communication_matrix")
    chosen = [rule.strip() for rule in rules.split(",") if rule.strip()]
    unknown = [rule for rule in chosen if rule not in known]
    if unknown:
        raise AscError(
            Problem("ASC6011", f"--rule knows no {', '.join(unknown)}.", fix=f"Rules are {', '.join(known)}.")
        )
    written = []
    for rule in chosen:
        path = tree / "analyze" / f"{rule}.json"
        files.write_text(path, json.dumps({"step": {"p2p": {}, "collective": {}}}))
        written.append(path)
    return written
