"""What a frozen graph contains, read without TensorFlow: nodes, inputs, possible outputs, and what makes it unfit.

Field numbers (facts of TensorFlow's file format): GraphDef: node 1, library 2. NodeDef: name 1, op 2, input 3, attr 5.
Map entry: key 1, value 2. AttrValue: shape 7, tensor 8. TensorProto: tensor_shape 2. TensorShapeProto: dim 2,
unknown_rank 3. Dim: size 1. FunctionDefLibrary: function 1. FunctionDef: node_def 3.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Final

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.wire_format import Wire, WireFault

MAX_NODES: Final = 500_000
MAX_CONSTANT: Final = 1 << 31
MAX_TEXT: Final = 4096

_VARIABLES: Final = frozenset({"VarHandleOp", "VariableV2", "Variable", "ReadVariableOp", "AutoReloadVariable"})
_FILES: Final = frozenset(
    {
        "ReadFile", "WriteFile", "MatchingFiles", "Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice",
        "PyFunc", "PyFuncStateless", "EagerPyFunc", "FixedLengthRecordReader", "TFRecordReader", "WholeFileReader",
        "TextLineReader", "TFRecordDataset", "TextLineDataset", "DebugIdentity", "DebugIdentityV2", "PrintV2",
    }
)  # fmt: skip
_NO_OUTPUT: Final = frozenset({"NoOp", "Assert", "Const", "Placeholder", "Print", "PrintV2", "CheckNumerics"})


#: Labels of nodes by what stands against their conversion.
Kinds = dict[str, list[str]]


@dataclass
class Node:
    """A node of the graph: operator, data inputs by node name, and the shape of a placeholder (None: unknown rank)."""

    name: str
    op: str
    inputs: list[str] = field(default_factory=list)
    shape: tuple[int, ...] | None = None
    calls: set[str] = field(default_factory=set)


@dataclass
class FrozenGraph:
    """The graph by node name, in file order."""

    nodes: dict[str, Node]

    def outputs(self, wanted: Sequence[str] | None) -> list[str]:
        """Node names (``name`` or ``name:index``) to convert: ``wanted`` checked, or the nodes nothing depends on.

        Raises ``AscError`` (E10016) with every name that does not exist.
        """
        if wanted:
            unknown = [w for w in wanted if _node_of(w) not in self.nodes]
            if unknown:
                raise AscError([self._no_node(name) for name in unknown])
            return list(dict.fromkeys(w.strip() for w in wanted))
        used = {name for node in self.nodes.values() for name in node.inputs}
        found = [n.name for n in self.nodes.values() if n.name not in used and n.op not in _NO_OUTPUT]
        if not found:
            raise AscError(_problem("E12004", "the graph has no output", "name one with --out_nodes", ()))
        return found

    def inputs_of(self, outputs: Sequence[str]) -> list[Node]:
        """The placeholders that the outputs depend on, in file order."""
        seen: set[str] = set()
        stack = [_node_of(o) for o in outputs]
        while stack:
            name = stack.pop()
            if name not in seen and name in self.nodes:
                seen.add(name)
                stack += self.nodes[name].inputs
        return [n for n in self.nodes.values() if n.op == "Placeholder" and n.name in seen]

    def _no_node(self, name: str) -> Problem:
        near = difflib.get_close_matches(_node_of(name), list(self.nodes)[:5000], 1, 0.5)
        hint = f"; did you mean '{near[0]}:0'?" if near else ""
        fix = "look the names up in Netron; TensorFlow outputs are written node:index"
        return _problem("E10016", f"--out_nodes names {name!r}, which the graph does not have{hint}", fix, (name,))


def _node_of(text: str) -> str:
    name, colon, index = text.strip().rpartition(":")
    return name if colon and index.isdigit() else text.strip()


def read(data: bytes | mmap, name: str) -> FrozenGraph:
    """Read and judge a binary GraphDef. Raises ``AscError``: damaged, not frozen, or with operators that touch files."""
    try:
        graph, problems = _walk(Wire(data))
    except WireFault as error:
        cause = "an interrupted download or copy" if error.truncated else "the file is damaged or no frozen graph"
        what = f"{name!r} cannot be read as a TensorFlow graph: {error.what} (at byte {error.offset} of {len(data)})"
        raise AscError(_problem("E10041", what, "freeze or fetch the file again", (name,), cause)) from error
    if not graph.nodes and not problems:
        what = f"{name!r} cannot be read as a TensorFlow graph: there is no node in it"
        problems.append(_problem("E10041", what, "give the frozen graph (.pb), not a checkpoint or text file", (name,)))
    if problems:
        raise AscError(problems)
    return graph


def _walk(wire: Wire) -> tuple[FrozenGraph, list[Problem]]:
    graph = FrozenGraph({})
    kinds: Kinds = {"variable": [], "file": [], "large": [], "twice": []}
    functions: dict[str, _Function] = {}
    for number, start, end in wire.messages(0, len(wire.data)):
        if number == 1:
            node = _node(wire, start, end, kinds)
            if node.name in graph.nodes:
                kinds["twice"].append(node.name)
            if len(graph.nodes) >= MAX_NODES:
                raise WireFault(f"more than {MAX_NODES} nodes", start)
            graph.nodes[node.name] = node
        elif number == 2:
            for part, a, b in wire.messages(start, end):
                if part == 1:
                    function = _function(wire, a, b)
                    functions[function.name] = function
    _add_called(graph, functions, kinds)
    sentences = {
        "variable": ("E12004", "the graph is not frozen: it holds variables", "freeze it: variables become constants"),
        "file": ("E12004", "the graph holds operators that read files or call Python", "export only the network"),
        "large": ("E12004", "the graph holds constants of impossible size", "freeze or fetch the file again"),
        "twice": ("E13009", "names are used for several nodes", "freeze the graph again"),
    }
    problems = []
    for kind, names in kinds.items():
        if names:
            code, what, fix = sentences[kind]
            problems.append(_problem(code, f"{what}: {', '.join(names[:8])}", fix, tuple(names[:1000])))
    return graph, problems


@dataclass
class _Function:
    """A function of the library: what it calls, and what of it stands against conversion. Many are left over and unused."""

    name: str = ""
    calls: set[str] = field(default_factory=set)
    kinds: Kinds = field(default_factory=lambda: {"variable": [], "file": [], "large": [], "twice": []})


def _function(wire: Wire, start: int, end: int) -> _Function:
    made = _Function()
    for number, a, b in wire.messages(start, end):
        if number == 1:
            for inner, c, d in wire.messages(a, b):
                if inner == 1:
                    made.name = _text(wire, c, d)
        elif number == 3:
            made.calls |= _node(wire, a, b, made.kinds).calls
    return made


def _add_called(graph: FrozenGraph, functions: dict[str, _Function], kinds: Kinds) -> None:
    """Take in what stands against the functions that the graph calls, directly or not."""
    waiting = [name for node in graph.nodes.values() for name in (*node.calls, node.op) if name in functions]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        waiting += functions[name].calls
        for kind, labels in functions[name].kinds.items():
            kinds[kind] += labels


def _node(wire: Wire, start: int, end: int, kinds: Kinds) -> Node:
    node = Node("", "")
    attributes = []
    for number, a, b in wire.messages(start, end):
        if number in (1, 2, 3):
            text = _text(wire, a, b)
            if number == 1:
                node.name = text
            elif number == 2:
                node.op = text
            elif not text.startswith("^"):
                node.inputs.append(_node_of(text))
        elif number == 5:
            attributes.append((a, b))
    for a, b in attributes:
        _attribute(wire, a, b, node, kinds)
    label = f"{node.name} ({node.op})"
    if node.op in _VARIABLES:
        kinds["variable"].append(label)
    elif node.op in _FILES:
        kinds["file"].append(label)
    return node


def _attribute(wire: Wire, start: int, end: int, node: Node, kinds: Kinds) -> None:
    key, value = "", (0, 0)
    for number, a, b in wire.messages(start, end):
        if number == 1:
            key = _text(wire, a, b)
        elif number == 2:
            value = (a, b)
    for number, a, b in wire.messages(*value):
        if number == 7 and key == "shape" and node.op == "Placeholder":
            node.shape = _shape(wire, a, b)
        elif number == 10:  # a function
            node.calls |= {_text(wire, c, d) for part, c, d in wire.messages(a, b) if part == 1}
        elif number == 8:
            for part, c, d in wire.messages(a, b):
                if part == 2:
                    dims = _shape(wire, c, d) or ()
                    if any(x < 0 for x in dims) or math.prod(dims) > MAX_CONSTANT:
                        kinds["large"].append(f"{node.name} {list(dims)[:8]}")


def _shape(wire: Wire, start: int, end: int) -> tuple[int, ...] | None:
    """Dimensions, -1 for open ones; None for unknown rank."""
    dims: list[int] = []
    for number, kind, a, b in wire.fields(start, end):
        if number == 3 and kind == 0 and a:
            return None
        if number == 2 and kind == 2:
            size = 0
            for inner, inner_kind, value, _ in wire.fields(a, b):
                if inner == 1 and inner_kind == 0:
                    size = value - (1 << 64) if value >= 1 << 63 else value
            dims.append(size)
    return tuple(dims)


def _text(wire: Wire, start: int, end: int) -> str:
    if end - start > MAX_TEXT:
        raise WireFault("a name that is too long", start)
    try:
        return bytes(wire.view[start:end]).decode()
    except UnicodeDecodeError:
        raise WireFault("a name that is not UTF-8 text", start) from None


def _problem(code: str, what: str, fix: str, nodes: tuple[str, ...], cause: str = "") -> Problem:
    return Problem(code, what, cause, fix, tuple(n[:300] for n in nodes), "EE1001")
