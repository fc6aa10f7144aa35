"""Canonical form to opset 18: most later changes only added element types; the few others are undone or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import onnx_ir as ir
from onnx import defs

from asc_devkit.frontends.onnx.findings import Findings
from asc_devkit.frontends.onnx.names import Names
from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal
from asc_devkit.frontends.onnx.upgrade.types import Types
from asc_devkit.ops.acceptance import NEWEST_OPSET
from asc_devkit.ops.catalogue import CANONICAL_OPSET

_HALF: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
IR_VERSION: Final = 8  # the one that came with opset 18


def downgrade(model: ir.Model, names: Names) -> dict[str, str]:
    """Bring every standard node to ``NEWEST_OPSET`` in place; why a node cannot be, by its name."""
    refused: dict[str, str] = {}
    types = Types(Findings())
    for graph in list(model.graphs()):
        for node in list(graph):
            if node.domain:
                continue
            edit = Edit(node, types, names, [])
            try:
                special = _SPECIAL.get(node.op_type)
                if special is not None:
                    special(edit)
                _check(edit)
            except Refusal as refusal:
                refused[node.name or ""] = str(refusal)
    model.graph.opset_imports[""] = NEWEST_OPSET
    model.ir_version = IR_VERSION
    return refused


def _check(e: Edit) -> None:
    """Compare a node with its operator's form at opset 18; drops attributes that only say the default."""
    node = e.node
    try:
        form = defs.get_schema(node.op_type, NEWEST_OPSET, "")
    except defs.SchemaError:
        raise Refusal(f"the operator came after opset {NEWEST_OPSET}") from None
    newer = defs.get_schema(node.op_type, CANONICAL_OPSET, "")
    for name in [n for n in node.attributes if n not in form.attributes]:
        declared: Any = newer.attributes[name].default_value
        if not declared.name or ir.serde.deserialize_attribute(declared).value != node.attributes[name].value:
            raise Refusal(f"its attribute {name} came with opset {newer.since_version}")
        node.attributes.pop(name)
    if len(node.inputs) > form.max_input:
        raise Refusal(f"its input {form.max_input} came with opset {newer.since_version}")
    strange = _strange(node, form)
    if strange and {dtype for _, dtype in strange} <= _HALF and not _strange(node, form, as_float=True):
        _widen(e)
        return
    for what, dtype in strange:
        raise Refusal(f"it {what} {dtype.name}, which its form at opset {NEWEST_OPSET} does not")


def _strange(node: ir.Node, form: Any, as_float: bool = False) -> list[tuple[str, ir.DataType]]:
    """Inputs and outputs of element types that ``form`` does not have; ``as_float``: if 16-bit floats were float32."""
    found = []
    for values, ports, what in ((node.inputs, form.inputs, "takes"), (node.outputs, form.outputs, "makes")):
        for index, value in enumerate(values):
            port = ports[min(index, len(ports) - 1)] if ports else None
            if port is None or value is None or value.dtype is None or not isinstance(value.type, ir.TensorType):
                continue
            dtype = ir.DataType.FLOAT if as_float and value.dtype in _HALF else value.dtype
            if f"tensor({dtype.name.lower()})" not in port.types:
                found.append((what, dtype))
    return found


def _widen(e: Edit) -> None:
    """Compute in float32: casts around the node."""
    e.inputs(
        *(
            e.before("Cast", [v], {"to": int(ir.DataType.FLOAT)}) if v is not None and v.dtype in _HALF else v
            for v in e.node.inputs
        )
    )
    if any(v.dtype in _HALF and e.is_used(i) for i, v in enumerate(e.node.outputs) if i):
        raise Refusal("it makes several 16-bit outputs, possible since a later opset")
    dtype = e.node.outputs[0].dtype
    if dtype in _HALF:
        e.after("Cast", attrs={"to": int(dtype)})
        e.node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)


def _batch_first(e: Edit) -> None:
    """``layout`` 1: the vendor's parser and ONNX Runtime know time-first sequences only."""
    if not e.pop("layout", 0):
        return
    states = (0, 5, 6)
    e.inputs(
        *(
            e.before("Transpose", [v], {"perm": [1, 0, 2]}) if v is not None and i in states else v
            for i, v in enumerate(e.node.inputs)
        )
    )
    for index, output in enumerate(list(e.node.outputs)):
        if not e.is_used(index):
            continue
        perm = [2, 0, 1, 3] if index == 0 else [1, 0, 2]
        turned = ir.Node(
            "", "Transpose", [], [ir.AttrInt64s("perm", perm)], name=e.names.node(f"{e.node.name}/Transpose")
        )
        result, name = turned.outputs[0], output.name
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        turned.resize_inputs(1)
        turned.replace_input_with(0, output)
        output.name = e.names.value(f"{e.node.name}/output_{index}")
        result.name, result.type, result.shape = name, output.type, output.shape
        output.shape = None
        e.graph.insert_after(e.node, turned)


def _cast(e: Edit) -> None:
    """``saturate`` speaks of 8-bit floats only, which opset 18 has not."""
    e.pop("saturate")
    e.pop("round_mode")


def _grid_sample(e: Edit) -> None:
    """20 renamed the modes and added volumes."""
    if len(e.shape(0) or (0,) * 4) != 4:
        raise Refusal("it samples volumes (opset 20)")
    mode = e.attr("mode", "linear")
    e.set("mode", {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def _average_pool(e: Edit) -> None:
    """19 added dilations."""
    if any(d != 1 for d in e.pop("dilations", ())):
        raise Refusal("its windows are dilated (opset 19)")


def _pad(e: Edit) -> None:
    if e.attr("mode", "constant") == "wrap":
        raise Refusal("it wraps around (opset 19)")


def _resize(e: Edit) -> None:
    if e.attr("coordinate_transformation_mode") == "half_pixel_symmetric":
        raise Refusal("it uses half_pixel_symmetric (opset 19)")


def _reduce_booleans(e: Edit) -> None:
    """20 added booleans: as uint8, largest is any and smallest is all."""
    if e.dtype(0) == ir.DataType.BOOL:
        narrow = e.before("Cast", [e.input(0)], {"to": int(ir.DataType.UINT8)})
        e.inputs(narrow, *e.node.inputs[1:])
        e.node.outputs[0].type = None
        e.after("Cast", attrs={"to": int(ir.DataType.BOOL)})


_SPECIAL: Final[Mapping[str, Callable[[Edit], None]]] = {
    "AveragePool": _average_pool,
    "Cast": _cast,
    "CastLike": _cast,
    "GRU": _batch_first,
    "GridSample": _grid_sample,
    "LSTM": _batch_first,
    "Pad": _pad,
    "ReduceMax": _reduce_booleans,
    "ReduceMin": _reduce_booleans,
    "Resize": _resize,
}
