"""Adapters that move attributes to inputs, rename them, or write out a default that has changed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

_FLOAT_MAX = float(np.finfo(np.float32).max)


def _int64(values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def axes_to_input(e: Edit) -> None:
    """Squeeze, Unsqueeze, Reduce*: ``axes`` became input 1; absent or empty means all axes as before."""
    axes = e.pop("axes")
    e.inputs(e.input(0), _int64(axes) if axes else None)


def shape_to_input(e: Edit) -> None:
    e.inputs(e.input(0), _int64(e.pop("shape", ())))


def k_to_input(e: Edit) -> None:
    e.inputs(e.input(0), _int64([e.pop("k")]))


def paddings_name(e: Edit) -> None:
    e.set("pads", e.pop("paddings"))


def pads_to_input(e: Edit) -> None:
    value = e.pop("value", 0.0)
    constant = e.before("CastLike", [np.array(value, np.float32), e.input(0)]) if value else None
    e.inputs(e.input(0), _int64(e.pop("pads")), _scalar(e, value) if value else constant)


def _scalar(e: Edit, value: float) -> ir.Value | np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """A scalar constant of the type of input 0, which is converted at run time when the type is unknown."""
    dtype = e.dtype(0)
    if dtype is None:
        return e.before("CastLike", [np.array(value, np.float32), e.input(0)])
    if dtype == ir.DataType.BFLOAT16 or dtype.is_floating_point():
        return np.array(value, np.float32).astype(dtype.numpy())
    if not float(value).is_integer():
        raise Refusal(f"its constant {value} does not fit the element type {dtype.name}")
    return np.array(int(value)).astype(dtype.numpy())


def clip_defaults(e: Edit) -> None:
    """Clip-1 had no default limits, Clip-6 has the float range: the same thing."""


def clip_limits(e: Edit) -> None:
    low, high = e.pop("min", -_FLOAT_MAX), e.pop("max", _FLOAT_MAX)
    e.inputs(
        e.input(0),
        _scalar(e, low) if low > -_FLOAT_MAX else None,
        _scalar(e, high) if high < _FLOAT_MAX else None,
    )


def concat_axis(e: Edit) -> None:
    e.set("axis", e.attr("axis", 1))


def cast_type_names(e: Edit) -> None:
    """Cast-1 named its target type by text."""
    name = str(e.pop("to"))
    if name == "UNDEFINED" or name not in dict(onnx.TensorProto.DataType.items()):
        raise Refusal(f"it casts to the unknown type {name!r}")
    e.set("to", onnx.TensorProto.DataType.Value(name))


def dft_axis(e: Edit) -> None:
    e.inputs(e.input(0), e.input(1), _int64(e.pop("axis", 1)))


def dropout_test_mode(e: Edit) -> None:
    if not e.pop("is_test", 0):
        e.warnings.append(f"Dropout {e.node.name!r} is in training mode (is_test=0); it is taken as inference, a copy")


def dropout_ratio(e: Edit) -> None:
    """At inference the ratio has no effect. The mask of Dropout-7 had the type of the data."""
    e.pop("ratio")
    version = e.node.version or 0
    if version < 10 and e.is_used(1):
        raise Refusal("its mask output is used")


def whole_p(e: Edit) -> None:
    p = e.pop("p", 2.0)
    if not float(p).is_integer():
        raise Refusal(f"the exponent p={p} is not a whole number")
    e.set("p", int(p))
    if e.node.op_type == "LpPool" and e.attr("kernel_shape") is None:
        raise Refusal("its kernel_shape is missing")


def grid_sample_modes(e: Edit) -> None:
    mode = e.attr("mode", "bilinear")
    e.set("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def drop_output_sequence(e: Edit) -> None:
    """Whether output 0 is wanted is told by its use; ``direction`` had a misspelt default."""
    e.pop("output_sequence")
    if e.attr("direction") == "foward":
        e.set("direction", "forward")


def roi_align_mode(e: Edit) -> None:
    """RoiAlign-10 did not shift by half a pixel; since 16 that is ``output_half_pixel``, no longer the default."""
    if e.attr("coordinate_transformation_mode") is None:
        e.set("coordinate_transformation_mode", "output_half_pixel")


def scatter_elements(e: Edit) -> None:
    e.node.op_type = "ScatterElements"


def selu_defaults(e: Edit) -> None:
    """Selu-1 had shorter default coefficients."""
    e.set("alpha", e.attr("alpha", 1.6732))
    e.set("gamma", e.attr("gamma", 1.0507))


def slice_to_inputs(e: Edit) -> None:
    starts, ends, axes = e.pop("starts"), e.pop("ends"), e.pop("axes")
    if len(starts) != len(ends) or (axes is not None and len(axes) != len(starts)):
        raise Refusal("starts, ends and axes differ in length")
    e.inputs(e.input(0), _int64(starts), _int64(ends), _int64(axes) if axes else None)


def split_1(e: Edit) -> None:
    """Split-1 took its sizes as attribute or as a (float) input, and had no default axis: 0 as in Split-2."""
    if e.input(1) is not None:
        sizes = e.const(1)
        if sizes is None:
            raise Refusal("its split sizes are computed")
        e.set("split", [int(s) for s in sizes.reshape(-1)])
        e.inputs(e.input(0))


def split_to_input(e: Edit) -> None:
    split = e.pop("split")
    e.inputs(e.input(0), _int64(split) if split else None)


def split_num_outputs(e: Edit) -> None:
    """Since Split-18 the number of equal parts is said, not counted."""
    if e.input(1) is None:
        e.set("num_outputs", len(e.node.outputs))


def tile_axis(e: Edit) -> None:
    """Tile-1 repeated along one axis."""
    tiles, axis = e.const(1), e.const(2)
    if tiles is None or axis is None or tiles.size != 1 or axis.size != 1:
        raise Refusal("its tiles and axis are not constant")
    rank = e.rank(0, "the repeats of all axes")
    position = int(axis.reshape(-1)[0])
    if not -rank <= position < rank:
        raise Refusal(f"its axis {position} lies outside rank {rank}")
    repeats = np.ones(rank, np.int64)
    repeats[position] = int(tiles.reshape(-1)[0])
    e.inputs(e.input(0), repeats)
