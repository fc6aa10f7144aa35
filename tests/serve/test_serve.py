"""`asc serve` as a process: answers, limits, hostile clients, load at saturation, and a clean end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags
from tests.cli.shell import asc, onnx_cnn

TOKEN = "a-long-enough-token"
LOAD_S = float(os.environ.get("ASC_SERVE_LOAD_S", "4"))  # the page's figure is from 60


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    onnx_cnn(folder / "m.onnx", "x")
    flags = {
        "model": str(folder / "m.onnx"),
        "framework": "5",
        "output": str(folder / "cnn"),
        "input_shape": "x:1,3,32,32",
    }
    return atc.compile(from_flags({**flags, "soc_version": "Ascend310P3"})).om_path


class Server:
    """The running process and its address."""

    def __init__(self, *words: str, **environment: str) -> None:
        command = [str(Path(sys.executable).with_name("asc")), "serve", *words, "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, line + (self.process.stderr.read() if self.process.stderr else "")
        self.port = int(found[1])

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and decoded JSON (or text)."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, raw = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, raw = error.code, error.read()
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode(errors="replace")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    made = Server(f"cnn={model}", "--queue", "8", "--max-body", "200000", "--header-timeout", "1", "--threads", "1")
    yield made
    assert made.stop() == 0


def request(x: np.ndarray) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.reshape(-1).tolist()}]}


def test_metadata_health_and_metrics(server: Server) -> None:
    assert server.ask("/v2/health/live")[0] == server.ask("/v2/health/ready")[0] == 200
    status, facts = server.ask("/v2/models/cnn")
    assert status == 200 and facts["inputs"][0]["shape"] == [1, 3, 32, 32] and facts["inputs"][0]["datatype"] == "FP32"
    assert "asc_serve_pending" in server.ask("/metrics")[1]
    assert server.ask("/v2/models/none")[0] == 404


def test_an_answer_is_what_the_virtual_npu_computes(server: Server, model: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    status, facts = server.ask("/v2/models/cnn/infer", request(x))
    assert status == 200
    (wanted,) = npu.load(model, threads=1, cache=False).run({"x": x}).values()
    assert np.array_equal(np.array(facts["outputs"][0]["data"], np.float32).reshape(1, 10), wanted.astype(np.float32))
    head = {
        "inputs": [
            {"name": "x", "shape": [1, 3, 32, 32], "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
        ]
    }
    text = json.dumps(head).encode()
    status, again = server.ask(
        "/v2/models/cnn/infer", text + x.tobytes(), **{"Inference-Header-Content-Length": str(len(text))}
    )
    assert status == 200 and again["outputs"][0]["data"] == facts["outputs"][0]["data"]


@pytest.mark.parametrize(
    "body,status",
    [
        (b"{", 400),
        (b"[" * 100_000, 400),
        ({"inputs": []}, 400),
        ({"inputs": [{"name": "x", "shape": [1, 3, 32, 33], "datatype": "FP32", "data": [0.0]}]}, 400),
        ({"inputs": [{"name": "x", "shape": [1 << 40, 1 << 40], "datatype": "FP32", "data": []}]}, 400),
        ({"inputs": [{"name": "y", "shape": [1], "datatype": "FP32", "data": [0.0]}]}, 400),
        ({"inputs": [{"name": "x", "shape": [1, 3, 32, 32], "datatype": "FP99", "data": []}]}, 400),
        (b"x" * 300_000, 413),
    ],
)
def test_malformed_and_oversized_requests_are_refused(server: Server, body: Any, status: int) -> None:
    found, facts = server.ask("/v2/models/cnn/infer", body)
    assert found == status and "error" in facts
    assert server.ask("/v2/health/live")[0] == 200


def test_a_client_that_dribbles_its_headers_is_cut_off(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as slow:
        begun = time.monotonic()
        slow.sendall(b"POST /v2/models/cnn/infer HTTP/1.1\r\nHost: x\r\n")
        slow.settimeout(15)
        try:
            answer = slow.recv(1000)
        except ConnectionResetError:
            answer = b""
        assert time.monotonic() - begun < 10 and (answer == b"" or b"408" in answer)


def test_load_at_saturation_gives_no_wrong_answer(server: Server) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((1, 3, 32, 32)).astype(np.float32) for _ in range(4)]
    wanted = [server.ask("/v2/models/cnn/infer", request(x))[1]["outputs"][0]["data"] for x in inputs]
    times: list[float] = []
    wrong: list[Any] = []
    busy = 0
    end = time.monotonic() + LOAD_S

    def client(number: int) -> None:
        nonlocal busy
        count = number
        while time.monotonic() < end:
            which = count % len(inputs)
            begun = time.monotonic()
            status, facts = server.ask("/v2/models/cnn/infer", request(inputs[which]))
            if status == 429:
                busy += 1
                time.sleep(0.01)
                continue
            times.append(time.monotonic() - begun)
            if status != 200 or facts["outputs"][0]["data"] != wanted[which]:
                wrong.append((status, facts))
            count += 1

    threads = [threading.Thread(target=client, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p50, p99 = np.percentile(times, [50, 99])
    figures = f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"
    print(f"{LOAD_S:g} s, 16 clients: {len(times)} answers, {len(wrong)} wrong, {busy} told to wait; {figures}")
    assert len(times) > 20 and not wrong and busy > 0


def test_it_stops_cleanly_under_load(model: Path) -> None:
    made = Server(f"cnn={model}", "--threads", "1", ASC_SERVE_TOKEN=TOKEN)
    assert made.ask("/v2/models/cnn")[0] == 401
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    x = np.zeros((1, 3, 32, 32), np.float32)
    seen: list[int] = []

    def client() -> None:
        for _ in range(1000):
            try:
                seen.append(made.ask("/v2/models/cnn/infer", request(x), **allowed)[0])
            except (OSError, http.client.HTTPException):  # the server is gone
                return

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    assert made.stop() == 0
    for thread in threads:
        thread.join()
    assert seen and set(seen) <= {200, 429, 503}


@pytest.mark.provokes("ASC4601", "ASC4602", "ASC4604")
def test_wrong_settings_are_named(model: Path, tmp_path: Path) -> None:
    assert "ASC4601" in asc("serve", f"a b={model}").err and "ASC4601" in asc("serve", f"a={model}", f"a={model}").err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = asc("serve", str(model), "--port", str(taken.getsockname()[1]))
    assert done.code == 2 and "ASC4602" in done.err
    (tmp_path / "t").write_text("short")
    assert "ASC4604" in asc("serve", str(model), "--token-file", str(tmp_path / "t")).err


@pytest.mark.provokes("ASC4603")
def test_without_its_packages_the_extra_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asc_devkit.cli import serve
    from asc_devkit.errors import AscError

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("asc_devkit.serve")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(AscError, match="ASC4603"):
        serve.serve.main([str(model)], standalone_mode=False)
