"""The table: which adapter runs for which operator at which opset step.

``UP[op] = ((since, adapter), ...)``: the adapter turns the form before opset ``since`` into that of ``since``; they run
in order. Steps that only widened types or added attributes whose default means the old behaviour need no entry.
``DOWN[op]`` undoes forms newer than the canonical opset. Source: ONNX operator change log (``docs/Changelog.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from asc_devkit.frontends.onnx.upgrade import broadcast, control, down, inputs, normalize, resize
from asc_devkit.frontends.onnx.upgrade.edit import Edit
from asc_devkit.ops.catalogue import CANONICAL_OPSET

Adapter = Callable[[Edit], None]

_GONE: Final = CANONICAL_OPSET + 100  # operators that were removed: converted whatever the model's opset says
_BINARY: Final = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
_REDUCTIONS: Final = tuple(
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)

UP: Final[Mapping[str, tuple[tuple[int, Adapter], ...]]] = {
    **dict.fromkeys(_BINARY, ((7, broadcast.axis_to_unsqueeze),)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), ((13, normalize.flattening_softmax),)),
    **dict.fromkeys(_REDUCTIONS, ((18, inputs.axes_to_input),)),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), ((7, inputs.drop_output_sequence),)),
    "BatchNormalization": (
        (7, normalize.batch_norm_test_mode),
        (9, normalize.batch_norm_spatial),
        (14, normalize.batch_norm_outputs),
    ),
    "Cast": ((6, inputs.cast_type_names),),
    "Clip": ((6, inputs.clip_defaults), (11, inputs.clip_limits)),
    "Concat": ((4, inputs.concat_axis),),
    "DFT": ((20, inputs.dft_axis),),
    "Dropout": ((7, inputs.dropout_test_mode), (12, inputs.dropout_ratio)),
    "Gemm": ((7, broadcast.drop_broadcast),),
    "GlobalLpPool": ((2, inputs.whole_p),),
    "GridSample": ((20, inputs.grid_sample_modes),),
    "GroupNormalization": ((21, normalize.group_norm_per_channel),),
    "LpPool": ((2, inputs.whole_p),),
    "PRelu": ((7, broadcast.slope_per_channel),),
    "Pad": ((2, inputs.paddings_name), (11, inputs.pads_to_input)),
    "ReduceSum": ((13, inputs.axes_to_input),),
    "Reshape": ((5, inputs.shape_to_input),),
    "Resize": ((11, resize.resize_10), (13, resize.resize_11)),
    "RoiAlign": ((16, inputs.roi_align_mode),),
    "Scan": ((9, control.batched_scan),),
    "Scatter": ((_GONE, inputs.scatter_elements),),
    "Selu": ((6, inputs.selu_defaults),),
    "Slice": ((10, inputs.slice_to_inputs),),
    "Split": ((2, inputs.split_1), (13, inputs.split_to_input), (18, inputs.split_num_outputs)),
    "Squeeze": ((13, inputs.axes_to_input),),
    "Tile": ((6, inputs.tile_axis),),
    "TopK": ((10, inputs.k_to_input),),
    "Unsqueeze": ((13, inputs.axes_to_input),),
    "Upsample": ((7, resize.upsample_1), (9, resize.upsample_7), (_GONE, resize.upsample_to_resize)),
}

DOWN: Final[Mapping[str, Adapter]] = {
    "Attention": down.attention,
    "BitShift": down.unsigned_only,
    "Cast": down.round_mode,
    "CastLike": down.round_mode,
    "Mod": down.integer_mod,
    "Range": down.range_stash_type,
    "SpaceToDepth": down.space_to_depth_mode,
    "SwiGLU": down.swiglu,
    "Swish": down.swish,
}
