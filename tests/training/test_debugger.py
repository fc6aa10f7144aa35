"""The debugger on a small transformer: what it writes, that it changes nothing, that a crash loses little."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from asc_devkit.errors import AscError
from asc_devkit.precision.sources import scan
from asc_devkit.training import PrecisionDebugger
from benchmarks.debugger_overhead import Transformer

WORDS = 50


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return Transformer(width=32, heads=4, layers=2, words=WORDS)


def tokens(seed: int) -> torch.Tensor:
    return torch.randint(0, WORDS, (2, 8), generator=torch.Generator().manual_seed(seed))


def train(
    net: nn.Module, steps: int, debugger: PrecisionDebugger | None = None
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Train; returns losses and the weights at the end."""
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3)
    losses = []
    for number in range(steps):
        if debugger is not None:
            debugger.start(net)
        batch = tokens(number)
        loss = nn.functional.cross_entropy(net(batch).view(-1, WORDS), batch.view(-1))
        loss.backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    return losses, {k: v.clone() for k, v in net.state_dict().items()}


def dumped(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}" / "rank0" / "dump.json").read_text())


@pytest.mark.seed("P4")
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_results_are_bit_identical_with_and_without_it(level: str, task: str, tmp_path: Path) -> None:
    plain = train(small(), 3)
    watched = train(small(), 3, PrecisionDebugger(task=task, level=level, dump_path=tmp_path))
    assert plain[0] == watched[0]
    assert all(torch.equal(plain[1][name], watched[1][name]) for name in plain[1])
    assert len(list(tmp_path.glob("step*/rank0/dump.json"))) == 3


def test_names_and_layout_are_those_of_the_vendor(tmp_path: Path) -> None:
    """Names as the vendor's tool (26.2.0) writes them for the same kind of net; order of calls as executed."""
    train(small(), 1, PrecisionDebugger(level="mix", dump_path=tmp_path))
    facts = dumped(tmp_path)
    assert {k: facts[k] for k in ("task", "level", "framework")} == {
        "task": "statistics",
        "level": "mix",
        "framework": "pytorch",
    }
    names = list(facts["data"])
    assert names[:5] == [
        "Functional.embedding.0.forward",
        "Module.embed.Embedding.forward.0",
        "Functional.layer_norm.0.forward",
        "Module.blocks.0.first.LayerNorm.forward.0",
        "Functional.linear.0.forward",
    ]
    assert {"Tensor.__matmul__.0.forward", "Torch.softmax.0.forward", "Tensor.__add__.1.backward",
            "Module.blocks.1.feed.0.Linear.parameters_grad.0", "Module.blocks.0.Block.backward.0"} <= set(names)  # fmt: skip
    row = facts["data"]["Functional.linear.0.forward"]
    assert [r["shape"] for r in row["input_args"]] == [[2, 8, 32], [96, 32], [96]]
    assert row["output"][0]["dtype"] == "torch.float32" and row["output"][0]["requires_grad"] is True
    construct = json.loads((tmp_path / "step0/rank0/construct.json").read_text())
    assert construct["Functional.linear.0.forward"] == "Module.blocks.0.qkv.Linear.forward.0"
    assert construct["Module.blocks.0.qkv.Linear.forward.0"] == "Module.blocks.0.Block.forward.0"
    frames = json.loads((tmp_path / "step0/rank0/stack.json").read_text())
    lines = next(lines for calls, lines in frames.values() if "Functional.linear.0.forward" in calls)
    assert any("debugger_overhead.py" in line for line in lines) and not any(
        "training/debugger" in line for line in lines
    )


@pytest.mark.parametrize("form", ["pt", "container"])
def test_tensors_and_statistics_are_the_real_ones(form: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps({"task": "tensor", "level": "L1", "dump_path": str(tmp_path / "d"), "tensor": {"file_format": form}})
    )
    net = small()
    debugger = PrecisionDebugger(config)
    batch = tokens(0)
    with debugger(net):
        out = net(batch)
        nn.functional.cross_entropy(out.view(-1, WORDS), batch.view(-1)).backward()
    tensors = scan(tmp_path / "d").tensors
    found = tensors["step0/rank0/Functional.linear.8.forward.output.0"].array()
    assert np.array_equal(found, out.detach().numpy())
    weight = tensors["step0/rank0/Functional.linear.8.forward.input.1"].array()
    assert np.array_equal(weight, net.head.weight.detach().numpy())
    row = dumped(tmp_path / "d")["data"]["Functional.linear.8.forward"]["output"][0]
    assert row["Max"] == found.max() and row["Min"] == found.min()
    assert row["Mean"] == pytest.approx(found.mean(dtype=np.float64), abs=1e-6)
    assert row["Norm"] == pytest.approx(np.linalg.norm(found.astype(np.float64)), rel=1e-6)
    files = list((tmp_path / "d/step0/rank0").rglob("*.pt"))
    assert (len(files) > 50) == (form == "pt")


def test_gradients_are_those_autograd_computes(tmp_path: Path) -> None:
    net = small()
    debugger = PrecisionDebugger(task="tensor", level="mix", dump_path=tmp_path)
    batch = tokens(1)
    with debugger(net):
        out = net(batch)
        out.retain_grad()
        nn.functional.cross_entropy(out.view(-1, WORDS), batch.view(-1)).backward()
    tensors = scan(tmp_path).tensors
    assert out.grad is not None
    assert np.array_equal(tensors["step0/rank0/Functional.linear.8.backward.input.0"].array(), out.grad.numpy())
    grad = tensors["step0/rank0/Module.head.Linear.parameters_grad.0.weight.0"].array()
    assert np.array_equal(grad, net.head.weight.grad.numpy())
    # what LayerNorm alone hands back, not what the residual path adds to it
    alone = tensors["step0/rank0/Functional.layer_norm.3.backward.output.0"].array()
    module = tensors["step0/rank0/Module.blocks.1.second.LayerNorm.backward.0.output.0"].array()
    assert np.array_equal(alone, module)


def test_steps_scope_and_lists_narrow_what_is_written(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    settings = {"scope": ["Functional.linear.1", "Functional.linear.2"], "data_mode": ["forward"]}
    config.write_text(json.dumps({"task": "statistics", "level": "L1", "step": [1, "3-4"], "statistics": settings}))
    train(small(), 6, PrecisionDebugger(config, dump_path=tmp_path / "d"))
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == ["step1", "step3", "step4"]
    names = list(dumped(tmp_path / "d", 1)["data"])
    assert names[0] == "Functional.linear.1.forward" and names[-1] == "Functional.linear.2.forward" and len(names) < 8
    train(small(), 1, PrecisionDebugger(dump_path=tmp_path / "l", level="L1"))
    config.write_text(json.dumps({"task": "statistics", "statistics": {"list": ["softmax"]}}))
    train(small(), 1, PrecisionDebugger(config, dump_path=tmp_path / "s"))
    assert {n.split(".")[1] for n in dumped(tmp_path / "s")["data"]} == {"softmax"}


def test_structure_md5_and_decorator(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(
        json.dumps({"task": "statistics", "statistics": {"summary_mode": "md5"}, "dump_path": str(tmp_path / "m")})
    )
    net, debugger = small(), PrecisionDebugger(config)

    @debugger.collect(net)
    def step(batch: torch.Tensor) -> torch.Tensor:
        return net(batch)

    step(tokens(0))
    step(tokens(0))
    first, second = dumped(tmp_path / "m", 0)["data"], dumped(tmp_path / "m", 1)["data"]
    assert first == second and len(first["Functional.linear.0.forward"]["output"][0]["md5"]) == 8
    train(small(), 1, PrecisionDebugger(task="structure", level="mix", dump_path=tmp_path / "t"))
    assert "Module.blocks.0.Block.forward.0" in json.loads((tmp_path / "t/step0/rank0/construct.json").read_text())


def test_the_overflow_task_keeps_only_the_calls_that_made_them(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(task="overflow_check", level="L1", dump_path=tmp_path)
    x = torch.full((4, 4), 1e30)
    with debugger():
        y = torch.mul(x, 2.0)
        z = torch.mul(y, y)  # overflows
        torch.add(z, 1.0)
    assert list(dumped(tmp_path)["data"]) == ["Torch.mul.1.forward"]
    with debugger():
        torch.mul(x, x)
    assert not (tmp_path / "step1").exists()  # one overflow was asked for


def test_single_values_are_saved_at_any_level(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(task="tensor", level="debug", dump_path=tmp_path)
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 2
    debugger.save({"y": y}, "mine")
    (y * y).sum().backward()
    debugger.step()
    tensors = scan(tmp_path).tensors
    assert np.array_equal(tensors["step0/rank0/mine.0.forward.output.0.y"].array(), y.detach().numpy())
    assert np.array_equal(tensors["step0/rank0/mine.0.backward.output.0"].array(), (2 * y).detach().numpy())


@pytest.mark.provokes("ASC5201", "ASC5202", "ASC5204")
@pytest.mark.parametrize(
    "facts,code",
    [
        ({"task": "statistic"}, "did you mean 'statistics'"),
        ({"level": "L9"}, "ASC5202"),
        ({"step": ["a"]}, "ASC5202"),
        ({"task": "tensor", "tensor": {"data_mode": ["sideways"]}}, "ASC5202"),
        ({"task": "tensor", "tensor": {"scope": ["one"]}}, "ASC5202"),
        ({"task": "overflow_check", "overflow_check": {"overflow_nums": 0}}, "ASC5202"),
    ],
)
def test_wrong_settings_are_named(facts: dict[str, Any], code: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(facts))
    with pytest.raises(AscError, match=code):
        PrecisionDebugger(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("[1]")
    with pytest.raises(AscError, match="ASC5201"):
        PrecisionDebugger(tmp_path / "c.json")
    with pytest.raises(AscError, match="ASC5204"):
        PrecisionDebugger(level="L0", dump_path=tmp_path).start()


@pytest.mark.provokes("ASC5203")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AscError, match="ASC5203"):
        PrecisionDebugger(dump_path=tmp_path / "file").start()


CRASH = """
import os, signal, sys, torch
from tests.training.test_debugger import small, tokens
from asc_devkit.training import PrecisionDebugger
from asc_devkit.training.debugger import writer
writer.FLUSH = 8
net = small()
debugger = PrecisionDebugger(sys.argv[2], dump_path=sys.argv[1])
debugger.start(net)
net(tokens(0))
{end}
"""


@pytest.mark.parametrize("form", ["pt", "container"])
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise RuntimeError('the program fails')"])
def test_what_was_flushed_survives_a_crash(form: str, end: str, tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"task": "tensor", "level": "L1", "tensor": {"file_format": form}}))
    script = CRASH.format(end=f"debugger.writer.elements.queue.join() if False else __import__('time').sleep(1); {end}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", script, str(tmp_path / "d"), str(config)]
    done = subprocess.run(words, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode in (1, -signal.SIGKILL), done.stderr
    found = scan(tmp_path / "d")
    assert len(found.tensors) > 20, found.problems
    assert all(ref.array().size == ref.size for ref in found.tensors.values())


def test_programs_that_import_msprobe_run_where_it_is_not_installed(tmp_path: Path) -> None:
    script = (
        "from asc_devkit.training import install_as_msprobe\nprint(install_as_msprobe())\n"
        "from msprobe.pytorch import PrecisionDebugger\nprint(PrecisionDebugger.__module__)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "asc_devkit.training.debugger.debugger"]
