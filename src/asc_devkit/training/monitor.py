"""Follows a training from step to step: weights, gradients, activations, optimiser state, with rules that raise alerts.

Statistics go to ``<out>/<kind>.csv`` (one row a step and name), alerts to ``alerts.jsonl`` and to stderr, and a page
(``monitor.html``) that shows both is written again every ``page_every`` steps. Numbers are read off the device once a step.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

import torch

from asc_devkit import files
from asc_devkit.training.debugger.debugger import rank
from asc_devkit.training.debugger.values import read

KINDS: Final = ("weights", "gradients", "activations", "optimizer")
COLUMNS: Final = ("step", "rank", "name", "min", "max", "mean", "norm", "nans", "zeros")
MAX_NAMES: Final = 5000
HISTORY: Final = 200  # points a curve of the page keeps


@dataclass(frozen=True)
class Rules:
    """When an alert is raised. ``turbulence``: the norm leaves [history / f, history * f], either way; ``exploding`` and
    ``vanishing``: limits of a gradient's norm; ``dead``: share of zeros in an activation. ``warmup``: steps whose
    history is not yet trusted.
    """

    turbulence: float = 10.0
    exploding: float = 1e4
    vanishing: float = 1e-9
    dead: float = 0.999
    warmup: int = 3
    memory: float = 0.9  # weight of the past in the history


@dataclass(frozen=True)
class Alert:
    """One broken rule: ``rule`` is nan, infinite, turbulence_up, turbulence_down, exploding, vanishing or dead."""

    step: int
    kind: str
    name: str
    rule: str
    value: float
    expected: float

    def __str__(self) -> str:
        return f"step {self.step}: {self.kind} {self.name}: {self.rule} ({self.value:.4g}, {self.expected:.4g} before)"

    def as_dict(self) -> dict[str, Any]:
        """JSON form; numbers that are not finite as text."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("value", "expected"):
            if facts[name] - facts[name] != 0:
                facts[name] = str(facts[name])
        return facts


@dataclass
class Monitor:
    """``Monitor(model, optimizer)`` collects at every ``optimizer.step()``. ``kinds``: which of ``KINDS``; ``every``: only each
    n-th step; ``on_alert``: called with each ``Alert``. Use as a context manager, or call ``close`` at the end.
    """

    model: Any
    optimizer: Any
    out: Path | str = "monitor"
    kinds: tuple[str, ...] = KINDS
    every: int = 1
    page_every: int = 20
    rules: Rules = field(default_factory=Rules)
    on_alert: Callable[[Alert], None] | None = None
    alerts: list[Alert] = field(default_factory=list)
    step: int = 0

    def __post_init__(self) -> None:
        self.folder = Path(self.out)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.history: dict[tuple[str, str], tuple[float, int]] = {}
        self.curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.waiting: list[tuple[str, str, tuple[Any, ...], Any, Any, int]] = []
        self.files: dict[str, TextIO] = {}
        self.log = open(self.folder / "alerts.jsonl", "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self.parameters = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad][:MAX_NAMES]
        self.handles = [
            self.optimizer.register_step_pre_hook(lambda *_: self._before()),
            self.optimizer.register_step_post_hook(lambda *_: self._after()),
        ]
        if "activations" in self.kinds:
            for name, module in self.model.named_modules():
                if name and not any(True for _ in module.children()):
                    self.handles.append(module.register_forward_hook(self._activation(name)))

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hooks, write the page, close the files."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        if not self.log.closed:
            self.page()
            for open_file in (*self.files.values(), self.log):
                open_file.close()

    # --- collecting ---

    @property
    def _due(self) -> bool:
        return self.step % self.every == 0

    def _activation(self, name: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, result: Any) -> None:
            if self._due and isinstance(result, torch.Tensor) and module.training:
                self._take("activations", name, result)

        return hook

    def _before(self) -> None:
        """The gradients are whole: collect them before the optimiser uses them up."""
        if self._due and "gradients" in self.kinds:
            for name, parameter in self.parameters:
                if parameter.grad is not None:
                    self._take("gradients", name, parameter.grad)

    def _after(self) -> None:
        if self._due:
            for name, parameter in self.parameters:
                if "weights" in self.kinds:
                    self._take("weights", name, parameter)
                if "optimizer" in self.kinds:
                    for key, value in self.optimizer.state.get(parameter, {}).items():
                        if isinstance(value, torch.Tensor) and value.dim():
                            self._take("optimizer", f"{name}.{key}", value)
            self._write()
        self.step += 1
        if self.step % self.page_every == 0:
            self.page()

    def _take(self, kind: str, name: str, tensor: Any) -> None:
        data = tensor.detach()
        if data.numel() == 0 or not data.is_floating_point():
            return
        if data.element_size() < 4:
            data = data.float()
        low, high = torch.aminmax(data)
        numbers = (low, high, data.mean(), torch.linalg.vector_norm(data))
        self.waiting.append((kind, name, numbers, torch.isnan(data).sum(), (data == 0).sum(), data.numel()))

    def _write(self) -> None:
        rows, self.waiting = self.waiting, []
        values = read([row[2] for row in rows])
        counts = torch.stack([torch.stack((row[3], row[4])) for row in rows]).tolist() if rows else []
        for (kind, name, _, _, _, size), numbers, (nans, zeros) in zip(rows, values, counts, strict=True):
            self._row(kind, name, numbers, int(nans), int(zeros))
            self._judge(kind, name, numbers[3], int(nans), zeros / size)
        for open_file in (*self.files.values(), self.log):
            open_file.flush()

    def _row(self, kind: str, name: str, numbers: tuple[float, ...], nans: int, zeros: int) -> None:
        open_file = self.files.get(kind)
        if open_file is None:
            open_file = self.files[kind] = open(self.folder / f"{kind}.csv", "w", newline="", encoding="utf-8")  # noqa: SIM115
            csv.writer(open_file).writerow(COLUMNS)
        csv.writer(open_file).writerow([self.step, rank(), name, *(f"{v:.9g}" for v in numbers), nans, zeros])
        curve = self.curves.setdefault((kind, name), [])
        curve.append((self.step, numbers[3]))
        if len(curve) > HISTORY:
            del curve[::2]  # older points get sparser

    # --- rules ---

    def _judge(self, kind: str, name: str, norm: float, nans: int, zeros: float) -> None:
        past, count = self.history.get((kind, name), (norm, 0))
        finite = norm - norm == 0
        broken = list(self._broken(kind, norm, nans, zeros, past, count, finite))
        for rule, value in broken:
            alert = Alert(self.step, kind, name, rule, value, past)
            self.alerts.append(alert)
            self.log.write(json.dumps(alert.as_dict()) + "\n")
            print(f"asc-devkit: {alert}", file=sys.stderr)
            if self.on_alert is not None:
                self.on_alert(alert)
        if finite:
            kept = norm if count == 0 else self.rules.memory * past + (1 - self.rules.memory) * norm
            self.history[(kind, name)] = (kept, count + 1)

    def _broken(
        self, kind: str, norm: float, nans: int, zeros: float, past: float, count: int, finite: bool
    ) -> Iterable[tuple[str, float]]:
        rules = self.rules
        if nans:
            yield "nan", float(nans)
        elif not finite:
            yield "infinite", norm
        if not finite:
            return
        if kind == "gradients":
            if norm > rules.exploding:
                yield "exploding", norm
            elif norm < rules.vanishing:
                yield "vanishing", norm
        if kind == "activations" and zeros > rules.dead:
            yield "dead", zeros
        if count >= rules.warmup and past > 0 and kind != "optimizer":
            if norm > rules.turbulence * past:
                yield "turbulence_up", norm
            elif norm * rules.turbulence < past:
                yield "turbulence_down", norm

    # --- page ---

    def page(self) -> Path:
        """Write ``monitor.html``: alerts, and the norm of everything over the steps, filtered by name."""
        from asc_devkit.report.monitor_page import render

        curves = [{"kind": kind, "name": name, "points": points} for (kind, name), points in self.curves.items()]
        path = self.folder / "monitor.html"
        files.write_text(
            path, render({"step": self.step, "alerts": [a.as_dict() for a in self.alerts[-500:]], "curves": curves})
        )
        return path
