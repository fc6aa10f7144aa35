"""Recurrent layers: LSTM and RNN with a sequence indicator, unrolled over time."""

from __future__ import annotations

import math

import numpy as np

from asc_devkit.frontends.caffe.emit import LayerError, Site, Value

_MAX_STEPS = 512


def indicator(s: Site) -> list[Value]:
    """0 for the first step of each sequence, 1 for the others, [steps, batch]."""
    p = s.param("continuation_indicator_param")
    axis = p.integer("axis")
    steps = p.integer("time_step") or s.x.shape[s.axis(axis)]
    batch = p.integer("batch_size") or (s.x.shape[1] if len(s.x.shape) > 1 else 1)
    if not (0 < steps <= _MAX_STEPS and 0 < batch <= 65536):
        raise LayerError(f"{steps} steps of {batch} sequences are not possible")
    marks = np.ones((steps, batch), np.float32)
    marks[0] = 0
    return [s.op("Identity", [s.constant(marks, "marks")], marks.shape)]


def _sequence(s: Site) -> tuple[int, int, int, int]:
    """Steps, batch, features and units, checked."""
    p = s.param("recurrent_param")
    units = p.integer("num_output")
    p.flag("debug_info")
    if p.flag("expose_hidden"):
        raise LayerError("expose_hidden: true is not supported")
    if len(s.inputs) != 2:
        raise LayerError(f"it has {len(s.inputs)} bottoms; the sequence and its indicator are supported")
    if len(s.x.shape) < 3 or s.input(1).shape != s.x.shape[:2]:
        raise LayerError(f"a sequence {list(s.x.shape)} with an indicator {list(s.input(1).shape)} is not possible")
    steps, batch = s.x.shape[:2]
    if units < 1 or steps > _MAX_STEPS:
        raise LayerError(f"{units} units and {steps} steps are not possible (up to {_MAX_STEPS} steps)")
    return steps, batch, math.prod(s.x.shape[2:]), units


def _matrix(s: Site, index: int, rows: int, columns: int, what: str) -> Value:
    raw = s.weight(index, what)
    if raw.size != rows * columns:
        raise LayerError(f"its {what} have the shape {list(raw.shape)}, [{rows}, {columns}] is expected")
    return s.constant(np.ascontiguousarray(raw.reshape(rows, columns).T.astype(np.float32)), what)


def _vector(s: Site, index: int, size: int, what: str) -> Value:
    raw = s.weight(index, what)
    if raw.size != size:
        raise LayerError(f"its {what} have {raw.size} numbers, {size} are expected")
    return s.constant(raw.reshape(-1).astype(np.float32), what)


def _steps(s: Site, value: Value, steps: int) -> list[Value]:
    """The parts of ``value`` along its first axis, without that axis."""
    if steps == 1:
        return [s.reshape(value, value.shape[1:], "step")]
    parts = s.ops("Split", [value, s.constant([1] * steps, "steps")], [(1, *value.shape[1:])] * steps, axis=0)
    return [s.reshape(part, part.shape[1:], "step") for part in parts]


def lstm(s: Site) -> list[Value]:
    """Gates in the order input, forget, output, candidate; the state is cleared where the indicator is 0.

    c_t = f * (cont * c_(t-1)) + i * g;  h_t = o * tanh(c_t);  gates from W_x x_t + b + W_h (cont * h_(t-1)).
    """
    steps, batch, features, units = _sequence(s)
    wx = _matrix(s, 0, 4 * units, features, "input weights")
    bias = _vector(s, 1, 4 * units, "biases")
    wh = _matrix(s, 2, 4 * units, units, "hidden weights")
    flat = s.reshape(s.x, (steps, batch, features), "flat")
    gates = s.op("Add", [s.op("MatMul", [flat, wx], (steps, batch, 4 * units)), bias], (steps, batch, 4 * units))
    per_step = _steps(s, gates, steps)
    marks = _steps(s, s.reshape(s.input(1), (steps, batch, 1), "marks"), steps)
    small, parts = (batch, units), s.constant([units] * 4, "gates")
    h = c = s.constant(np.zeros(small, np.float32), "zero")
    outputs = []
    for gate, mark in zip(per_step, marks, strict=True):
        kept = s.op("Mul", [h, mark], small)
        total = s.op("Add", [gate, s.op("MatMul", [kept, wh], gate.shape)], gate.shape)
        i, f, o, g = s.ops("Split", [total, parts], [small] * 4, axis=1)
        i, f, o = (s.op("Sigmoid", [v], small) for v in (i, f, o))
        old = s.op("Mul", [f, s.op("Mul", [c, mark], small)], small)
        c = s.op("Add", [old, s.op("Mul", [i, s.op("Tanh", [g], small)], small)], small)
        h = s.op("Mul", [o, s.op("Tanh", [c], small)], small)
        outputs.append(h)
    return [_stacked(s, outputs, (steps, batch, units))]


def rnn(s: Site) -> list[Value]:
    """h_t = tanh(W_x x_t + b + W_h (cont * h_(t-1)));  output_t = tanh(W_o h_t + b_o)."""
    steps, batch, features, units = _sequence(s)
    wx = _matrix(s, 0, units, features, "input weights")
    bias = _vector(s, 1, units, "biases")
    wh = _matrix(s, 2, units, units, "hidden weights")
    wo = _matrix(s, 3, units, units, "output weights")
    out_bias = _vector(s, 4, units, "output biases")
    flat = s.reshape(s.x, (steps, batch, features), "flat")
    inner = s.op("Add", [s.op("MatMul", [flat, wx], (steps, batch, units)), bias], (steps, batch, units))
    marks = _steps(s, s.reshape(s.input(1), (steps, batch, 1), "marks"), steps)
    small = (batch, units)
    h, outputs = s.constant(np.zeros(small, np.float32), "zero"), []
    for step, mark in zip(_steps(s, inner, steps), marks, strict=True):
        kept = s.op("MatMul", [s.op("Mul", [h, mark], small), wh], small)
        h = s.op("Tanh", [s.op("Add", [step, kept], small)], small)
        total = s.op("Add", [s.op("MatMul", [h, wo], small), out_bias], small)
        outputs.append(s.op("Tanh", [total], small))
    return [_stacked(s, outputs, (steps, batch, units))]


def _stacked(s: Site, values: list[Value], shape: tuple[int, int, int]) -> Value:
    if len(values) == 1:
        return s.reshape(values[0], shape, "sequence")
    return s.reshape(s.op("Concat", values, (shape[0] * shape[1], shape[2]), axis=0), shape, "sequence")


HANDLERS = {"ContinuationIndicator": indicator, "LSTM": lstm, "RNN": rnn}
