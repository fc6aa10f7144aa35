"""Python values to ``onnx_ir`` attributes, by declared kind (GE) or by the value's own type (ONNX)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx_ir as ir

_T = ir.AttributeType


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


_BY_KIND: Final[dict[str, tuple[ir.AttributeType, Callable[[Any], Any]]]] = {
    "int": (_T.INT, int),
    "bool": (_T.INT, int),
    "dtype": (_T.INT, int),
    "float": (_T.FLOAT, float),
    "str": (_T.STRING, str),
    "ints": (_T.INTS, _ints),
    "bools": (_T.INTS, _ints),
    "floats": (_T.FLOATS, lambda values: tuple(float(v) for v in values)),
    "strs": (_T.STRINGS, lambda values: tuple(str(v) for v in values)),
    "tensor": (_T.TENSOR, lambda value: ir.tensor(value) if isinstance(value, np.ndarray) else value),
    "graph": (_T.GRAPH, lambda value: value),
}


def typed(name: str, value: Any, kind: str) -> ir.Attr:
    """Attribute of a declared kind (see ``GeOp.attrs``)."""
    kind_type, convert = _BY_KIND[kind]
    return ir.Attr(name, kind_type, convert(value))


def plain(name: str, value: Any) -> ir.Attr:
    """Attribute of the kind the Python value has; an empty list counts as integers."""
    return typed(name, value, _kind(value))


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        first = value[0] if value else 0
        return _kind(first) + "s"
    if isinstance(value, int | np.integer):
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    if isinstance(value, str):
        return "str"
    return "graph" if isinstance(value, ir.Graph) else "tensor"
