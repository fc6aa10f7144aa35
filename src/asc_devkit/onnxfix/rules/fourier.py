"""Fourier transforms of fixed length as products with the basis (computed in float64)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

Array = np.ndarray[Any, Any]
MOST: Final = 8192  # points; the basis has their square


def dft(e: Edit) -> None:
    """Input (..., n, ..., 1 or 2), the transformed axis as input 2 (default -2)."""
    shape, axis, length = e.shape(0), e.const(2), e.const(1)
    unknown = (e.input(1) is not None and length is None) or (e.input(2) is not None and axis is None)
    if shape is None or unknown or shape[-1] not in (1, 2):
        raise Refusal("its shape, axis or length is not fixed; give --input-shape")
    rank = len(shape)
    along = int(-2 if axis is None else axis.reshape(-1)[0]) % rank
    size = shape[along]
    points = size if length is None else int(length.reshape(-1)[0])
    if size is None or points is None or not 0 < points <= MOST or size > MOST:
        raise Refusal(f"it has {points} points; up to {MOST} are possible")
    inverse, onesided = bool(e.attr("inverse", 0)), bool(e.attr("onesided", 0))
    if inverse and onesided:
        raise Refusal("it is inverse and one-sided")
    kind = (e.dtype(0) or ir.DataType.FLOAT).numpy()
    x = e.input(0)
    if size > points:
        x = e.before("Slice", [x, *(np.array([n], np.int64) for n in (0, points, along))])
    cosine, sine = _basis(points, min(size, points), points // 2 + 1 if onesided else points, inverse)
    order = [i for i in range(rank - 1) if i != along]
    back = np.argsort([*order, along]).tolist()
    parts = [_part(e, x, i, [*order, along, rank - 1]) for i in range(shape[-1])]

    def times(value: ir.Value, basis: Array) -> ir.Value:
        return e.before("MatMul", [value, basis.astype(kind)])

    real, imaginary = times(parts[0], cosine), times(parts[0], sine)
    if len(parts) == 2:
        real = e.before("Sub", [real, times(parts[1], sine)])
        imaginary = e.before("Add", [imaginary, times(parts[1], cosine)])
    last = np.array([-1], np.int64)
    both = [e.before("Unsqueeze", [e.before("Transpose", [v], {"perm": back}), last]) for v in (real, imaginary)]
    e.rename("Concat", both, {"axis": -1})


def stft(e: Edit) -> None:
    """Real signals (batch, samples[, 1]): a convolution with the windowed basis."""
    shape, step, window, length = e.shape(0), e.const(1), e.const(2), e.const(3)
    if shape is None or step is None or (e.input(2) is not None and window is None):
        raise Refusal("its shape, step or window is not fixed; give --input-shape")
    if len(shape) == 3 and shape[2] != 1:
        raise Refusal("its signal is complex")
    points = int(length.reshape(-1)[0]) if length is not None else window.size if window is not None else 0
    if not 0 < points <= MOST:
        raise Refusal(f"its frames have {points} samples; up to {MOST} are possible")
    kind = (e.dtype(0) or ir.DataType.FLOAT).numpy()
    taper = np.ones(points) if window is None else np.pad(window.astype(np.float64), (0, points - window.size))
    bins = points // 2 + 1 if e.attr("onesided", 1) else points
    cosine, sine = _basis(points, points, bins, inverse=False)
    kernel = (np.concatenate([cosine, sine], 1) * taper[:, None]).T[:, None].astype(kind)
    signal = e.before("Reshape", [e.input(0), np.array([0, 1, -1], np.int64)])
    frames = e.before("Conv", [signal, kernel], {"strides": [int(step.reshape(-1)[0])]})
    pairs = e.before("Reshape", [frames, np.array([0, 2, bins, -1], np.int64)])
    e.rename("Transpose", [pairs], {"perm": [0, 3, 2, 1]})


def _basis(points: int, rows: int, columns: int, inverse: bool) -> tuple[Array, Array]:
    """Cosine and sine of the transform, samples by frequencies; exact angles by reduction modulo the length."""
    phase = np.outer(np.arange(rows), np.arange(columns)) % points * (2 * np.pi / points)
    scale = 1 / points if inverse else 1.0
    return np.cos(phase) * scale, np.sin(phase) * (scale if inverse else -1.0)


def _part(e: Edit, x: ir.Value | None, index: int, order: list[int]) -> ir.Value:
    """Real (0) or imaginary (1) part with the transformed axis last."""
    turned = e.before("Transpose", [x], {"perm": order})
    return e.before("Gather", [turned, np.array(index, np.int64)], {"axis": -1})


RULES = {"DFT": dft, "STFT": stft}
