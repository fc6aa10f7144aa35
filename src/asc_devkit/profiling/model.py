"""Profiling one model from Python: ``profile_model`` runs it and writes the tree."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asc_devkit import npu, om
from asc_devkit import soc as chips
from asc_devkit.npu import tensor_files
from asc_devkit.npu.feeds import Inputs
from asc_devkit.profiling import collecting
from asc_devkit.profiling.collect import watch


@dataclass(frozen=True)
class ModelProfile:
    """A profile of one model. ``device_us`` is simulated time of one execution, ``host_us`` the measured median."""

    model: str
    soc: str
    tree: Path
    files: tuple[Path, ...]
    executions: int
    device_us: float
    host_us: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "model": self.model,
            "soc": self.soc,
            "folder": str(self.tree),
            "files": [str(f) for f in self.files],
            "executions": self.executions,
            "device_us": {"value": self.device_us, "basis": "simulated"},
            "host_us": {"value": self.host_us, "basis": "measured on this CPU, not NPU time"},
        }

    def text(self) -> str:
        """A few lines for the terminal."""
        lines = [
            f"{self.model} on {self.soc}: {self.device_us:.3f} us per execution (simulated)",
            f"host: {self.host_us:.1f} us per execution (measured on this CPU, not NPU time), {self.executions} executions",
            str(self.tree),
        ]
        return "\n".join([*lines, *(f"  {f.relative_to(self.tree)}" for f in self.files)])


def profile_model(
    model: str | Path,
    output: str | Path,
    *,
    inputs: Inputs | None = None,
    loop: int = 10,
    soc: str = "",
    settings: Mapping[str, str] | None = None,
    seed: int = 0,
) -> ModelProfile:
    """Execute the ``.om`` ``loop`` times with collection on and write its tree below ``output``.

    ``inputs``: arrays by name (default: random numbers from ``seed``); ``soc``: the chip to simulate (default: the one the
    model was converted for); ``settings``: options of ``msprof`` by name. Raises ``AscError`` for bad files and settings.
    """
    file = om.read(model)
    chip = chips.resolve(soc or str(file.attrs.get("soc_version", ""))).soc.name
    times: list[int] = []
    with collecting(output, settings) as profile:
        started = time.monotonic_ns()
        session = npu.load(file)
        watched = watch.model(file, str(model), chip)
        watched.called("aclmdlLoadFromFile", started, time.monotonic_ns())
        fixed = session.fixed_inputs()
        feed: Any = inputs if inputs is not None else tensor_files.random_inputs(fixed, seed)
        gear = getattr(session, "largest", None)
        for _ in range(loop):
            started = time.monotonic_ns()
            session.run(feed)
            ended = time.monotonic_ns()
            times.append(ended - started)
            watched.executed(started, ended, gear)
    assert profile.tree is not None  # collections from Python always leave a tree
    return ModelProfile(
        model=str(model),
        soc=chip,
        tree=profile.tree,
        files=tuple(profile.files),
        executions=loop,
        device_us=watched.estimate(gear).total_us,
        host_us=sorted(times)[len(times) // 2] / 1e3,
    )
