"""Casts that change nothing, or that a single Cast can do."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.passes.declare import NodePass, Outcome
from asc_devkit.passes.editor import Editor
from asc_devkit.passes.no_ops import bypass

_INTEGER_BITS = {
    ir.DataType.INT8: (True, 8),
    ir.DataType.INT16: (True, 16),
    ir.DataType.INT32: (True, 32),
    ir.DataType.INT64: (True, 64),
    ir.DataType.UINT8: (False, 8),
    ir.DataType.UINT16: (False, 16),
    ir.DataType.UINT32: (False, 32),
    ir.DataType.UINT64: (False, 64),
}
# Mantissa bits (implicit one included) and exponent bits.
_FLOAT_BITS = {
    ir.DataType.FLOAT16: (11, 5),
    ir.DataType.BFLOAT16: (8, 8),
    ir.DataType.FLOAT: (24, 8),
    ir.DataType.DOUBLE: (53, 11),
}


def holds(wide: ir.DataType | None, narrow: ir.DataType | None) -> bool:
    """True when every value of ``narrow`` is a value of ``wide``."""
    if wide is None or narrow is None:
        return False
    if wide == narrow or narrow == ir.DataType.BOOL:
        return True
    if wide in _INTEGER_BITS and narrow in _INTEGER_BITS:
        (ws, wb), (ns, nb) = _INTEGER_BITS[wide], _INTEGER_BITS[narrow]
        return wb >= nb if ws == ns else ws and wb > nb
    if wide in _FLOAT_BITS and narrow in _FLOAT_BITS:
        return all(w >= n for w, n in zip(_FLOAT_BITS[wide], _FLOAT_BITS[narrow], strict=True))
    if wide in _FLOAT_BITS and narrow in _INTEGER_BITS:
        signed, bits = _INTEGER_BITS[narrow]
        return bits - signed <= _FLOAT_BITS[wide][0] and bits < 1 << (_FLOAT_BITS[wide][1] - 1)
    return False


class CastRemove(NodePass):
    """Cast(x) to the dtype of x -> x; Cast(Cast(x)) -> Cast(x) when the inner one loses nothing."""

    name = "CastRemovePass"
    ops = ("Cast", "CastLike")

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        x, out = node.inputs[0], node.outputs[0]
        if x is None or x.dtype is None or out.dtype is None:
            return Outcome.NONE
        if x.dtype == out.dtype:
            return bypass(node, ed)
        inner = ed.producer(x, "Cast")
        source = inner.inputs[0] if inner is not None else None
        if source is None or not holds(x.dtype, source.dtype) or not ed.dominates(source, node):
            return Outcome.NONE
        if source.dtype == out.dtype:
            ed.alias(out, source)
        else:
            ed.replace(out, ed.op("Cast", [source], {"to": int(out.dtype)}, name=node.name or ""))
        return Outcome.CHANGED
