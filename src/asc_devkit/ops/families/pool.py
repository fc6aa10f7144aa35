"""Pooling over windows and over everything."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import Attr, ge, onnx, outputs_of, rename
from asc_devkit.ops.families.conv import by_axis, by_end, explicit_pads
from asc_devkit.ops.families.steps import int64, scalar_like, squeeze, unsqueeze

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


def _pooled(
    e: Emit, ge_type: str, attrs: dict[str, Any], count: int, outputs: int, source: ir.Value | None = None
) -> Sequence[ir.Value]:
    x, shape = source or e.need(0), e.out_shape()
    if count > 1:
        return outputs_of(e.op(ge_type, [x], attrs, outputs, shape=shape))
    wide = None if shape is None else (*shape[:2], 1, shape[2])
    results = outputs_of(e.op(ge_type, [unsqueeze(e, x, 2)], attrs, outputs, shape=wide))
    if outputs > 1:
        results[1].dtype = ir.DataType.INT64
    return [squeeze(e, y, 2) for y in results]


def _lower(onnx_type: str) -> Convert:
    def lower(e: Emit) -> Sequence[ir.Value]:
        divisor = e.attr("divisor_override")
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
        if divisor:
            return [_window_sum(e, attrs, divisor)]
        if onnx_type == "AveragePool":
            attrs["count_include_pad"] = 1 - e.attr("exclusive")
        else:
            attrs["storage_order"] = e.attr("_storage_order")
        return outputs_of(e.op(onnx_type, e.inputs, attrs, len(e.node.outputs)))

    return lower


def _window_sum(e: Emit, attrs: dict[str, Any], divisor: int) -> ir.Value:
    """Sum of the window / divisor: the average over the full window, padding counted, times its size."""
    if attrs["ceil_mode"]:
        raise e.reject("divisor_override together with ceil_mode")
    average = e.op("AveragePool", e.inputs, {**attrs, "count_include_pad": 1}, shape=e.out_shape())
    return e.op("Mul", [average, scalar_like(average, prod(attrs["kernel_shape"]) / divisor)])


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
_AVERAGE = [*_WINDOW, Attr("exclusive", "bool", 1), Attr("divisor_override", "int", 0)]

ge("MaxPoolV3", "x", _lower("MaxPool"), _WINDOW, cost=Cost.POOL, exact=True)
ge("MaxPool3D", "x", _lower("MaxPool"), _WINDOW, cost=Cost.POOL, exact=True)
ge("MaxPoolWithArgmaxV2", "x", _lower("MaxPool"), [*_WINDOW, Attr("_storage_order", "int")],
   outputs="y argmax", cost=Cost.POOL, exact=True)  # fmt: skip
ge("AvgPoolV2", "x", _lower("AveragePool"), _AVERAGE, cost=Cost.POOL)
ge("AvgPool3D", "x", _lower("AveragePool"), _AVERAGE, cost=Cost.POOL)
onnx("MaxPool", _max, "MaxPoolV3", "MaxPool3D", "MaxPoolWithArgmaxV2", "Unsqueeze", "Squeeze")
onnx("AveragePool", _average, "AvgPoolV2", "AvgPool3D", "Unsqueeze", "Squeeze")


# --- over everything --------------------------------------------------------------------------------------------------


def _global_max(e: Emit) -> ir.Value:
    rank = e.rank(0)
    if rank is None:
        raise e.reject("the number of dimensions is unknown", "Give the model static shapes (--input_shape).")
    return e.op("ReduceMax", [e.need(0), int64(*range(2, rank))], {"keep_dims": 1})


rename("GlobalAveragePool", cost=Cost.POOL)
rename("GlobalLpPool", cost=Cost.POOL, attrs=[Attr("p", "int", 2)])
onnx("GlobalMaxPool", _global_max, "ReduceMax")

# --- LpPool: (sum of |x|^p over the window)^(1/p) ---------------------------------------------------------------------


def _lp_pool(e: Emit) -> ir.Value:
    attrs, count = _window(e)
    if attrs["ceil_mode"]:
        raise e.reject("ceil_mode", "Pad explicitly and use ceil_mode 0.")
    x, p = e.need(0), e.attr("p", 2)
    shape = e.shape(0)
    power = e.op("Abs", [x], shape=shape) if p % 2 else x
    if p == 2:
        power = e.op("Mul", [x, x], shape=shape)
    elif p > 2:
        power = e.op("Pow", [power, scalar_like(x, p)], shape=shape)
    # A divisor of 1 makes the average a sum.
    attrs |= {"exclusive": 0, "divisor_override": 1}
    (total,) = _pooled(e, "AvgPool3D" if count == 3 else "AvgPoolV2", attrs, count, 1, source=power)
    if p == 1:
        return total
    total_shape = e.out_shape()
    if p == 2:
        return e.op("Sqrt", [total], shape=total_shape)
    return e.op("Pow", [total, scalar_like(x, 1 / p)], shape=total_shape)


onnx("LpPool", _lp_pool, "AvgPoolV2", "AvgPool3D", "Abs", "Mul", "Pow", "Sqrt", "Unsqueeze", "Squeeze")

# --- MaxUnpool: the values back to the positions they were taken from, zeros elsewhere --------------------------------


def _max_unpool(e: Emit) -> ir.Value:
    shape, kernel = e.shape(0), list(e.attr("kernel_shape"))
    if shape is None:
        raise e.reject("the input's shape is unknown", "Give the model static shapes (--input_shape).")
    count = len(kernel)
    strides, pads = list(e.attr("strides", [1] * count)), list(e.attr("pads", [0] * (2 * count)))
    spatial = [
        (size - 1) * stride - pads[i] - pads[i + count] + k
        for i, (size, stride, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    ]
    pooled_from = [*shape[:2], *spatial]  # positions count in this tensor
    flat, total = prod(shape), prod(pooled_from)
    x = e.op("Reshape", [e.need(0), int64(flat)], shape=[flat])
    at = e.op("Reshape", [e.need(1), int64(flat)], shape=[flat])
    zeros = e.op("Fill", [int64(total), scalar_like(x, 0)], shape=[total], dtype=x.dtype)
    y = e.op("ScatterElements", [zeros, at, x], {"axis": 0, "reduction": "none"}, shape=[total])
    y = e.op("Reshape", [y, int64(*pooled_from)], shape=pooled_from)
    if e.value(2) is None:
        return y
    target = e.ints(2)
    if target is None:
        raise e.reject("output_shape is computed at run time", "Use a constant output_shape.")
    grow = [b - a for a, b in zip(pooled_from, target, strict=True)]
    if not any(grow):
        return y
    if min(grow) < 0:
        raise e.reject("output_shape is smaller than the pooled tensor", "Correct output_shape.")
    pads_after = int64(*([0] * len(grow)), *grow)
    return e.op("PadV3", [y, pads_after, scalar_like(y, 0)], {"mode": "constant", "paddings_contiguous": 0})


onnx("MaxUnpool", _max_unpool, "Fill", "ScatterElements", "Reshape", "PadV3")
