"""Many threads, many asynchronous executions, errors among them: nothing hangs, nothing is lost, memory stays."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import acl
from asc_devkit.npu import device
from tests.compat.acl.test_calls import Loaded, X, models  # noqa: F401 - a fixture

pytestmark = pytest.mark.xdist_group("pyacl")
WANTED = np.maximum(X + 1, 0)


@pytest.fixture(autouse=True)
def runtime() -> Any:
    device.renew()
    acl.init()
    acl.rt.set_device(0)
    yield
    acl.finalize()
    device.renew()


def soak(path: Path, threads: int, count: int) -> tuple[int, int, list[str]]:
    """Callbacks that ran, errors that were answered, and what went wrong."""
    wrong: list[str] = []
    called = [0] * threads
    refused = [0] * threads

    def work(number: int) -> None:
        context, _ = acl.rt.create_context(0)
        stream, _ = acl.rt.create_stream()
        model = Loaded(path)
        model.feed(X)
        going = True

        def serve(_: Any) -> None:
            acl.rt.set_context(context)
            while going:
                acl.rt.process_report(20)

        thread, _ = acl.util.start_thread(serve, [0])
        acl.rt.subscribe_report(thread, stream)

        def done(_: Any) -> None:
            called[number] += 1

        for turn in range(count):
            if turn % 50 == 7:  # an error among the rest
                refused[number] += acl.mdl.execute_async(987654, model.inputs, model.outputs, stream) != 0
                refused[number] += acl.rt.free(1234567) != 0
            if acl.mdl.execute_async(model.number, model.inputs, model.outputs, stream) != 0:
                wrong.append(acl.get_recent_err_msg())
            if turn % 10 == 9:
                acl.rt.launch_callback(done, turn, 0, stream)
            if turn % 100 == 99:
                acl.rt.synchronize_stream(stream)
                if not np.array_equal(model.result(6).reshape(2, 3), WANTED):
                    wrong.append(f"thread {number}, execution {turn}: another result")
        acl.rt.synchronize_stream(stream)
        end = time.monotonic() + 20
        while called[number] < count // 10 and time.monotonic() < end:
            time.sleep(0.01)
        going = False
        acl.util.stop_thread(thread)
        acl.rt.unsubscribe_report(thread, stream)
        model.close()
        acl.rt.destroy_stream(stream)
        acl.rt.destroy_context(context)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
        assert not worker.is_alive(), "a thread hangs"
    return sum(called), sum(refused), wrong


def run(path: Path, count: int) -> None:
    soak(path, 8, 200)  # threads, sessions and allocators are warm
    gc.collect()
    before = psutil.Process().memory_info().rss
    begun = time.monotonic()
    called, refused, wrong = soak(path, 8, count)
    seconds = time.monotonic() - begun
    gc.collect()
    after = psutil.Process().memory_info().rss
    print(
        f"8 threads x {count} executions in {seconds:.1f} s: {called} callbacks, {refused} errors answered, "
        f"memory {before >> 20} -> {after >> 20} MiB ({after / before - 1:+.2%})"
    )
    assert not wrong
    assert called == 8 * (count // 10)
    assert refused == 8 * 2 * len(range(7, count, 50))
    assert after < before * 1.01 + (8 << 20)


def test_eight_threads(models: dict[str, Path]) -> None:  # noqa: F811
    run(models["static"], 500)


@pytest.mark.conformance
def test_eight_threads_ten_thousand_executions_each(models: dict[str, Path]) -> None:  # noqa: F811
    run(models["static"], 10_000)


PROGRAM = """
import sys, time
import numpy as np
import acl
from pathlib import Path
from tests.compat.acl.test_calls import Loaded, X
acl.init(); acl.rt.set_device(0)
model = Loaded(Path(sys.argv[1])); model.feed(X)
print("ready", flush=True)
for turn in range(int(sys.argv[2])):
    assert acl.mdl.execute(model.number, model.inputs, model.outputs) == 0
    assert np.array_equal(model.result(6).reshape(2, 3), np.maximum(X + 1, 0))
print("done", flush=True)
"""


def test_killing_one_process_disturbs_no_other(models: dict[str, Path]) -> None:  # noqa: F811
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [sys.executable, "-c", PROGRAM, str(models["static"])]
    options: dict[str, Any] = {"env": environment, "stdout": subprocess.PIPE, "text": True}
    victim = subprocess.Popen([*words, "100000000"], **options)
    others = [subprocess.Popen([*words, "3000"], **options) for _ in range(2)]
    assert victim.stdout is not None and victim.stdout.readline() == "ready\n"
    victim.send_signal(signal.SIGKILL)
    for other in others:
        out, _ = other.communicate(timeout=120)
        assert other.returncode == 0 and out.endswith("done\n")
    assert victim.wait(10) == -signal.SIGKILL
