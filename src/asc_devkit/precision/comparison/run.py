"""The whole comparison: scan both sides, match, measure every pair on all cores, resume where a run was stopped."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.comparison import judge
from asc_devkit.precision.comparison.heat import heat_maps
from asc_devkit.precision.comparison.match import Matching, Pair, load_mapping, match
from asc_devkit.precision.comparison.pairs import PairOptions, Row, measure
from asc_devkit.precision.comparison.result import Result, row_from, statistics_rows
from asc_devkit.precision.held import prevailing_type
from asc_devkit.precision.local.model import judge_model, load_model
from asc_devkit.precision.sources import SUFFIXES, Collection, scan
from asc_devkit.precision.sources.names import plain

Progress = Callable[[str, float], None]
DUMPS: Final = frozenset({"index.json", "dump.json"})
SMALL: Final = 64 << 20  # bytes below which starting workers costs more than it brings


@dataclass(frozen=True)
class Options:
    """``workers``: processes (0: all cores); ``resume``: journal that is read and continued; ``executor``: one of
    ``concurrent.futures`` kind (Dask's ``client.get_executor()`` too) instead of own processes; ``model``: file of the model
    both sides executed, to judge every operator on the target's own inputs."""

    pair: PairOptions
    mapping: Path | None = None
    by_value: bool = True
    workers: int = 0
    resume: Path | None = None
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None
    executor: concurrent.futures.Executor | None = None
    model: Path | None = None


def compare_paths(
    golden: Path, target: Path, options: Options, progress: Progress = lambda what, share: None
) -> Result:
    """Compare two files or folders of any layout. Raises ``AscError`` when one of them holds nothing readable."""
    progress("read golden", 0.0)
    left = scan(golden, dtype=options.dtype, shape=options.shape)
    progress("read target", 0.0)
    right = scan(target, dtype=options.dtype, shape=options.shape)
    return compare_collections(left, right, options, progress, runs_of(left, right))


def runs_of(golden: Collection, target: Collection) -> list[tuple[Collection, Collection]]:
    """Both sides split by input, when each of two or more folders of the same name (``step0``, ``run1``) is a dump."""
    folders = [
        {p.name for p in side.path.iterdir() if p.is_dir()} if side.path.is_dir() else set()
        for side in (golden, target)
    ]
    top = [path for side in (golden, target) if side.path.is_dir() for path in side.path.iterdir() if path.is_file()]
    names = sorted(folders[0] & folders[1])
    if len(names) < 2 or any(path.suffix.lower() in SUFFIXES or path.name in DUMPS for path in top):
        return [(golden, target)]
    runs = []
    for name in names:
        with contextlib.suppress(AscError):  # a folder without tensors is no run
            runs.append((scan(golden.path / name), scan(target.path / name)))
    return runs or [(golden, target)]


def compare_collections(
    golden: Collection,
    target: Collection,
    options: Options,
    progress: Progress = lambda what, share: None,
    runs: Sequence[tuple[Collection, Collection]] = (),
) -> Result:
    """Compare two collections that were scanned already; ``runs``: the same split by input, for the verdict of a model."""
    verdict = None
    model = load_model(options.model) if options.model is not None else None
    mapping: Mapping[str, str] = load_mapping(options.mapping) if options.mapping is not None else {}
    progress("match", 0.0)
    matching = match(golden, target, mapping, by_value=options.by_value)
    if options.pair.judge_as == "auto":
        held = prevailing_type(target.tensors.values())
        options = dataclasses.replace(options, pair=dataclasses.replace(options.pair, held=held))
    rows = _measure_all(matching, options, progress)
    rows += statistics_rows(golden, target)
    if model is not None:
        rows = _in_order(rows, model)
    problems: list[Problem] = [*golden.problems, *target.problems]
    failed = any(row.level == "error" for row in rows)
    progress("find the operators to blame", 1.0)
    found = judge.findings(rows, judge.Tensors(golden.tensors, target.tensors) if failed else None)
    if model is not None and options.model is not None:
        verdict = judge_model(options.model, model, runs or [(golden, target)], progress)
        found = judge.with_model(found, verdict)
    return Result(
        golden=golden,
        target=target,
        matching=matching,
        rows=rows,
        findings=found,
        trend=judge.trend(rows, found),
        problems=problems,
        options=options.pair,
        notes=_notes(rows),
        verdict=verdict,
        pictures=heat_maps(rows, found, golden.tensors, target.tensors) if failed else {},
    )


def _in_order(rows: list[Row], model: onnx.ModelProto) -> list[Row]:
    """Rows in the order in which the model makes the tensors; the rest at the end."""
    place = {plain(v.name): -1 for v in model.graph.input}
    for number, node in enumerate(model.graph.node):
        for name in (*node.output, *([node.name] if node.name else ())):
            place.setdefault(plain(name), number)
    last = len(model.graph.node)

    def of(row: Row) -> int:
        names = (row.name.rsplit("/", 1)[-1], row.name, row.op)
        return next((place[p] for p in map(plain, names) if p in place), last)

    return sorted(rows, key=of)


def _notes(rows: list[Row]) -> list[str]:
    shorter: dict[str, int] = {}
    for row in rows:
        if row.judged and row.judged != row.dtype:
            shorter[row.judged] = shorter.get(row.judged, 0) + 1
    return [
        f"{count} tensors hold {name} values in a longer type and are judged as {name}; --judge-as file judges by the file"
        for name, count in sorted(shorter.items())
    ]


def _measure_all(matching: Matching, options: Options, progress: Progress) -> list[Row]:
    done: dict[str, Row] = {}
    journal = None
    key = _key(matching, options.pair) if options.resume is not None else ""
    if options.resume is not None:
        done = _resumed(options.resume, key)
        options.resume.parent.mkdir(parents=True, exist_ok=True)
        journal = open(options.resume, "a" if done else "w", encoding="utf-8")  # noqa: SIM115 - closed below
        if not done:
            journal.write(json.dumps({"comparison": key}) + "\n")
    left = [pair for pair in matching.pairs if pair.name not in done]
    total = sum(pair.target.nbytes for pair in left) or 1
    seen = 0
    try:
        for pair, row in _results(left, options, total):
            done[pair.name] = row
            seen += pair.target.nbytes
            progress(pair.name, seen / total)
            if journal is not None:
                journal.write(json.dumps(row.as_dict()) + "\n")
                journal.flush()
    finally:
        if journal is not None:
            journal.close()
    return [done[pair.name] for pair in matching.pairs]


def _results(pairs: list[Pair], options: Options, total: int) -> Iterator[tuple[Pair, Row]]:
    workers = (
        options.workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if options.executor is not None:
        yield from _spread(options.executor, pairs, options.pair)
    elif workers <= 1 or total < SMALL or len(pairs) < 2:
        for pair in pairs:
            yield pair, measure(pair, options.pair)
    else:  # numpy releases the interpreter for the work, and mapped files need no copying between threads
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            yield from _spread(pool, pairs, options.pair)


def _spread(
    pool: concurrent.futures.Executor, pairs: Iterable[Pair], options: PairOptions
) -> Iterator[tuple[Pair, Row]]:
    waiting = {pool.submit(measure, pair, options): pair for pair in pairs}
    for future in concurrent.futures.as_completed(waiting):
        yield waiting[future], future.result()


def _key(matching: Matching, options: PairOptions) -> str:
    """Tells two comparisons apart: files (path, size, time) and rules."""
    digest = hashlib.blake2b(repr(options).encode(), digest_size=16)
    for pair in matching.pairs:
        for ref in (pair.golden, pair.target):
            facts = ref.path.stat()
            digest.update(f"{pair.name}|{ref.path}|{facts.st_size}|{facts.st_mtime_ns}".encode())
    return digest.hexdigest()


def _resumed(path: Path, key: str) -> dict[str, Row]:
    """Rows of a journal of the same comparison; a torn last line is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(lines[0]).get("comparison") != key:
            return {}
    except (OSError, ValueError, IndexError, AttributeError):
        return {}
    found: dict[str, Row] = {}
    for line in lines[1:]:
        try:
            row = row_from(json.loads(line))
        except (ValueError, TypeError, KeyError):
            continue
        found[row.name] = row
    return found
