"""Runs a target over many mutants in child processes with limits on time and memory, and counts what happened.

A child that dies or stays silent is a failure of the case it was at, and is replaced.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing as mp
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutant

SECONDS = 10  # a case that takes longer is a hang
FAILURES = ("traceback", "hang", "crash", "memory", "wrong")
MEMORY_BYTES = 6 << 30  # address space of a child; libraries map about 2 GB of it


@dataclass(frozen=True)
class Case:
    """One damaged file: made from ``seed_file`` by the generator ``random.Random(f"{seed}/{number}")``."""

    number: int
    seed_file: str
    kind: str
    seed: int


@dataclass
class Outcome:
    """``counts`` by word: the target's own words, "refused", and the words of ``FAILURES``."""

    counts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slowest_s: float = 0.0

    def add(self, case: Case, word: str, detail: str, took_s: float) -> None:
        self.counts[word] += 1
        self.slowest_s = max(self.slowest_s, took_s)
        if word == "refused":
            self.codes.update(detail.split())
        if word in FAILURES:
            self.failures.append({"case": case.number, "file": case.seed_file, "what": word, "detail": detail})


def cases(seeds: Sequence[Path], kind: str, count: int, seed: int, start: int = 0) -> list[Case]:
    """``count`` cases spread over the seed files."""
    return [Case(n, str(seeds[n % len(seeds)]), kind, seed) for n in range(start, start + count)]


def damaged(case: Case) -> tuple[bytes, str]:
    """The bytes of a case and what was done to them."""
    data = Path(case.seed_file).read_bytes()
    return mutant(data, case.kind, random.Random(f"{case.seed}/{case.number}"))


def run(todo: Sequence[Case], target: str, jobs: int = 1, progress: bool = False, seconds: int = SECONDS) -> Outcome:
    """Run all cases; ``target`` is a name in ``tests.fuzz.targets.TARGETS`` or ``module:function``."""
    outcome = Outcome()
    pending = iter(todo)
    workers = [_Worker(target, seconds) for _ in range(min(jobs, max(1, len(todo))))]
    active = [w for w in workers if w.give(pending)]
    while active:
        ready = wait([w.pipe for w in active], timeout=seconds * 2.5)
        for worker in [w for w in active if w.pipe in ready] or active:
            case = worker.case
            assert case is not None
            try:
                word, detail, took = worker.pipe.recv() if worker.pipe in ready else ("hang", "in native code", 99.0)
            except EOFError:
                worker.process.join(5)
                word, detail, took = "crash", f"exit code {worker.process.exitcode}", 0.0
            outcome.add(case, word, detail, took)
            if word in ("hang", "crash", "memory"):
                worker.restart()
            if not worker.give(pending):
                active.remove(worker)
        done = sum(outcome.counts.values())
        if progress and done % 50 == 0:
            print(f"\r{done}/{len(todo)} {dict(outcome.counts)}", end="", file=sys.stderr, flush=True)
    for worker in workers:
        worker.stop()
    if progress:
        print(file=sys.stderr)
    return outcome


class _Worker:
    """A child process and the case it is at."""

    def __init__(self, target: str, seconds: int) -> None:
        self.target, self.seconds = target, seconds
        self.case: Case | None = None
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = mp.Pipe()
        context = mp.get_context("spawn")
        self.process = context.Process(target=_serve, args=(theirs, self.target, self.seconds), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, pending: Iterator[Case]) -> bool:
        self.case = next(pending, None)
        if self.case is not None:
            self.pipe.send(self.case)
        return self.case is not None

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()

    def restart(self) -> None:
        self.stop()
        self._start()


class _TooLong(BaseException):
    """Not an ``Exception``, so that no handler in the code under test swallows it."""


def _alarm(number: int, frame: object) -> None:
    raise _TooLong


def _serve(pipe: Connection, target: str, seconds: int) -> None:
    from tests.fuzz.targets import TARGETS

    signal.signal(signal.SIGALRM, _alarm)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["OMP_NUM_THREADS"] = "1"
    module, colon, name = target.partition(":")
    function = getattr(importlib.import_module(module), name) if colon else TARGETS[target]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        _warm_up(folder)
        while True:
            try:
                case = pipe.recv()
            except EOFError:
                return
            pipe.send(_one(case, function, Path(folder), seconds))


def _warm_up(folder: str) -> None:
    """Imports count for no case."""
    import onnxruntime

    import asc_devkit.frontends.onnx  # noqa: F401

    onnxruntime.set_default_logger_severity(4)
    Path(folder).mkdir(exist_ok=True)


def _one(case: Case, function: Any, folder: Path, seconds: int) -> tuple[str, str, float]:
    from asc_devkit.errors import AscError
    from tests.fuzz.targets import Wrong

    data, what = damaged(case)
    path = folder / f"m.{case.kind}"
    path.write_bytes(data)
    start = time.perf_counter()
    signal.alarm(seconds)
    try:
        word, detail = function(path, folder, case.seed_file), ""
    except Wrong as error:
        word, detail = "wrong", f"{what}\n{error}"
    except AscError as error:
        word, detail = "refused", " ".join(p.code for p in error.problems)
    except _TooLong:
        word, detail = "hang", what + "\n" + traceback.format_exc()[-1500:]
    except MemoryError:
        word, detail = "memory", what + "\n" + traceback.format_exc()[-1500:]
    except BaseException:
        word, detail = "traceback", what + "\n" + traceback.format_exc()[-3000:]
    finally:
        signal.alarm(0)
    return word, detail, time.perf_counter() - start


def as_json(outcome: Outcome) -> str:
    """The figures of a run."""
    return json.dumps(
        {
            "counts": dict(outcome.counts),
            "failures": len(outcome.failures),
            "slowest_s": round(outcome.slowest_s, 2),
            "codes": dict(outcome.codes.most_common()),
        }
    )
