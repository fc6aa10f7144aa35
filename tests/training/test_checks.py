"""Pre-check, overflow search, snapshots, checkpoints, parse and the monitor."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from asc_devkit.errors import AscError
from asc_devkit.precision.sources.npu_dump import DumpTensor, write
from asc_devkit.training import Monitor, PrecisionDebugger, snapshot
from asc_devkit.training.checkpoint import compare
from asc_devkit.training.monitor import KINDS, Alert, Rules
from asc_devkit.training.overflow import origins
from asc_devkit.training.precheck import Options, check
from tests.precision.test_compare_commands import command
from tests.training.test_debugger import WORDS, small, tokens


class Fifty(nn.Module):
    """More than fifty different calls of torch, most of them with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.linear, self.layer = nn.Linear(8, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f = nn.functional
        y = self.norm(self.conv(x))
        y = f.max_pool2d(f.relu(y), 2) + f.avg_pool2d(f.silu(y), 2)
        y = f.interpolate(f.pad(y, (1, 1, 1, 1)), scale_factor=2.0)
        y = f.adaptive_avg_pool2d(f.hardswish(f.leaky_relu(y, 0.1)), 1).flatten(1)
        z = self.layer(f.gelu(self.linear(y)))
        parts = [
            torch.sigmoid(z),
            torch.tanh(z),
            torch.exp(-z.abs()),
            torch.log1p(z * z),
            torch.sqrt(z * z + 1),
            torch.sin(z),
            torch.cos(z),
            torch.erf(z),
            torch.rsqrt(z.pow(2) + 1),
            torch.clamp(z, -1, 1),
            f.softplus(z),
            f.elu(z),
            f.mish(z),
            torch.floor(z),
            torch.maximum(z, -z),
            torch.minimum(z, z / 2),
            torch.where(z > 0, z, z - 1),
            torch.cumsum(z, 1),
            torch.softmax(z, 1),
            f.log_softmax(z, 1),
            torch.sort(z, 1).values,
            torch.roll(z, 1, 1),
            torch.flip(z, [1]),
            torch.sub(z, 1.0),
            torch.mul(z, 2.0),
            torch.div(z, 3.0),
            torch.square(z),
            torch.atan(z),
            f.normalize(z),
            torch.reciprocal(z.exp() + 1),
            f.hardtanh(z),
            f.selu(z),
            torch.sign(z),
            torch.fmod(z, 0.7),
            f.celu(z),
            f.relu6(z),
        ]
        w = torch.stack(parts).mean(0)
        score = torch.matmul(w, w.t())
        return (
            torch.einsum("ij,jk->ik", score, w).sum()
            + torch.logsumexp(w, 1).mean()
            + torch.var(w)
            + torch.topk(w, 3).values.sum()
        )


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tensor dump of a step of that net."""
    folder = tmp_path_factory.mktemp("fifty")
    torch.manual_seed(0)
    net, debugger = Fifty(), PrecisionDebugger(task="tensor", level="L1", dump_path=folder)
    with debugger(net):
        net(torch.randn(4, 3, 16, 16)).backward()
    return folder


def test_the_precheck_runs_fifty_calls_without_a_device_and_finds_nothing(fifty: Path) -> None:
    rows = check(fifty, Options())
    apis = {row.api for row in rows if row.status in ("pass", "warning")}
    counts = {status: sum(row.status == status for row in rows) for status in ("pass", "warning", "error", "skip")}
    print(f"{len(rows)} results of {len(apis)} APIs: {counts}")
    assert len(apis) >= 50
    assert [(r.call, r.place, r.message) for r in rows if r.status == "error"] == []
    assert sum("gradient" in row.place for row in rows) > 20


@pytest.mark.parametrize("api", ["Torch.softmax.0.forward", "Functional.linear.0.forward", "Functional.gelu.0.forward"])
def test_an_injected_wrong_operator_is_flagged_alone(fifty: Path, api: str, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(fifty, tmp_path / "d")
    file = tmp_path / "d/step0/rank0/dump_tensor_data" / f"{api}.output.0.pt"
    broken = torch.load(file, weights_only=True)
    broken[..., 3] *= 1.05
    file.unlink()
    torch.save(broken, file)  # breaks the link to what the next calls read
    wrong = [row for row in check(tmp_path / "d", Options()) if row.status == "error"]
    assert [row.call for row in wrong] == [api]
    assert wrong[0].cause


def test_the_precheck_of_statistics_draws_its_inputs(tmp_path: Path) -> None:
    net, debugger = small(), PrecisionDebugger(dump_path=tmp_path)
    with debugger(net):
        net(tokens(0))
    rows = check(tmp_path, Options())
    assert rows and all(row.status == "pass" and "drawn" in row.message for row in rows), [
        r for r in rows if r.status != "pass"
    ]


@pytest.mark.seed("P4")
def test_acc_check_as_a_command(fifty: Path, tmp_path: Path) -> None:
    done = command(
        "msprobe", "acc_check", "-api_info", fifty / "step0/rank0/dump.json", "-o", tmp_path, "--only", "Torch.s"
    )
    assert done.code == 0, done.err + done.out
    (table,) = tmp_path.glob("accuracy_checking_details_*.csv")
    with open(table, newline="", encoding="utf-8") as handle:
        assert {row["status"] for row in csv.DictReader(handle)} <= {"pass", "warning"}


def test_a_call_no_dump_may_make_is_never_made(tmp_path: Path) -> None:
    folder = tmp_path / "step0/rank0"
    folder.mkdir(parents=True)
    row = {"input_args": [{"type": "str", "value": "touch harm"}], "input_kwargs": {}, "output": []}
    names = ["Torch.load.0.forward", "Torch.hub.0.forward", "Os.system.0.forward", "Torch.save.0.forward"]
    (folder / "dump.json").write_text(json.dumps({"data": dict.fromkeys(names, row)}))
    assert {r.status for r in check(tmp_path, Options())} == {"skip"}


@pytest.mark.seed("P4")
def test_overflow_check_names_the_origin(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path / "d")
    with debugger():
        x = torch.full((3,), 100.0)
        y = torch.exp(x)  # overflows
        torch.sub(y, y)
    (found,) = origins(tmp_path / "d")
    assert (found.call, found.spread, found.rank) == ("Torch.exp.0.forward", 1, "rank0")
    done = command("msprobe", "overflow_check", "-i", tmp_path / "d", "-o", tmp_path / "o")
    assert done.code == 1 and "Torch.exp.0.forward" in done.out
    assert len(list((tmp_path / "o").glob("anomaly_analyze_*.json"))) == 1


@pytest.mark.provokes("ASC5205")
@pytest.mark.seed("P4")
def test_config_check_grades_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HCCL_DETERMINISTIC", raising=False)
    torch.manual_seed(1)
    (tmp_path / "run.sh").write_text("# --lr 9\npython train.py --lr 1e-4 \\\n  --micro-batch-size 4 --bf16\n")
    batches = [torch.arange(6), {"x": torch.ones(2)}]
    first = snapshot.snapshot(tmp_path / "a.zip", small(), {"seed": 1}, [tmp_path / "run.sh"], batches)
    assert snapshot.difference(first, first) == []
    found = snapshot.load(first)
    assert found["hyperparameters"] == {"lr": "1e-4", "micro_batch_size": "4", "bf16": True, "seed": 1}
    monkeypatch.setenv("HCCL_DETERMINISTIC", "true")
    torch.manual_seed(2)
    second = snapshot.snapshot(tmp_path / "b.zip", small(1), {"seed": 2}, [tmp_path / "run.sh"], batches[::-1])
    differences = snapshot.difference(first, second)
    assert {d.section for d in differences} == {"environment", "hyperparameters", "random", "dataset", "weights"}
    assert {d.name for d in differences if d.section == "hyperparameters"} == {"seed"}
    done = command("msprobe", "config_check", "-c", first, second, "-o", tmp_path / "o")
    assert done.code == 1 and "hyperparameters  error" in done.out and "packages         pass" in done.out
    assert command("msprobe", "config_check", "-d", tmp_path / "run.sh", "-o", tmp_path / "c.zip").code == 0
    assert command("msprobe", "config_check", "-c", tmp_path / "run.sh", second).code == 2
    (tmp_path / "bad.zip").write_bytes(b"PK")
    with pytest.raises(AscError, match="ASC5205"):
        snapshot.load(tmp_path / "bad.zip")


def test_checkpoints_side_by_side(tmp_path: Path) -> None:
    net = small()
    torch.save(net.state_dict(), tmp_path / "a.pt")
    with torch.no_grad():
        net.head.weight += 0.01
    torch.save({**net.state_dict(), "extra": torch.ones(2)}, tmp_path / "b.pt")
    rows = {row.name: row for row in compare(tmp_path / "a.pt", tmp_path / "b.pt")}
    assert rows["head.weight"].l2 == pytest.approx(0.01 * net.head.weight.numel() ** 0.5, rel=1e-3)
    assert (
        rows["embed.weight"].l2 == 0 and rows["embed.weight"].cosine == 1 and rows["extra"].note == "only in the second"
    )
    done = command("msprobe", "config_check", "--compare", tmp_path / "a.pt", tmp_path / "b.pt", "-o", tmp_path)
    assert done.code == 1
    assert (
        json.loads((tmp_path / "ckpt_similarity.json").read_text())["head.weight"]["numel"] == net.head.weight.numel()
    )


def test_parse_turns_dumps_into_arrays(tmp_path: Path) -> None:
    plain = np.arange(12, dtype=np.float16).reshape(3, 4)
    write(tmp_path / "Add.add.1.0.1700000000000000", "add", [DumpTensor(plain, 2)])
    done = command("msprobe", "parse", "-d", tmp_path, "-o", tmp_path / "out")
    assert done.code == 0 and np.array_equal(np.load(tmp_path / "out/add.output.0.npy"), plain)
    assert (
        command(
            "msprobe", "parse", "-d", tmp_path / "Add.add.1.0.1700000000000000", "-t", "bin", "-o", tmp_path / "b"
        ).code
        == 0
    )
    assert (tmp_path / "b/add.output.0.bin").read_bytes() == plain.tobytes()


# --- monitor --------------------------------------------------------------------------------------------------------


def monitored(folder: Path, disturb: Any, steps: int = 12) -> list[Alert]:
    """Train a small net; ``disturb(step, net)`` may change its gradients before the optimiser's step."""
    net = small()
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3)
    with Monitor(net, optimiser, folder, rules=Rules(turbulence=20.0)) as monitor:
        for step in range(steps):
            batch = tokens(step)
            nn.functional.cross_entropy(net(batch).view(-1, WORDS), batch.view(-1)).backward()
            disturb(step, net)
            optimiser.step()
            optimiser.zero_grad()
    return monitor.alerts


@pytest.mark.seed("P4")
def test_a_healthy_training_raises_no_alert(tmp_path: Path) -> None:
    assert monitored(tmp_path, lambda step, net: None) == []
    with open(tmp_path / "gradients.csv", newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert {int(row["step"]) for row in rows} == set(range(12)) and all(float(row["norm"]) > 0 for row in rows)
    written = {f"{kind}.csv" for kind in KINDS} | {"alerts.jsonl", "monitor.html"}
    assert {p.name for p in tmp_path.iterdir()} == written
    assert "exp_avg" in (tmp_path / "optimizer.csv").read_text()


def _scaled(factor: float) -> Any:
    def disturb(step: int, net: Any) -> None:
        if step == 8:
            net.head.weight.grad.mul_(factor)

    return disturb


@pytest.mark.parametrize(
    "factor,rule",
    [(1e3, "turbulence_up"), (1e-3, "turbulence_down"), (float("nan"), "nan"), (1e7, "exploding"), (0.0, "vanishing")],
)
def test_every_rule_raises_its_alert_at_its_step(factor: float, rule: str, tmp_path: Path) -> None:
    alerts = monitored(tmp_path, _scaled(factor), 9)
    mine = [alert for alert in alerts if alert.kind == "gradients"]
    assert {alert.name for alert in mine} == {"head.weight"} and {alert.step for alert in mine} == {8}
    assert rule in {alert.rule for alert in mine}
    logged = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert len(logged) == len(alerts)


def test_the_monitor_changes_nothing(tmp_path: Path) -> None:
    def run(watched: bool) -> torch.Tensor:
        net = small()
        optimiser = torch.optim.AdamW(net.parameters(), 1e-3)
        monitor = Monitor(net, optimiser, tmp_path) if watched else None
        for step in range(4):
            nn.functional.cross_entropy(net(tokens(step)).view(-1, WORDS), tokens(step).view(-1)).backward()
            optimiser.step()
            optimiser.zero_grad()
        if monitor is not None:
            monitor.close()
        return net.head.weight.detach().clone()

    assert torch.equal(run(False), run(True))
