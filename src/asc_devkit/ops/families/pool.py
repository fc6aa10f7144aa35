"""Pooling over windows and over everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from asc_devkit.ge.desc import Engine
from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import Attr, ge, onnx, outputs_of, rename
from asc_devkit.ops.families.conv import by_axis, by_end, explicit_pads
from asc_devkit.ops.families.steps import squeeze, unsqueeze

_LAYOUT = {2: "NCHW", 3: "NCDHW"}


def _window(e: Emit) -> tuple[dict[str, Any], int]:
    """GE attributes of the window, and the number of spatial axes of the ONNX node."""
    kernel = list(e.attr("kernel_shape"))
    count = len(kernel)
    if count not in (1, 2, 3):
        raise e.reject(f"pooling over {count} axes", "CANN pools over 1, 2 or 3 axes.")
    strides = list(e.attr("strides", [1] * count))
    dilations = list(e.attr("dilations", [1] * count))
    pads = explicit_pads(e, kernel, strides, dilations)
    if count == 1:
        kernel, strides, dilations, pads = [1, *kernel], [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
    found = {
        "ksize": [1, 1, *kernel],
        "strides": [1, 1, *strides],
        "padding_mode": "CALCULATED",
        "pads": by_axis(pads),
        "data_format": _LAYOUT[len(kernel)],
        "global_pooling": 0,
        "ceil_mode": e.attr("ceil_mode", 0),
        "_dilations": dilations if any(d != 1 for d in dilations) else None,
    }
    return found, count


def _max(e: Emit) -> Sequence[ir.Value]:
    attrs, count = _window(e)
    with_indices = e.used(1)
    if with_indices:
        attrs["_storage_order"] = e.attr("storage_order", 0) or None
    ge_type = "MaxPoolWithArgmaxV2" if with_indices else "MaxPool3D" if count == 3 else "MaxPoolV3"
    return _pooled(e, ge_type, attrs, count, 2 if with_indices else 1)


def _average(e: Emit) -> Sequence[ir.Value]:
    attrs, count = _window(e)
    attrs["exclusive"] = 1 - e.attr("count_include_pad", 0)
    return _pooled(e, "AvgPool3D" if count == 3 else "AvgPoolV2", attrs, count, 1)


def _pooled(e: Emit, ge_type: str, attrs: dict[str, Any], count: int, outputs: int) -> Sequence[ir.Value]:
    x, shape = e.need(0), e.out_shape()
    if count > 1:
        return outputs_of(e.op(ge_type, [x], attrs, outputs, shape=shape))
    wide = None if shape is None else (*shape[:2], 1, shape[2])
    results = outputs_of(e.op(ge_type, [unsqueeze(e, x, 2)], attrs, outputs, shape=wide))
    if outputs > 1:
        results[1].dtype = ir.DataType.INT64
    return [squeeze(e, y, 2) for y in results]


def _lower(onnx_type: str) -> Convert:
    def lower(e: Emit) -> Sequence[ir.Value]:
        if e.attr("data_format") not in _LAYOUT.values():
            raise e.reject(f"data_format {e.attr('data_format')} is not channels-first")
        if e.attr("global_pooling"):
            return outputs_of(e.op("Global" + onnx_type, e.inputs))
        mode = e.attr("padding_mode")
        attrs = {
            "kernel_shape": e.attr("ksize")[2:],
            "strides": e.attr("strides")[2:],
            "pads": by_end(e.attr("pads")) if mode == "CALCULATED" else None,
            "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}.get(mode),
            "ceil_mode": e.attr("ceil_mode"),
            "dilations": e.attr("_dilations"),
        }
        if onnx_type == "AveragePool":
            attrs["count_include_pad"] = 1 - e.attr("exclusive")
        else:
            attrs["storage_order"] = e.attr("_storage_order")
        return outputs_of(e.op(onnx_type, e.inputs, attrs, len(e.node.outputs)))

    return lower


_WINDOW = [
    Attr("ksize", "ints"),
    Attr("strides", "ints"),
    Attr("padding_mode", "str", "CALCULATED"),
    Attr("pads", "ints", [0, 0, 0, 0]),
    Attr("data_format", "str", "NCHW"),
    Attr("global_pooling", "bool", 0),
    Attr("ceil_mode", "bool", 0),
    Attr("_dilations", "ints"),
]
_AVERAGE = [*_WINDOW, Attr("exclusive", "bool", 1)]

ge("MaxPoolV3", "x", _lower("MaxPool"), _WINDOW, cost=Cost.POOL, exact=True)
ge("MaxPool3D", "x", _lower("MaxPool"), _WINDOW, cost=Cost.POOL, exact=True)
ge("MaxPoolWithArgmaxV2", "x", _lower("MaxPool"), [*_WINDOW, Attr("_storage_order", "int")],
   outputs="y argmax", cost=Cost.POOL, exact=True)  # fmt: skip
ge("AvgPoolV2", "x", _lower("AveragePool"), _AVERAGE, cost=Cost.POOL)
ge("AvgPool3D", "x", _lower("AveragePool"), _AVERAGE, cost=Cost.POOL)
onnx("MaxPool", _max, "MaxPoolV3", "MaxPool3D", "MaxPoolWithArgmaxV2", "Unsqueeze", "Squeeze")
onnx("AveragePool", _average, "AvgPoolV2", "AvgPool3D", "Unsqueeze", "Squeeze")

rename("GlobalAveragePool", cost=Cost.POOL)
rename("GlobalMaxPool", cost=Cost.POOL, exact=True)
rename("GlobalLpPool", cost=Cost.POOL, attrs=[Attr("p", "int", 2)])

_ONNX_WINDOW = [Attr("kernel_shape", "ints"), Attr("strides", "ints"), Attr("pads", "ints")]
rename(
    "LpPool",
    cost=Cost.POOL,
    attrs=[
        *_ONNX_WINDOW,
        Attr("p", "int", 2),
        Attr("auto_pad", "str", "NOTSET"),
        Attr("ceil_mode", "bool", 0),
        Attr("dilations", "ints"),
    ],
)
rename("MaxUnpool", "MaxUnpool2D", inputs="x argmax output_shape", cost=Cost.AICPU, engine=Engine.AICPU, exact=True,
       attrs=_ONNX_WINDOW)  # fmt: skip
