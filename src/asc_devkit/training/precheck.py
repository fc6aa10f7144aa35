"""Operator pre-check without a device: every dumped call is executed again on the CPU, in float64 and in its own type.

The dumped result is judged against the float64 one by the standard of the operator's class; the error of the CPU in the same
type stands beside it, which tells a limit of the type from a wrong operator. Calls of a statistics dump have no
elements: inputs are drawn within the dumped range, and the call itself (does it run, does it stay finite) is checked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from asc_devkit.errors import AscError
from asc_devkit.precision.operator import Report, compare
from asc_devkit.precision.sources import open_file
from asc_devkit.training import dump
from asc_devkit.training.debugger.apis import KINDS, collected, names

MAX_ELEMENTS: Final = 1 << 28
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Check:
    """One output of one call. ``status``: pass, warning, error, or skip with the reason in ``message``."""

    call: str
    api: str
    place: str
    status: str
    message: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    rule: str = ""
    cosine: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    cpu_max_rel: float | None = None
    npu_max_rel: float | None = None
    cause: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "shape": list(self.shape)}


@dataclass
class Options:
    """``standard``: acceptance standard; ``seed`` of drawn inputs; ``virtual_npu``: name of a chip to run each call on too."""

    standard: str = "standard"
    seed: int = 0
    virtual_npu: str = ""
    only: tuple[str, ...] = field(default=())


def check(path: Path, options: Options, tell: Callable[[str, float], None] = lambda what, share: None) -> list[Check]:
    """Check all API calls of the dumps at or below ``path``. Raises ``AscError`` when there is no dump."""
    found: list[Check] = []
    files = dump.find(path)
    for file in files:
        entries = list(dump.calls(file))
        backward = {(c.kind, c.api, c.number): c for c in entries if c.direction == "backward"}
        forward = [c for c in entries if c.direction == "forward" and c.kind != "Module"]
        for place, call in enumerate(forward):
            if options.only and not any(part in call.name for part in options.only):
                continue
            tell(call.name, place / len(forward))
            found += _checked(call, backward.get((call.kind, call.api, call.number)), options)
    return found


def _checked(call: dump.Call, backward: dump.Call | None, options: Options) -> Iterator[Check]:
    function = functions().get((call.kind, call.api))
    if function is None:
        yield Check(call.name, call.api, "", "skip", "no call of torch has this name")
        return
    try:
        replay = _Replay(call, options.seed)
    except (AscError, _Unreadable) as error:
        yield Check(call.name, call.api, "", "skip", str(error))
        return
    if call.api in names()["random"]:
        yield Check(call.name, call.api, "", "skip", "its result is random")
        return
    try:
        high = replay.run(function, torch.float64)
        same = replay.run(function, None)
    except Exception as error:  # whatever torch raises for these arguments
        yield Check(call.name, call.api, "", "error", f"it does not run on the CPU: {str(error).splitlines()[0][:200]}")
        return
    npu = _on_npu(function, replay, options.virtual_npu) if options.virtual_npu else []
    dumped = list(dump.rows(call.facts.get("output")))
    for place, (wide, narrow) in enumerate(zip(high.outputs, same.outputs, strict=True)):
        row = dumped[place] if place < len(dumped) else {}
        actual = replay.elements(row) if replay.real else None
        yield _judged(call, f"output.{place}", wide, narrow, actual, npu[place] if place < len(npu) else None, options)
    if backward is not None and replay.real:
        yield from _backward(call, backward, replay, high, same, options)


def _judged(
    call: dump.Call, place: str, wide: Any, narrow: Any, actual: Array | None, npu: Array | None, options: Options
) -> Check:
    golden, cpu = wide.detach().numpy(), narrow.detach()
    if golden.dtype.kind == "f" and cpu.dtype is not torch.float64:
        golden = golden.astype(np.float64)
    own = str(cpu.dtype).removeprefix("torch.")
    row = Check(call.name, call.api, place, "pass", dtype=own, shape=tuple(cpu.shape))
    reference = compare(golden, cpu, call.api, criterion=options.standard)
    row = replace(row, cpu_max_rel=reference.metrics.max_rel)
    if npu is not None and npu.size == golden.size:
        simulated = compare(golden, npu.reshape(golden.shape), call.api, criterion=options.standard)
        row = replace(row, npu_max_rel=simulated.metrics.max_rel)
    if actual is None:
        healthy = not cpu.is_floating_point() or bool(torch.isfinite(cpu.to(torch.float64)).all())
        row = replace(row, status="pass" if healthy else "warning")
        return _with(row, reference, "drawn inputs; the CPU's result" + ("" if healthy else " is not finite"))
    if actual.shape != golden.shape:
        return replace(row, status="error", message=f"the dumped result has the shape {list(actual.shape)}")
    found = compare(golden, actual, call.api, criterion=options.standard)
    status, message = found.level, "; ".join(found.reasons)
    if status == "error" and not reference.passed and found.metrics.max_rel <= 2 * reference.metrics.max_rel:
        status, message = "warning", f"{message}; the CPU in the same type is as far off: a limit of the type"
    return _with(replace(row, status=status), found, message)


def _with(row: Check, report: Report, message: str) -> Check:
    m = report.metrics
    cause = report.cause.kind if report.cause is not None and row.status == "error" else ""
    return replace(
        row, message=message, rule=report.rule, cosine=m.cosine, max_abs=m.max_abs, max_rel=m.max_rel, cause=cause
    )


def _backward(
    call: dump.Call, backward: dump.Call, replay: _Replay, high: _Run, same: _Run, options: Options
) -> Iterator[Check]:
    """Gradients of the call's tensor arguments, where the call is one node of autograd and shapes tell them apart."""
    if not high.one_node:
        return
    gradients = [replay.elements(row) for row in dump.rows(backward.facts.get("input"))]
    if not gradients or any(g is None for g in gradients):
        return
    wide, narrow = (run.gradients(gradients) for run in (high, same))
    for place, row in enumerate(dump.rows(backward.facts.get("output"))):
        actual = replay.elements(row)
        fitting = [
            i for i, g in enumerate(wide) if g is not None and actual is not None and tuple(g.shape) == actual.shape
        ]
        if actual is None or len(fitting) != 1 or narrow[fitting[0]] is None:
            continue
        yield _judged(backward, f"gradient.{place}", wide[fitting[0]], narrow[fitting[0]], actual, None, options)


@functools.lru_cache(maxsize=1)
def functions() -> dict[tuple[str, str], Callable[..., Any]]:
    """Calls that may be replayed, by kind and name: those the debugger collects, and no other."""
    places = dict(KINDS)
    return {(kind, name): getattr(places[kind], name) for kind, _, name in collected()}


class _Unreadable(Exception):
    """An argument that cannot be built from its row."""


@dataclass
class _Run:
    """Outputs of one execution and the tensor arguments that take gradients."""

    outputs: list[Any]
    leaves: list[Any]

    @property
    def one_node(self) -> bool:
        """Whether the call is a single node of autograd, whose gradients are the call's."""
        nodes = {o.grad_fn for o in self.outputs if o.grad_fn is not None}
        return len(nodes) == 1 and all(
            following is None or hasattr(following, "variable")
            for node in nodes
            for following, _ in node.next_functions
        )

    def gradients(self, into: list[Array | None]) -> list[Any]:
        """Gradients of the leaves for these gradients of the outputs (None where there is none)."""
        pairs = [
            (o, g)
            for o, g in zip(self.outputs, into, strict=False)
            if o.requires_grad and g is not None and g.size == o.numel()
        ]
        if not pairs or not self.leaves:
            return [None] * len(self.leaves)
        found = torch.autograd.grad(
            [o for o, _ in pairs],
            self.leaves,
            [torch.from_numpy(np.array(g, np.float64)).reshape(o.shape).to(o.dtype) for o, g in pairs],
            allow_unused=True,
        )
        return list(found)


class _Replay:
    """Arguments of a call, built anew for each run. ``real``: the dump holds their elements."""

    def __init__(self, call: dump.Call, seed: int) -> None:
        self.call = call
        self.generator = np.random.default_rng([seed, abs(hash(call.name)) % (1 << 32)])
        rows = [*dump.rows(call.facts.get("input_args")), *dump.rows(call.facts.get("input_kwargs"))]
        self.real = bool(rows) and all("data_name" in row for row in rows)
        self.built: dict[int, Array] = {}
        for row in rows:
            self.built[id(row)] = self._made(row)

    def elements(self, row: dict[str, Any]) -> Array | None:
        """Elements of a dumped tensor, None when they were not dumped."""
        name = row.get("data_name")
        if not isinstance(name, str):
            return None
        file, _, member = name.partition("/")
        base = self.call.folder if member else self.call.folder / "dump_tensor_data"
        if Path(file).name != file or file in ("", ".", ".."):
            raise _Unreadable(f"{name!r} is outside the dump")
        refs = open_file(base / file)
        if member:
            refs = [ref for ref in refs if ref.name == member.removesuffix(".npy")]
        if not refs or refs[0].size > MAX_ELEMENTS:
            raise _Unreadable(f"the elements of {name!r} are missing or too many")
        return np.asarray(refs[0].array())

    def _made(self, row: dict[str, Any]) -> Array:
        shape = row.get("shape")
        if (
            not isinstance(shape, list)
            or not all(type(d) is int and d >= 0 for d in shape)
            or math.prod(shape) > MAX_ELEMENTS
        ):
            raise _Unreadable("an argument has an absurd shape")
        if self.real:
            found = self.elements(row)
            assert found is not None
            return found
        low, high = (float(row.get(key) or 0.0) for key in ("Min", "Max"))
        if not math.isfinite(low) or not math.isfinite(high):
            raise _Unreadable("its inputs are not finite")
        kind = str(row["dtype"])
        if "int" in kind or "bool" in kind:
            return self.generator.integers(int(low), int(high), shape, endpoint=True)
        return self.generator.uniform(low, max(high, low), shape)

    def run(self, function: Callable[..., Any], wide: Any) -> _Run:
        """Execute; ``wide`` replaces floating types shorter than it."""
        leaves: list[Any] = []

        def build(value: Any) -> Any:
            if isinstance(value, list):
                return [build(item) for item in value]
            if not isinstance(value, dict):
                return value
            if "dtype" in value and "shape" in value:
                return self._tensor(value, wide, leaves)
            return _plain(value) if "type" in value else {k: build(v) for k, v in value.items()}

        args = [build(item) for item in self.call.facts.get("input_args", [])]
        kwargs = {k: build(v) for k, v in self.call.facts.get("input_kwargs", {}).items()}
        if wide is not None:
            kwargs = {k: wide if isinstance(v, torch.dtype) and v.is_floating_point else v for k, v in kwargs.items()}
        if self.call.api.endswith("_") and not self.call.api.endswith("__"):
            args = [
                a.clone() if isinstance(a, torch.Tensor) else a for a in args
            ]  # in-place calls on leaves are refused
        result = function(*args, **kwargs)
        outputs = [
            r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)
        ]
        return _Run(outputs, leaves)

    def _tensor(self, row: dict[str, Any], wide: Any, leaves: list[Any]) -> Any:
        kind = getattr(torch, str(row["dtype"]).removeprefix("torch."), None)
        if not isinstance(kind, torch.dtype):
            raise _Unreadable(f"{row['dtype']} is no type of torch")
        array = self.built[id(row)]
        whole = array.astype(np.float64) if array.dtype.kind not in "biuc" else array
        made = torch.from_numpy(np.array(whole, order="C")).reshape(row["shape"]).to(kind)
        if wide is not None and made.is_floating_point():
            made = made.to(wide)
        if row.get("requires_grad") and made.is_floating_point():
            made = made.detach().requires_grad_()
            leaves.append(made)
        return made


def _plain(row: dict[str, Any]) -> Any:
    kind, value = row["type"], row.get("value")
    if kind == "torch.dtype":
        found = getattr(torch, str(value).removeprefix("torch."), None)
        if not isinstance(found, torch.dtype):
            raise _Unreadable(f"{value!r} is no type of torch")
        return found
    if kind == "torch.device":
        return torch.device("cpu")
    if kind == "torch.Size":
        return torch.Size(value or [])
    if kind == "slice":
        return slice(*value) if isinstance(value, list) and len(value) == 3 else slice(None)
    if kind in ("int", "float", "bool", "str"):
        return float(value) if kind == "float" and isinstance(value, str) else value
    if kind == "ellipsis":
        return ...
    raise _Unreadable(f"an argument is a {kind}, which a dump does not hold")


def _feed(array: Array) -> Any:
    kind = torch.int64 if array.dtype.kind in "biu" else torch.float32
    return torch.from_numpy(np.ascontiguousarray(array if array.dtype.kind in "biu" else array.astype(np.float32))).to(
        kind
    )


def _on_npu(function: Callable[..., Any], replay: _Replay, chip: str) -> list[Array]:
    """The call on the virtual NPU, by way of a module that makes it; nothing where it cannot be converted."""
    import tempfile

    from asc_devkit import npu
    from asc_devkit.atc.modules import convert_module

    tensors = [np.asarray(a) for a in replay.built.values()]
    captured = replay

    class One(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            waiting = iter(inputs)

            def build(value: Any) -> Any:
                if isinstance(value, list):
                    return [build(item) for item in value]
                if isinstance(value, dict):
                    if "dtype" in value and "shape" in value:
                        return next(waiting)
                    return _plain(value) if "type" in value else {k: build(v) for k, v in value.items()}
                return value

            args = [build(item) for item in captured.call.facts.get("input_args", [])]
            kwargs = {k: build(v) for k, v in captured.call.facts.get("input_kwargs", {}).items()}
            return function(*args, **kwargs)

    feeds = tuple(_feed(tensor) for tensor in tensors)
    try:
        with tempfile.TemporaryDirectory(prefix="asc-check-") as folder:
            result = convert_module(One(), feeds, output=Path(folder) / "one", soc_version=chip)
            session = npu.load(result.om_path, threads=1, cache=False)
            named = {info.name: feed.numpy() for info, feed in zip(session.inputs, feeds, strict=True)}
            return [np.asarray(value) for value in session.run(named).values()]
    except Exception:  # exporters and converters refuse in many ways; the column stays empty
        return []
