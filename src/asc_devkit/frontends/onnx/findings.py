"""What is wrong with a model's structure, gathered so that one run names everything; grouped by kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from asc_devkit.errors import AscError, Problem

SHOWN: Final = 8  # items spelled out in the sentence; the rest is in ``Problem.nodes``
KEPT: Final = 1000

_AGAIN = "export the model again; if it was edited by a script, check that script's result with onnx.checker"

# kind: code, sentence ({n} = how many), probable cause, what to do. Vendor codes where one fits.
KINDS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "dangling": (
        "E16001",
        "{n} tensor(s) are used but neither an input, a weight nor the output of a node",
        "the model was cut or edited, or its weights were left out",
        _AGAIN,
    ),
    "cycle": ("E16001", "the graph has a cycle ({n} nodes)", "a node depends on its own result", _AGAIN),
    "duplicate": (
        "E13009",
        "{n} name(s) are defined more than once",
        "graphs were merged without renaming",
        "give the tensors different names (onnx.compose.add_prefix)",
    ),
    "output": ("E16001", "{n} model output(s) are not produced by any node", "the model was cut", _AGAIN),
    "unnamed": ("E16004", "{n} part(s) of the graph have no name or type", "the file is damaged", _AGAIN),
    "tensor": ("E10041", "{n} weight(s) or constant(s) are damaged", "the file is damaged or was edited", _AGAIN),
    "input_type": (
        "E10001",
        "{n} input(s) or output(s) have a type that cannot be converted",
        "only tensors of numbers and booleans are possible",
        "rewrite the model so that texts, sequences, maps and optionals are not passed in or out",
    ),
    "arity": (
        "E14001",
        "{n} node(s) have the wrong number of inputs or outputs",
        "the model breaks the rules of its opset",
        _AGAIN,
    ),
    "attribute": ("E14002", "{n} attribute(s) are wrong", "the model breaks the rules of its opset", _AGAIN),
    "opset": (
        "E16005",
        "{n} opset import(s) are wrong",
        "every operator domain must be imported once, with a version this toolkit knows",
        "export the model with an opset between 11 and 23",
    ),
    "function": ("E14001", "{n} model-local function(s) cannot be expanded", "", _AGAIN),
    "convert": (
        "E14001",
        "{n} node(s) of an older or newer opset cannot be brought to opset 23 exactly",
        "",
        "export the model with a newer opset (17 or 18 is a good choice)",
    ),
}


class NotText(Exception):
    """A name in the file is not UTF-8; protobuf hands such names over as bytes."""


def text(value: object) -> str:
    """The name if it is one. Raises ``NotText``."""
    if isinstance(value, str):
        return value
    raise NotText(repr(value)[:100])


def fault(code: str, what: str, fix: str, *nodes: str, cause: str = "") -> Problem:
    """A problem of the parse stage; names are shortened to what a terminal can bear."""
    return Problem(code, what, cause, fix, tuple(name[:300] for name in nodes), "EE1001")


@dataclass
class Findings:
    """Faults by kind, in the order found."""

    items: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    extra: list[Problem] = field(default_factory=list)

    def add(self, kind: str, item: str) -> None:
        """Note one fault; ``item`` names the node or tensor and what is wrong with it."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self.items.setdefault(kind, [])
        if len(kept) < KEPT:
            kept.append(item[:400])

    def problems(self) -> list[Problem]:
        """One ``Problem`` per kind."""
        found = list(self.extra)
        for kind, items in self.items.items():
            code, sentence, cause, fix = KINDS[kind]
            count = self.counts[kind]
            shown = "; ".join(items[:SHOWN]) + (f"; ... {count - SHOWN} more" if count > SHOWN else "")
            found.append(fault(code, f"{sentence.format(n=count)}: {shown}", fix, *items, cause=cause))
        return found

    def raise_if_any(self) -> None:
        """Raise ``AscError`` with everything found so far."""
        found = self.problems()
        if found:
            raise AscError(found)
