"""What differs between two `.om` files: model attributes, in/outputs, operators of all graphs, weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from asc_devkit.ge import dtypes
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.om import attributes
from asc_devkit.om.reader import OmFile

LONGEST = 120  # characters of a value in a line


@dataclass(frozen=True)
class Difference:
    """``kind``: attribute, input, output, graph, operator or weight; ``what`` says what changed, first -> second."""

    kind: str
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.what}"

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def diff(a: OmFile, b: OmFile) -> list[Difference]:
    """All differences in the order of the file. Sub-graphs are matched by name, operators by name within their graph.

    Addresses in device memory are not compared. Raises ``AscError`` when a file is damaged.
    """
    found = [
        Difference("attribute", key, _change(a.attrs.get(key), b.attrs.get(key)))
        for key in sorted({*a.attrs, *b.attrs})
        if repr(a.attrs.get(key)) != repr(b.attrs.get(key))
    ]
    for kind in ("inputs", "outputs"):
        left, right = getattr(a, kind), getattr(b, kind)
        if len(left) != len(right):
            found.append(Difference(kind[:-1], "list", f"{len(left)} -> {len(right)} tensors"))
        found += [Difference(kind[:-1], x.name, _change(x, y)) for x, y in zip(left, right, strict=False) if x != y]
    left, right = _graphs(a), _graphs(b)
    for name in [*left, *(n for n in right if n not in left)]:
        if name not in left or name not in right:
            found.append(Difference("graph", name, f"only in the {'first' if name in left else 'second'}"))
        else:
            found += _operators(name, (a, left[name]), (b, right[name]))
    return found


def _graphs(model: OmFile) -> dict[str, pb.GraphDef]:
    """Graphs by name; the root graph is called "" (it has the model's name, which may differ)."""
    return {graph.name if index else "": graph for index, graph in enumerate(model.model_def.graph)}


def _operators(graph: str, a: tuple[OmFile, pb.GraphDef], b: tuple[OmFile, pb.GraphDef]) -> Iterator[Difference]:
    left, right = {op.name: op for op in a[1].op}, {op.name: op for op in b[1].op}
    for name in [*left, *(n for n in right if n not in left)]:
        full = f"{graph}/{name}" if graph else name
        if name not in left or name not in right:
            where, kind = ("first", left[name].type) if name in left else ("second", right[name].type)
            yield Difference("operator", full, f"({kind}) only in the {where}")
            continue
        one, two = left[name], right[name]
        changes = list(_changes(one, two))
        if changes:
            yield Difference("operator", full, "; ".join(changes))
        if one.type == two.type == "Const":
            content = _weight((a[0], one), (b[0], two))
            if content:
                yield Difference("weight", full, content)


def _changes(one: pb.OpDef, two: pb.OpDef) -> Iterator[str]:
    if one.type != two.type:
        yield f"type {one.type} -> {two.type}"
    if one.input != two.input:
        yield f"inputs {_change(list(one.input), list(two.input))}"
    for key in sorted({*one.attr, *two.attr}):
        x, y = one.attr.get(key), two.attr.get(key)
        if (one.type, key) != ("Const", "value") and _raw(x) != _raw(y):
            yield f"{key} {_change(*(None if v is None else attributes.python_value(v) for v in (x, y)))}"
    left, right = ([_desc(d) for d in op.output_desc] for op in (one, two))
    if left != right:
        yield f"outputs {_change(left, right)}"


def _raw(value: pb.AttrDef | None) -> bytes | None:
    """Bytes are compared, not messages: NaN equals itself."""
    return None if value is None else value.SerializeToString(deterministic=True)


def _desc(desc: pb.TensorDescriptor) -> str:
    row = dtypes.of_proto(desc.dtype)
    return f"{desc.dtype if row is None else row.name} {desc.layout} {list(desc.shape.dim)}"


def _change(x: Any, y: Any) -> str:
    left, right = (text if len(text) <= LONGEST else text[:LONGEST] + "..." for text in (repr(x), repr(y)))
    return f"{left} -> {right}"


def _weight(a: tuple[OmFile, pb.OpDef], b: tuple[OmFile, pb.OpDef]) -> str:
    """What differs in the content of two constants; empty when nothing does."""
    x, y = _bytes(*a), _bytes(*b)
    if x.size != y.size:
        return f"{x.size} -> {y.size} bytes"
    if np.array_equal(x, y):
        return ""
    one, two = (op.attr["value"].t.desc for _, op in (a, b))
    row = dtypes.of_proto(one.dtype)
    if one.dtype != two.dtype or row is None or row.numpy is None or row.bits < 8 or row.numpy is np.bool_:
        return f"{int((x != y).sum())} of {x.size} bytes differ"
    with np.errstate(all="ignore"):
        left, right = (v.view(row.numpy).astype(np.float64) for v in (x, y))
        gap = np.abs(left - right)
        return f"{int((left != right).sum())} of {left.size} elements differ, by up to {float(np.nanmax(gap)):g}"


def _bytes(model: OmFile, op: pb.OpDef) -> np.ndarray[Any, Any]:
    stored = op.attr["value"].t if "value" in op.attr else pb.TensorDef()
    if stored.data:
        return np.frombuffer(stored.data, np.uint8)
    start, size = max(stored.desc.data_offset, 0), max(stored.desc.weight_size, 0)
    return np.frombuffer(model.weights[start : start + size], np.uint8)
