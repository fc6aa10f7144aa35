"""``PrecisionDebugger``: collects what the calls and modules of a training step compute, and writes it as the vendor's
tool does.

Statistics are computed where the tensors are and read off in bulk, so no call waits for the device. Nothing is
inserted into the autograd graph: gradients come from hooks on its nodes, and results are bit-identical with and
without the debugger.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from asc_devkit.errors import AscError, Problem
from asc_devkit.training.config import Config, config, load
from asc_devkit.training.debugger.apis import Patches, tensors
from asc_devkit.training.debugger.modules import ModuleHooks
from asc_devkit.training.debugger.values import Measured, Pending, digest, plain
from asc_devkit.training.debugger.writer import StepWriter

FRAMES: Final = 16  # of the program's stack kept for a call
_HERE: Final = str(Path(__file__).parent)


class PrecisionDebugger:
    """Use ``start(model)``, ``stop()`` and ``step()`` around a training step, or ``with debugger(model):`` for all three.

    ``config_path``: a config.json of the vendor's form; ``task``, ``level``, ``dump_path``, ``step`` come before it. Raises
    ``AscError`` for settings that cannot be used.
    """

    _newest: ClassVar[PrecisionDebugger | None] = None

    def __init__(
        self,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        step: list[int | str] | None = None,
    ) -> None:
        facts = load(Path(config_path)) if config_path is not None else {}
        given = {
            "task": task,
            "level": level,
            "step": step,
            "dump_path": str(dump_path) if dump_path is not None else None,
        }
        self.config: Config = config(facts, **given)
        for note in self.config.notes:
            print(f"asc-devkit: config: {note}", file=sys.stderr)
        self.number = 0
        self.running = False
        self.overflows = 0
        self.writer: StepWriter | None = None
        self.counts: dict[str, int] = {}
        self.measured = Measured()
        self.patches = Patches(self._api)
        self.modules: ModuleHooks | None = None
        self.local = threading.local()
        self.handles: list[Any] = []
        self.in_scope = not self.config.scope
        self.unusual: set[str] = set()
        PrecisionDebugger._newest = self
        atexit.register(self._at_exit)

    # --- the program's side ---

    def start(self, model: Any = None) -> None:
        """Collect from here on; ``model`` (a module or several) is needed for the levels L0 and mix. Raises ``AscError``."""
        wanted = not self.config.steps or self.number in self.config.steps
        ranks = not self.config.ranks or rank() in self.config.ranks
        done = self.config.task == "overflow_check" and 0 < self.config.overflow_nums <= self.overflows
        if self.running or not wanted or not ranks or done or self.config.level == "debug":
            return
        if self.writer is None:
            self.writer = self._new_writer()
        if self.config.level in ("L0", "mix"):
            if model is None:
                raise AscError(
                    Problem(
                        "ASC5204",
                        f"The level {self.config.level} needs the model: debugger.start(model).",
                        fix="Give it to start.",
                    )
                )
            if self.modules is None:
                self.modules = ModuleHooks(self, model)
            self.modules.put()
        if self.config.level in ("L1", "mix"):
            self.patches.put()
        self.running = True

    def stop(self) -> None:
        """Collect no more until the next ``start``."""
        if self.running:
            self.patches.take_away()
            self.running = False

    def step(self) -> None:
        """The step is over: write its files and count on."""
        self.stop()
        for handle in self.handles:
            handle.remove()
        self.handles = []
        if self.modules is not None:
            self.modules.take_away()
            self.modules = None
        if self.writer is not None:
            self.writer.close(self._overflown() if self.config.task == "overflow_check" else None)
            self.writer = None
        self.counts.clear()
        self.measured.clear()
        self.in_scope = not self.config.scope
        self.number += 1

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Write one variable (tensor or nested containers) under ``name``, at any level; its gradient too when it comes."""
        if self.writer is None:
            self.writer = self._new_writer()
        number = self._count(f"save.{name}")
        key = f"{name}.{number}.forward"
        with self._quiet():
            self.writer.entry(key, {"output": self._values([variable], f"{key}.output", "forward", "output")})
        for place, tensor in enumerate(tensors(variable)):
            if save_backward and tensor.requires_grad:
                label = f"{name}.{number}.backward"
                self.handles.append(tensor.register_hook(functools.partial(self._gradient, label, place)))

    def _gradient(self, label: str, place: int, gradient: Any) -> None:
        if self.writer is not None:
            with self._quiet():
                self.writer.entry(
                    label, {"output": self._values([gradient], f"{label}.output", "backward", "output", place)}
                )

    def __call__(self, model: Any = None) -> _Collecting:
        """``with debugger(model):`` collects what happens inside and ends the step."""
        return _Collecting(self, model)

    def collect(self, model: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """``@debugger.collect(model)`` makes each call of a function one collected step."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                with self(model):
                    return function(*args, **kwargs)

            return call

        return decorate

    # --- calls ---

    def _api(
        self, kind: str, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A wrapped call: collected when it is an outermost one on tensors."""
        if getattr(self.local, "busy", False) or not self.running or self.writer is None:
            return function(*args, **kwargs)
        self.local.busy = True
        try:
            if not any(True for _ in tensors(args)) and not any(True for _ in tensors(kwargs)):
                return function(*args, **kwargs)
            stem = f"{kind}.{name}"
            number = self._count(stem)
            key = f"{stem}.{number}.forward"
            wanted = self._wanted(key)
            before: dict[str, Any] = {}
            if wanted and self.config.task != "structure":
                named = {k: self._value(v, f"{key}.input.{k}", "forward", "input") for k, v in kwargs.items()}
                before = {"input_args": self._values(args, f"{key}.input", "forward", "input"), "input_kwargs": named}
            result = function(*args, **kwargs)
            if wanted:
                outputs = list(result) if isinstance(result, (list, tuple)) else [result]
                if self.config.task != "structure":
                    before["output"] = self._values(outputs, f"{key}.output", "forward", "output")
                self._enter(key, before)
                self._follow(f"{stem}.{number}.backward", outputs)
            return result
        finally:
            self.local.busy = False

    def _enter(self, key: str, facts: dict[str, Any]) -> None:
        """A finished call: its rows, its parent module, the program's lines that led to it."""
        assert self.writer is not None
        self.writer.entry(key, facts)
        self.writer.construct[key] = self.modules.inside if self.modules is not None else None
        self.writer.stack.setdefault(_frames(), []).append(key)

    def _follow(self, key: str, outputs: list[Any]) -> None:
        """Collect the gradients of a call when its autograd node runs."""
        node = next((o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None), None)
        if node is None or not (self.config.wants("backward", "input") or self.config.wants("backward", "output")):
            return

        def ran(into: tuple[Any, ...], out_of: tuple[Any, ...]) -> None:
            if self.writer is None or self.config.task == "structure":
                return
            with self._quiet():
                facts = {
                    "input": self._values(list(out_of), f"{key}.input", "backward", "input"),
                    "output": self._values(list(into), f"{key}.output", "backward", "output"),
                }
                self.writer.entry(key, facts)
                self.writer.construct[key] = None

        self.handles.append(node.register_hook(ran))

    # --- values ---

    def _values(self, values: Any, label: str, direction: str, side: str, first: int = 0) -> list[Any]:
        return [self._value(value, f"{label}.{i + first}", direction, side) for i, value in enumerate(values)]

    def _value(self, value: Any, label: str, direction: str, side: str, depth: int = 0) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, label, direction, side)
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size) and depth < 4 and len(value) <= 4096:
            return [self._value(item, f"{label}.{i}", direction, side, depth + 1) for i, item in enumerate(value)]
        if isinstance(value, dict) and depth < 4:
            return {str(k): self._value(v, f"{label}.{k}", direction, side, depth + 1) for k, v in value.items()}
        return plain(value)

    def _tensor(self, tensor: Any, label: str, direction: str, side: str) -> Any:
        row = Pending(label, str(tensor.dtype), list(tensor.shape), bool(tensor.requires_grad), None)
        if not self.config.wants(direction, side):
            return row
        if self.config.summary == "md5" and self.config.task == "statistics":
            row.digest = digest(tensor)
        else:
            row.numbers = self.measured.of(tensor)
        if self.config.task == "tensor" and self.writer is not None and not tensor.is_meta:
            row.data_name = self.writer.save(label, tensor)
        return row

    # --- bookkeeping ---

    def _count(self, stem: str) -> int:
        number = self.counts.get(stem, 0)
        self.counts[stem] = number + 1
        return number

    def _wanted(self, key: str) -> bool:
        if self.config.scope:
            first, last = self.config.scope
            if key.startswith(first):
                self.in_scope = True
            elif self.in_scope and key.startswith(last):
                self.in_scope = False
                return True
            if not self.in_scope:
                return False
        return not self.config.names or any(part in key for part in self.config.names)

    def _quiet(self) -> _Quiet:
        return _Quiet(self.local)

    def _new_writer(self) -> StepWriter:
        folder = self.config.dump_path / f"step{self.number}" / f"rank{rank()}"
        return StepWriter(folder, self.config.task, self.config.level, self.config.file_format, self.local)

    def _overflown(self) -> set[str]:
        """Calls that made NaN or infinities from finite inputs."""
        assert self.writer is not None
        self.writer.flush()
        found = {name for name, facts in self.writer.written.items() if overflows(facts)}
        self.overflows += len(found)
        return found

    def _at_exit(self) -> None:
        """The program ends in the middle of a step: what was collected becomes readable."""
        if self.writer is not None:
            self.stop()
            self.writer.close()
            self.writer = None


class _Quiet:
    """Calls inside are the debugger's own and not collected."""

    def __init__(self, local: threading.local) -> None:
        self.local = local
        self.before = False

    def __enter__(self) -> None:
        self.before = getattr(self.local, "busy", False)
        self.local.busy = True

    def __exit__(self, *_: object) -> None:
        self.local.busy = self.before


class _Collecting:
    def __init__(self, debugger: PrecisionDebugger, model: Any) -> None:
        self.debugger, self.model = debugger, model

    def __enter__(self) -> PrecisionDebugger:
        self.debugger.start(self.model)
        return self.debugger

    def __exit__(self, *_: object) -> None:
        self.debugger.stop()
        self.debugger.step()


def overflows(facts: dict[str, Any]) -> bool:
    """Whether a call's outputs are not finite although its inputs are."""

    def finite(value: Any) -> bool:
        if isinstance(value, dict):
            if "Max" in value:
                return all(isinstance(value[k], (int, float, type(None))) for k in ("Max", "Min"))
            return all(map(finite, value.values()))
        return all(map(finite, value)) if isinstance(value, list) else True

    inputs = [facts.get(name) for name in ("input_args", "input_kwargs", "input", "parameters")]
    return all(finite(part) for part in inputs if part is not None) and not finite(facts.get("output", []))


def rank() -> int:
    """This process's rank; 0 when nothing is distributed."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdigit() else 0


_TEXTS: dict[tuple[Any, int], str] = {}


def _frames() -> tuple[str, ...]:
    """The program's stack, innermost first, without this package's own frames."""
    found: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(found) < FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_HERE):
            key = (code, frame.f_lineno)
            text = _TEXTS.get(key)
            if text is None:
                import linecache

                line = linecache.getline(code.co_filename, frame.f_lineno).strip()
                text = _TEXTS[key] = f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {line}"
            found.append(text)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)
