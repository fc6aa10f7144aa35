"""Input shapes fixed by ``--input_shape`` and outputs chosen by ``--out_nodes``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.onnx.findings import fault
from asc_devkit.frontends.shapes import check_dims

Dynamic = dict[str, tuple[int, ...]]


def bind_shapes(
    model: ir.Model, shapes: Mapping[str, Sequence[int]], warnings: list[str], allow_empty: bool = False
) -> Dynamic:
    """Fix the inputs' open axes in place and report those that stay open (name -> axes; () = rank unknown).

    An axis that shares its symbol with a fixed axis is fixed alike (noted in ``warnings``). -1 leaves an axis open.
    Raises ``AscError`` naming every unknown input, wrong rank and contradiction with a static dimension.
    """
    inputs = {value.name or "": value for value in model.graph.inputs}
    problems: list[Problem] = []
    symbols: dict[str, set[int]] = {}
    for name, given in shapes.items():
        value = inputs.get(name)
        dims = [int(d) for d in given]
        if value is None:
            problems.append(_unknown_input(name, model))
        elif wrong := check_dims(name, dims, allow_empty):
            problems.extend(wrong)
        else:
            problems.extend(_bind(value, dims, symbols))
    if problems:
        raise AscError(problems)
    _follow_symbols(model.graph.inputs, symbols, warnings)
    return {
        value.name or "": tuple(axis for axis, dim in enumerate(value.shape or ()) if not isinstance(dim, int))
        for value in model.graph.inputs
        if (value.type is None or isinstance(value.type, ir.TensorType))
        and (value.shape is None or not value.shape.is_static())
    }


def _bind(value: ir.Value, dims: list[int], symbols: dict[str, set[int]]) -> list[Problem]:
    declared = value.shape
    if declared is None:
        value.shape = ir.Shape([d if d >= 0 else None for d in dims])
        return []
    known = _text(declared)
    if len(declared) != len(dims):
        return [_invalid(value, dims, f"the model's input has {len(declared)} axes {known}, {len(dims)} are given")]
    pairs = list(zip(declared, dims, strict=True))
    wrong = [axis for axis, (old, new) in enumerate(pairs) if isinstance(old, int) and new not in (-1, old)]
    if wrong:
        where = ", ".join(f"axis {axis}: {declared[axis]} in the model, {dims[axis]} given" for axis in wrong)
        return [_invalid(value, dims, f"the model fixes its shape to {known}; {where}")]
    bound: list[int | str | None] = []
    for old, new in pairs:
        if isinstance(old, int):
            bound.append(old)
            continue
        symbol = old.value
        if new >= 0 and symbol:
            symbols.setdefault(symbol, set()).add(new)
        bound.append(new if new >= 0 else symbol)
    value.shape = ir.Shape(bound)
    return []


def _follow_symbols(inputs: Iterable[ir.Value], symbols: dict[str, set[int]], warnings: list[str]) -> None:
    for symbol, sizes in symbols.items():
        if len(sizes) > 1 and _is_name(symbol):
            warnings.append(f"axes named {symbol!r} are given different sizes: {sorted(sizes)}")
    for value in inputs:
        if value.shape is None or value.shape.is_static():
            continue
        dims: list[int | str | None] = []
        for axis, dim in enumerate(value.shape):
            name = None if isinstance(dim, int) else dim.value
            sizes = symbols.get(name or "", set())
            if len(sizes) == 1 and _is_name(name):
                dims.append(next(iter(sizes)))
                warnings.append(f"axis {axis} of input {value.name!r} is {dims[-1]}, like every axis named {name!r}")
            else:
                dims.append(dim if isinstance(dim, int) else name)
        value.shape = ir.Shape(dims)


def _is_name(symbol: str | None) -> bool:
    """Exporters write ``?``, ``-1`` or ``None`` for axes that have nothing in common."""
    return bool(symbol) and symbol not in ("?", "None", "none", "*") and not str(symbol).lstrip("-").isdigit()


def select_outputs(model: ir.Model, wanted: Sequence[str]) -> None:
    """Make the named tensors the model's outputs (``tensor`` or ``node:index``) and drop the nodes they do not need.

    Raises ``AscError`` naming everything that was not found.
    """
    graph = model.graph
    tensors = {v.name: v for v in graph.inputs if v.name} | dict(graph.initializers.items())
    tensors |= {v.name: v for node in graph for v in node.outputs if v.name}
    nodes: dict[str, ir.Node] = {}
    for node in graph:
        nodes.setdefault(node.name or "", node)
    chosen: list[ir.Value] = []
    problems: list[Problem] = []
    for text in dict.fromkeys(item.strip() for item in wanted):
        name, colon, index = text.rpartition(":")
        if text in tensors:
            chosen.append(tensors[text])
        elif colon and name in nodes and index.isascii() and index.isdigit() and len(index) < 6:
            outputs = nodes[name].outputs
            if int(index) < len(outputs) and outputs[int(index)].name:
                chosen.append(outputs[int(index)])
            else:
                problems.append(_out_node(text, f"node {name!r} has {len(outputs)} output(s), counted from 0"))
        else:
            close = _close(text if not colon else name, [*tensors, *nodes])
            problems.append(_out_node(text, "no node (name:index) and no tensor has that name" + close))
    if not chosen and not problems:
        problems.append(_out_node("", "no output is named"))
    if problems:
        raise AscError(problems)
    graph.outputs[:] = chosen
    _remove_unneeded(graph)


def _remove_unneeded(graph: ir.Graph) -> None:
    """Drop nodes and constants that no output depends on (values used inside subgraphs count)."""
    results = set(graph.outputs)
    needed: set[ir.Node] = set()
    stack = [value.producer() for value in graph.outputs]
    while stack:
        node = stack.pop()
        if node is None or node in needed:
            continue
        needed.add(node)
        used = [*node.inputs]
        for sub in _subgraphs(node):
            used += [v for inner in sub.all_nodes() for v in inner.inputs]
            used += sub.outputs
        stack += [v.producer() for v in used if v is not None and v.graph is graph]
    graph.remove([node for node in reversed(list(graph)) if node not in needed], safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in results:
            graph.initializers.pop(name)


def _subgraphs(node: ir.Node) -> Iterable[ir.Graph]:
    for item in node.attributes.values():
        if item.type == ir.AttributeType.GRAPH:
            yield item.as_graph()
        elif item.type == ir.AttributeType.GRAPHS:
            yield from item.as_graphs()


def _unknown_input(name: str, model: ir.Model) -> Problem:
    names = [v.name or "" for v in model.graph.inputs]
    inner = {v.name for node in model.graph for v in node.outputs} | set(model.graph.initializers)
    fix = f"the inputs are: {', '.join(f'{v.name}:{_text(v.shape)}' for v in model.graph.inputs[:20])}"
    if name in inner:
        return fault("E10017", f"--input_shape names {name!r}, which is not an input of the model", fix, name)
    what = f"--input_shape names the input {name!r}, which the model does not have" + _close(name, names)
    return fault("E10016", what, fix, name)


def _invalid(value: ir.Value, dims: list[int], reason: str) -> Problem:
    name = value.name or ""
    what = f"--input_shape '{name}:{','.join(map(str, dims))}' does not fit the model: {reason}"
    return fault("E10001", what, "give every axis of the input; fixed axes keep their size", name)


def _out_node(text: str, reason: str) -> Problem:
    return fault("E10016", f"--out_nodes names {text!r}: {reason}", "look the names up in Netron", text)


def _close(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, [n for n in names if n][:5000], 1, 0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def _text(shape: ir.Shape | None) -> str:
    if shape is None:
        return "of unknown rank"
    return "[" + ",".join(str(d) if isinstance(d, int) else (d.value or "?") for d in shape) + "]"
