"""Optional values that are known to be there: the value itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal


def _present(e: Edit) -> ir.Value:
    """The value inside input 0; refuses when it may be absent."""
    value = e.input(0)
    if value is None:
        raise Refusal("the optional is empty")
    maker = value.producer()
    if maker is not None and maker.op_type == "Optional":
        if not maker.inputs or maker.inputs[0] is None:
            raise Refusal("the optional is empty")
        return maker.inputs[0]
    if isinstance(value.type, ir.OptionalType) or value.type is None:
        raise Refusal("whether the optional holds a value is known at run time only")
    return value


def get_element(e: Edit) -> None:
    e.rename("Identity", [_present(e)])


def has_element(e: Edit) -> None:
    try:
        _present(e)
        found = True
    except Refusal:
        value = e.input(0)
        maker = None if value is None else value.producer()
        if value is not None and not (maker is not None and maker.op_type == "Optional"):
            raise
        found = False
    e.rename("Identity", [np.array(found)])


RULES = {"OptionalGetElement": get_element, "OptionalHasElement": has_element}
