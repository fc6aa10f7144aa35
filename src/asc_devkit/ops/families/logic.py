"""Comparisons, truth values, bits and selection."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.catalogue import Emit
from asc_devkit.ops.declare import Attr, ge, lower_as, onnx, rename

BOOL = ir.DataType.BOOL

rename("Equal", inputs="x1 x2", exact=True)
rename("Greater", inputs="x1 x2", exact=True)
rename("GreaterOrEqual", "GreaterEqual", inputs="x1 x2", exact=True)
rename("Less", inputs="x1 x2", exact=True)
rename("LessOrEqual", "LessEqual", inputs="x1 x2", exact=True)
rename("And", "LogicalAnd", inputs="x1 x2", exact=True)
rename("Or", "LogicalOr", inputs="x1 x2", exact=True)
rename("Xor", "LogicalXor", inputs="x1 x2", exact=True)
rename("Not", "LogicalNot", exact=True)
rename("BitwiseAnd", inputs="x1 x2", exact=True)
rename("BitwiseOr", inputs="x1 x2", exact=True)
rename("BitwiseXor", inputs="x1 x2", exact=True)
rename("BitwiseNot", "Invert", exact=True)
rename("IsNaN", "IsNan", exact=True)
rename("IsInf", exact=True, attrs=[Attr("_detect_negative", "bool", 1, onnx="detect_negative"),
                                   Attr("_detect_positive", "bool", 1, onnx="detect_positive")])  # fmt: skip
rename("Where", "SelectV2", inputs="condition then else", outputs="result", exact=True)
ge("NotEqual", "x1 x2", lambda e: e.op("Not", [e.op("Equal", e.inputs, dtype=BOOL)]), exact=True)
ge("Select", "condition x1 x2", lower_as("Where"), exact=True)


def _bit_shift(e: Emit) -> ir.Value:
    return e.op("LeftShift" if e.attr("direction") == "LEFT" else "RightShift", e.inputs)


ge("LeftShift", "x y", lambda e: e.op("BitShift", e.inputs, {"direction": "LEFT"}), outputs="z", exact=True)
ge("RightShift", "x y", lambda e: e.op("BitShift", e.inputs, {"direction": "RIGHT"}), outputs="z", exact=True)
onnx("BitShift", _bit_shift, "LeftShift", "RightShift")
