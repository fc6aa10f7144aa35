"""Operators that only the compiled graph has: conversions between device formats, which execution does not see."""

from __future__ import annotations

from asc_devkit.ops.catalogue import Cost
from asc_devkit.ops.declare import ANY_FLOATS, Attr, ge, lower_as

ge(
    "TransData",
    "src",
    lower_as("Identity"),
    [Attr("src_format", "str", onnx=""), Attr("dst_format", "str", onnx="")],
    "dst",
    cost=Cost.TRANSPOSE,
    exact=True,
    floats=ANY_FLOATS,
)
