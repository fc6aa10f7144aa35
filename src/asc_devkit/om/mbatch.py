"""Several shapes in one model: one compiled graph per gear as the branches of a ``Case`` operator (the vendor's form).

The root graph has the model's inputs (open axes where gears differ), the extra input ``ascend_mbatch_shape_data`` that
holds the gear's values, a constant with the values of all gears, ``MapIndex`` that finds the gear's number, and ``Case``
with one branch per gear. In files the operators of branch ``i`` carry the suffix ``_ascend_mbatch_batch_i``; in the IR
they have their own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, MAX_BYTES, ORIGIN_TENSOR, Engine, TensorDesc

BATCH, IMAGE, DIMS = 1, 2, 3  # kinds of gears, numbered as in the Case's attribute
DATA: Final = "ascend_mbatch_shape_data"
CONST: Final = "ascend_mbatch_shape_const"
INDEX: Final = "ascend_mbatch_shape_mapindex"
CASE: Final = "ascend_mbatch_shape_case"
COUNT: Final = "batch_num"
VALUES: Final = "pred_value_"
KIND: Final = "mbatch_dynamic_type"
ORDER: Final = "user_designate_shape_order"
PARENT: Final = "_parent_node_index"  # on a branch's Data: which input of the Case it stands for
BRANCH: Final = "branch_"
MAX_GEARS: Final = 256


@dataclass(frozen=True)
class Gears:
    """``values``: per gear what the open axes are set to, in the order of the inputs in ``order`` and of their axes."""

    kind: int
    order: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]


def suffix(index: int) -> str:
    """What names of operators in branch ``index`` end with, in files."""
    return f"_ascend_mbatch_batch_{index}"


def case(graph: ir.Graph) -> ir.Node | None:
    """The operator that chooses the gear; None for static models."""
    return next((node for node in graph if is_case(node)), None)


def is_case(node: ir.Node) -> bool:
    return node.domain == GE_DOMAIN and node.op_type == "Case" and COUNT in node.attributes


def branches(node: ir.Node) -> list[ir.Graph]:
    """The gears' graphs in order."""
    found = [a for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    found.sort(key=lambda a: int(a.name.removeprefix(BRANCH)) if a.name.removeprefix(BRANCH).isdecimal() else 0)
    return [a.as_graph() for a in found]


def gears(node: ir.Node) -> Gears:
    """What the Case says about its gears."""
    rows = [node.attributes.get(f"{VALUES}{i}") for i in range(len(branches(node)))]
    order = node.attributes.get(ORDER)
    return Gears(
        kind=node.attributes[KIND].as_int() if KIND in node.attributes else DIMS,
        order=tuple(order.as_strings()) if order is not None else (),
        values=tuple(tuple(row.as_ints()) if row is not None else () for row in rows),
    )


def largest(model: ir.Model) -> tuple[int, ir.Model] | None:
    """Number and graph of the gear with the largest inputs; None for static models."""
    node = case(model.graph)
    graphs = branches(node) if node is not None else []
    if not graphs:
        return None
    index = max(range(len(graphs)), key=lambda i: sum(_elements(v) for v in graphs[i].inputs))
    return index, ir.Model(graphs[index], ir_version=10)


def _elements(value: ir.Value) -> int:
    return prod(d if isinstance(d, int) else 1 for d in value.shape or ())


def join(models: Sequence[ir.Model], wanted: Gears) -> ir.Model:
    """One root graph over the compiled ``models``, which differ in shapes only."""
    graphs = [model.graph for model in models]
    inputs = [_merged(values) for values in zip(*(g.inputs for g in graphs), strict=True)]
    outputs = [_merged(values) for values in zip(*(g.outputs for g in graphs), strict=True)]
    width = len(wanted.values[0])
    data = _int32(DATA, (width,))
    table = _int32(CONST, (len(models) * width,))
    table.const_value = ir.Tensor(np.array(wanted.values, np.int32).ravel(), name=CONST)
    number = _int32(INDEX, ())
    index = ir.Node(GE_DOMAIN, "MapIndex", [data, table], outputs=[number], name=INDEX)
    index.meta[ENGINE] = Engine.AICPU
    attributes = [
        ir.AttrInt64(COUNT, len(models)),
        ir.AttrInt64(KIND, wanted.kind),
        ir.AttrStrings(ORDER, wanted.order),
        *(ir.AttrInt64s(f"{VALUES}{i}", row) for i, row in enumerate(wanted.values)),
        *(ir.AttrGraph(f"{BRANCH}{i}", graph) for i, graph in enumerate(graphs)),
    ]
    chosen = ir.Node(GE_DOMAIN, "Case", [number, *inputs], attributes, outputs=outputs, name=CASE)
    chosen.meta[ENGINE] = Engine.LOCAL
    root = ir.Graph([*inputs, data], outputs, nodes=[index, chosen], initializers=[table], name="main")
    root.opset_imports.update(graphs[0].opset_imports)
    return ir.Model(root, ir_version=10)


def _int32(name: str, shape: tuple[int, ...]) -> ir.Value:
    value = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT32), shape=ir.Shape(shape))
    value.meta[DESC] = TensorDesc("ND", "ND", shape)
    return value


def _merged(values: Sequence[ir.Value]) -> ir.Value:
    """An input or output of the root: open where the gears differ, with the bytes of the largest."""
    first = values[0]
    made = ir.Value(name=first.name, type=first.type)
    if origin := first.meta.get(ORIGIN_TENSOR):
        made.meta[ORIGIN_TENSOR] = origin
    shapes = [[d if isinstance(d, int) else -1 for d in v.shape] for v in values if v.shape is not None]
    if len(shapes) == len(values) and len({len(s) for s in shapes}) == 1:
        merged = [dims[0] if len(set(dims)) == 1 else -1 for dims in zip(*shapes, strict=True)]
        made.shape = ir.Shape([d if d >= 0 else None for d in merged])
        desc = first.meta.get(DESC)
        if isinstance(desc, TensorDesc):
            made.meta[DESC] = TensorDesc(desc.format, desc.origin_format, tuple(merged), desc.groups)
    if (
        made.dtype is not None
        and made.dtype != ir.DataType.STRING
        and (made.shape is None or not made.shape.is_static())
    ):
        made.meta[MAX_BYTES] = max(
            int(v.meta.get(MAX_BYTES, 0)) or dtypes.nbytes(_elements(v), made.dtype) for v in values
        )
    return made
