"""Recurrent layers: one GE node with the weights in ONNX's own layout (CommonLSTM, CommonGRU).

CANN's parser makes the same nodes and splits them into DynamicRNN / DynamicGRUV2 later; here they stay whole, so that the
steps keep the wide accumulator and the original weights are in the `.om`.
"""

from __future__ import annotations

from typing import Any

from asc_devkit.ge.desc import Engine
from asc_devkit.ops.catalogue import Cost, Mix
from asc_devkit.ops.declare import CUBE_FLOATS, Attr, rename

_CUBE: dict[str, Any] = {"engine": Engine.CUBE, "cost": Cost.RNN, "mix": Mix.WHITE, "floats": CUBE_FLOATS}
_SHARED = [
    Attr("activation_alpha", "floats"),
    Attr("activation_beta", "floats"),
    Attr("activations", "strs"),
    Attr("clip", "float"),
    Attr("direction", "str", "forward"),
    Attr("hidden_size", "int"),
    Attr("_layout", "int", 0, onnx="layout"),
]
rename("LSTM", "CommonLSTM", inputs="x w r b sequence_lens initial_h initial_c p", outputs="y y_h y_c",
       attrs=[*_SHARED, Attr("input_forget", "int", 0)], **_CUBE)  # fmt: skip
rename("GRU", "CommonGRU", inputs="x w r b sequence_lens initial_h", outputs="y y_h",
       attrs=[*_SHARED, Attr("linear_before_reset", "int", 0)], **_CUBE)  # fmt: skip
