"""Collecting by module (levels L0 and mix): hooks of ``torch.nn.Module``, and of autograd nodes and parameters for
gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from asc_devkit.training.debugger.apis import tensors

if TYPE_CHECKING:
    from asc_devkit.training.debugger.debugger import PrecisionDebugger


MAX_NODES: Final = 20_000  # of a module's part of the autograd graph that are searched


class ModuleHooks:
    """Hooks on all modules of ``model`` (one or several) below the top; ``inside`` names the module that is running."""

    def __init__(self, debugger: PrecisionDebugger, model: Any) -> None:
        self.debugger = debugger
        self.running: list[str] = []
        self.handles: list[Any] = []
        self.named: list[tuple[str, Any]] = []
        models = model if isinstance(model, (list, tuple)) else [model]
        for place, part in enumerate(models):
            prefix = f"{place}." if len(models) > 1 else ""
            self.named += [(prefix + name, module) for name, module in part.named_modules() if name]

    @property
    def inside(self) -> str | None:
        return self.running[-1] if self.running else None

    def put(self) -> None:
        """Install the hooks; nothing is done when they are installed."""
        if self.handles:
            return
        for name, module in self.named:
            stem = f"Module.{name}.{type(module).__name__}"
            self.handles.append(module.register_forward_pre_hook(self._before(stem), with_kwargs=True))
            self.handles.append(module.register_forward_hook(self._after(stem), with_kwargs=True, always_call=True))
            for parameter_name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad and parameter.is_leaf:
                    hook = self._accumulated(stem, parameter_name)
                    self.handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def take_away(self) -> None:
        """Remove all hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles, self.running = [], []

    def _before(self, stem: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            debugger = self.debugger
            if not debugger.running or getattr(debugger.local, "busy", False) or debugger.writer is None:
                return
            key = f"{stem}.forward.{debugger._count(stem)}"
            debugger.writer.construct[key] = self.inside
            self.running.append(key)
            module._asc_facts = None
            if debugger._wanted(key) and debugger.config.task != "structure":
                with debugger._quiet():
                    named = {k: debugger._value(v, f"{key}.input.{k}", "forward", "input") for k, v in kwargs.items()}
                    module._asc_facts = {
                        "input_args": debugger._values(args, f"{key}.input", "forward", "input"),
                        "input_kwargs": named,
                        "parameters": {
                            name: debugger._tensor(value, f"{key}.parameters.{name}", "forward", "input")
                            for name, value in module.named_parameters(recurse=False)
                        },
                    }

        return hook

    def _after(self, stem: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, result: Any) -> None:
            debugger = self.debugger
            if not self.running or not self.running[-1].startswith(f"{stem}.forward."):
                return
            key = self.running.pop()
            facts = module.__dict__.pop("_asc_facts", None)
            if debugger.writer is None or result is None or not debugger._wanted(key):
                return
            outputs = list(result) if isinstance(result, (list, tuple)) else [result]
            with debugger._quiet():
                if facts is not None:
                    order = {"input_args": facts["input_args"], "input_kwargs": facts["input_kwargs"]}
                    order["output"] = debugger._values(outputs, f"{key}.output", "forward", "output")
                    if facts["parameters"]:
                        order["parameters"] = facts["parameters"]
                    debugger.writer.entry(key, order)
                elif debugger.config.task == "structure":
                    debugger.writer.entry(key, {})
                self._gradients(f"{stem}.backward.{key.rsplit('.', 1)[1]}", [*tensors(args)], [*tensors(outputs)])

        return hook

    def _gradients(self, key: str, inputs: list[Any], outputs: list[Any]) -> None:
        """Gradients at a module's outputs (whole) and at its inputs (what this module contributes)."""
        debugger = self.debugger
        writer = debugger.writer
        if writer is None or debugger.config.task == "structure":
            return
        if not (debugger.config.wants("backward", "input") or debugger.config.wants("backward", "output")):
            return
        facts: dict[str, list[Any]] = {"input": [None] * len(outputs), "output": [None] * len(inputs)}
        missing = 0

        def arrived(side: str, place: int, gradient: Any) -> None:
            nonlocal missing
            missing -= 1
            if debugger.writer is not writer:
                return
            with debugger._quiet():
                facts[side][place] = debugger._tensor(gradient, f"{key}.{side}.{place}", "backward", side)
                writer.unfinished[key] = facts
                if missing == 0:
                    writer.construct[key] = None
                    writer.entry(key, writer.unfinished.pop(key))

        def at_output(place: int) -> Any:
            return lambda gradient: arrived("input", place, gradient)

        for place, tensor in enumerate(outputs):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.grad_fn is not None:
                missing += 1
                debugger.handles.append(tensor.register_hook(at_output(place)))  # type: ignore[no-untyped-call]
        ends = {t.grad_fn for t in inputs if t.grad_fn is not None}
        for place, tensor in enumerate(inputs):
            if tensor.grad_fn is None:
                continue
            edges = _consumers(outputs, tensor, ends)
            if edges:
                missing += 1
                total = _Total(len(edges), debugger, lambda gradient, place=place: arrived("output", place, gradient))
                debugger.handles += [node.register_hook(total.hook(slots)) for node, slots in edges]

    def _accumulated(self, stem: str, name: str) -> Any:
        def hook(parameter: Any) -> None:
            debugger = self.debugger
            if debugger.writer is None or parameter.grad is None or debugger.config.task == "structure":
                return
            count = debugger._count(f"{stem}.parameters_grad.{name}")
            key = f"{stem}.parameters_grad.{count}"
            with debugger._quiet():
                row = debugger._tensor(parameter.grad, f"{key}.{name}", "backward", "output")
                debugger.writer.unfinished.setdefault(key, {})[name] = [row]

        return hook


class _Total:
    """Adds up the gradients that several nodes hand to one tensor, and tells the sum when all have."""

    def __init__(self, parts: int, debugger: PrecisionDebugger, tell: Any) -> None:
        self.parts, self.debugger, self.tell = parts, debugger, tell
        self.sum: Any = None

    def hook(self, slots: list[int]) -> Any:
        def ran(into: Any, out_of: Any) -> None:
            with self.debugger._quiet():
                for slot in slots:
                    if into[slot] is not None:
                        self.sum = into[slot] if self.sum is None else self.sum + into[slot]
            self.parts -= 1
            if self.parts == 0 and self.sum is not None:
                self.tell(self.sum)
                self.sum = None

        return ran


def _consumers(outputs: list[Any], tensor: Any, ends: set[Any]) -> list[tuple[Any, list[int]]]:
    """The autograd nodes between a module's outputs and its input ``tensor`` that read it, with their slots for it.

    ``ends``: nodes that made the module's inputs; the search does not go beyond them.
    """
    wanted = (tensor.grad_fn, tensor.output_nr)
    waiting = [o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    seen = set(waiting)
    found = []
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if node in ends:
            continue
        slots = [slot for slot, edge in enumerate(node.next_functions) if edge == wanted]
        if slots:
            found.append((node, slots))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found
