"""Recurrent layers: one GE node with the weights in ONNX's own layout (CommonLSTM, CommonGRU).

CANN's parser makes the same nodes and splits them into DynamicRNN / DynamicGRUV2 later; here they stay whole, so that
the steps keep the wide accumulator and the original weights are in the `.om`. GE knows only ``layout`` 0 (time first):
the batch-first form gets transposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Cost, Emit
from asc_devkit.ops.declare import CUBE, Attr, ge, lower_as, onnx, outputs_of
from asc_devkit.ops.families.steps import int64, shape_of

_SHARED = [
    Attr("activation_alpha", "floats"),
    Attr("activation_beta", "floats"),
    Attr("activations", "strs"),
    Attr("clip", "float"),
    Attr("direction", "str", "forward"),
    Attr("hidden_size", "int"),
]
_LSTM = [*_SHARED, Attr("input_forget", "int", 0)]
_GRU = [*_SHARED, Attr("linear_before_reset", "int", 0)]
_STATES = (5, 6)  # initial_h, initial_c


def _raise(ge_type: str, attrs: Sequence[Attr]) -> Convert:
    def convert(e: Emit) -> Sequence[ir.Value]:
        found: dict[str, Any] = {a.name: e.attr(a.name, a.default) for a in attrs}
        weights = e.shape(2)
        if found["hidden_size"] is None and weights is not None:
            found["hidden_size"] = weights[-1]
        if not e.attr("layout", 0):
            return outputs_of(e.op(ge_type, e.inputs, found, len(e.node.outputs)))
        inputs = list(e.inputs)
        for index in (0, *_STATES):
            value = e.value(index)
            if value is not None:
                inputs[index] = _permuted(e, value, (1, 0, 2))
        results = outputs_of(e.op(ge_type, inputs, found, len(e.node.outputs)))
        for index, result in enumerate(results):
            shape = e.out_shape(index)
            if shape is not None:
                order = (1, 2, 0, 3) if index == 0 else (1, 0, 2)
                result.shape = ir.Shape([shape[axis] for axis in order])
        # Y: (steps, directions, batch, hidden) -> (batch, steps, directions, hidden); states: directions <-> batch.
        return [_permuted(e, y, (2, 0, 1, 3) if i == 0 else (1, 0, 2)) for i, y in enumerate(results)]

    return convert


def _permuted(e: Emit, value: ir.Value, order: tuple[int, ...]) -> ir.Value:
    shape = shape_of(value)
    return e.op("Transpose", [value, int64(*order)], shape=None if shape is None else [shape[axis] for axis in order])


ge("CommonLSTM", "x w r b sequence_lens initial_h initial_c p", lower_as("LSTM", _LSTM), _LSTM, "y y_h y_c",
   cost=Cost.RNN, **CUBE)  # fmt: skip
ge("CommonGRU", "x w r b sequence_lens initial_h", lower_as("GRU", _GRU), _GRU, "y y_h", cost=Cost.RNN, **CUBE)
onnx("LSTM", _raise("CommonLSTM", _LSTM), "CommonLSTM", "Transpose")
onnx("GRU", _raise("CommonGRU", _GRU), "CommonGRU", "Transpose")
