"""The models a server offers, the queue in front of them, and what is counted about them."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from asc_devkit import npu
from asc_devkit.errors import AscError, Problem
from asc_devkit.serve import protocol

BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,100}")


class QueueFull(Exception):
    """As many requests wait as may (status 429)."""


@dataclass(frozen=True)
class Model:
    """A loaded model under the name clients use."""

    name: str
    path: Path
    session: npu.Session


class Metrics:
    """Counters in Prometheus' format. Times are of this computer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "asc_serve_requests", "Inference requests by outcome (status code).", ["model", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.latency = Histogram(
            "asc_serve_request_seconds", "Queueing and execution, measured on this CPU (not NPU time).", ["model"],
            registry=self.registry, buckets=BUCKETS,
        )  # fmt: skip
        self.execution = Histogram(
            "asc_serve_execution_seconds", "Execution alone, measured on this CPU (not NPU time).", ["model"],
            registry=self.registry, buckets=BUCKETS,
        )  # fmt: skip
        self.waiting = Gauge("asc_serve_pending", "Requests waiting or running.", registry=self.registry)


def load(given: Sequence[str], threads: int | None) -> dict[str, Model]:
    """Models by name from ``path.om`` or ``name=path.om``. Raises ``AscError`` naming every problem."""
    found: dict[str, Model] = {}
    problems: list[Problem] = []
    for text in given:
        name, equals, rest = text.partition("=")
        path = Path(rest) if equals and not Path(text).exists() else Path(text)
        name = name if path == Path(rest) else path.stem
        if not NAME.fullmatch(name):
            fix = "Give it one: name=model.om, of letters, digits, _, . and -."
            problems.append(Problem("ASC4601", f"{name!r} cannot be a model's name.", fix=fix))
        elif name in found:
            problems.append(Problem("ASC4601", f"Two models are called {name!r}.", fix="Name them: a=x.om b=y.om."))
        else:
            try:
                found[name] = Model(name, path, npu.load(path, threads=threads))
            except AscError as error:
                problems += error.problems
    if problems:
        raise AscError(problems)
    return found


class Engine:
    """Runs requests on ``workers`` threads; at most ``queue`` of them wait or run at once."""

    def __init__(self, models: dict[str, Model], workers: int, queue: int) -> None:
        self.models, self.queue, self.metrics = models, queue, Metrics()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="asc-serve")
        self._pending = 0
        self._lock = threading.Lock()

    async def infer(self, model: Model, body: bytes, header_length: str | None) -> tuple[bytes, dict[str, str]]:
        """The response to a request's body. Raises ``QueueFull``, ``BadRequest`` or ``AscError``."""
        with self._lock:
            if self._pending >= self.queue:
                raise QueueFull
            self._pending += 1
            self.metrics.waiting.set(self._pending)
        started = time.perf_counter()
        try:
            future = self._pool.submit(self._work, model, body, header_length)
        except BaseException:
            self._leave()
            raise
        future.add_done_callback(lambda _: self._leave())  # also when the client has gone away
        try:
            return await asyncio.wrap_future(future)
        finally:
            self.metrics.latency.labels(model.name).observe(time.perf_counter() - started)

    def close(self) -> None:
        """Wait for what runs; nothing new is taken."""
        self._pool.shutdown(wait=True)

    def _leave(self) -> None:
        with self._lock:
            self._pending -= 1
            self.metrics.waiting.set(self._pending)

    def _work(self, model: Model, body: bytes, header_length: str | None) -> tuple[bytes, dict[str, str]]:
        request = protocol.decode(body, header_length)
        started = time.perf_counter()
        outputs = model.session.run(request.inputs)
        self.metrics.execution.labels(model.name).observe(time.perf_counter() - started)
        return protocol.encode(request, model.name, outputs)
