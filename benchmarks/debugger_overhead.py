"""What collecting costs: a training step of a 4-layer transformer with and without ``PrecisionDebugger``, one thread.

    python benchmarks/debugger_overhead.py [--steps 7]

Prints the median step and its ratio to the plain one, for each level and task; plain steps are measured between the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from asc_devkit.training import PrecisionDebugger

KINDS = [("statistics", level, "pt") for level in ("L0", "L1", "mix")]
KINDS += [("tensor", level, form) for level in ("L1", "mix") for form in ("pt", "container")]


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.first(x)).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.feed(self.second(x))


class Transformer(nn.Module):
    """Token embedding, ``layers`` blocks, output layer."""

    def __init__(self, width: int = 256, heads: int = 8, layers: int = 4, words: int = 1000) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def stepper(net: nn.Module, words: int = 1000) -> Callable[[], float]:
    """A function that trains one step (batch 8 x 128) and returns the loss."""
    optimiser = torch.optim.AdamW(net.parameters(), 1e-4)
    tokens = torch.randint(0, words, (8, 128), generator=torch.Generator().manual_seed(0))

    def step() -> float:
        loss = nn.functional.cross_entropy(net(tokens).view(-1, words), tokens.view(-1))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=7)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Transformer()
    step = stepper(net)
    for _ in range(3):
        step()
    with tempfile.TemporaryDirectory() as folder:
        for task, level, form in KINDS:
            settings = Path(folder) / "config.json"
            settings.write_text(json.dumps({"task": task, "level": level, task: {"file_format": form}}))
            debugger = PrecisionDebugger(settings, dump_path=Path(folder) / f"{task}_{level}_{form}")
            plain, collected = [], []
            for _ in range(steps):
                begun = time.perf_counter()
                step()
                middle = time.perf_counter()
                debugger.start(net)
                step()
                debugger.stop()
                debugger.step()
                plain.append(middle - begun)
                collected.append(time.perf_counter() - middle)
            a, b = statistics.median(plain), statistics.median(collected)
            name = f"{task:10} {level:3} {form if task == 'tensor' else '':9}"
            print(f"{name}: {a * 1e3:6.0f} ms plain, {b * 1e3:6.0f} ms collected, ratio {b / a:.2f}", flush=True)


if __name__ == "__main__":
    main()
