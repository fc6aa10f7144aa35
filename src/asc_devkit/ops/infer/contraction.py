"""Inference rules: convolutions, pooling, matrix products, recurrent networks."""

from __future__ import annotations

import onnx_ir as ir

from asc_devkit.ops.infer.view import Dim, Dims, Inconsistent, NodeView, Rule, Unknown, broadcast, require_equal, show

INT32 = ir.DataType.INT32


def conv(c: NodeView) -> None:
    _conv(c, c.dtype(0), 1)


def conv_integer(c: NodeView) -> None:
    _conv(c, INT32, 1)


def q_linear_conv(c: NodeView) -> None:
    _conv(c, c.dtype(7), 3)


def _conv(c: NodeView, dtype: ir.DataType | None, weight: int) -> None:
    c.out(dtype, None)
    x, w = c.dims(0), c.dims(weight)
    if len(x) != len(w) or len(x) < 3:
        raise Inconsistent(f"input {show(x)} and weight {show(w)} have different or too small ranks")
    group = c.attr("group", 1)
    if isinstance(w[1], int):
        require_equal(x[1], w[1] * group, f"channels of input {show(x)} and of weight {show(w)} (group {group})")
    spatial = _windows(c, x[2:], tuple(w[2:]))
    c.out(dtype, (x[0], w[0], *spatial))


def _windows(c: NodeView, x: Dims, kernel: Dims, pool: bool = False) -> list[Dim]:
    """Output length of each spatial axis of a sliding window (Conv and pooling specification).

    A pooling window that hangs over the end by less than a stride still gives one output, as in ONNX's own shape
    inference, which divides towards zero.
    """
    ceil = pool and bool(c.attr("ceil_mode", 0))
    n = len(x)
    strides = c.attr("strides") or [1] * n
    dilations = c.attr("dilations") or [1] * n
    pads = c.attr("pads") or [0] * (2 * n)
    auto = c.attr("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == n or len(pads) != 2 * n or min([*strides, *dilations]) < 1:
        raise Inconsistent(f"strides {list(strides)}, dilations {list(dilations)} or pads {list(pads)} do not fit")
    result: list[Dim] = []
    for i in range(n):
        d, k = x[i], kernel[i]
        if not isinstance(d, int) or not isinstance(k, int):
            result.append(None)
            continue
        extent = (k - 1) * dilations[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            result.append(-(-d // strides[i]))
            continue
        padded = d + (0 if auto == "VALID" else pads[i] + pads[i + n])
        length = (padded - extent) // strides[i] + 1
        if pool and -strides[i] < padded - extent < 0:
            length = 1
        elif ceil and (padded - extent) % strides[i] and length * strides[i] < d + pads[i]:
            length += 1  # a window that would start in the trailing padding is dropped
        if length < 1:
            raise Inconsistent(f"window of {extent} on a padded length of {padded}")
        result.append(length)
    return result


def conv_transpose(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, None)
    x, w = c.dims(0), c.dims(1)
    if len(x) != len(w) or len(x) < 3:
        raise Inconsistent(f"input {show(x)} and weight {show(w)} have different or too small ranks")
    require_equal(x[1], w[0], f"channels of input {show(x)} and of weight {show(w)}")
    n = len(x) - 2
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    pads, extra = c.attr("pads") or [0] * (2 * n), c.attr("output_padding") or [0] * n
    auto, wanted = c.attr("auto_pad", "NOTSET"), c.attr("output_shape")
    spatial: list[Dim] = []
    for i in range(n):
        d, k = x[i + 2], w[i + 2]
        if wanted:
            spatial.append(wanted[i - n])
        elif not isinstance(d, int) or not isinstance(k, int):
            spatial.append(None)
        elif auto in ("SAME_UPPER", "SAME_LOWER"):
            spatial.append(d * strides[i])
        else:
            both = 0 if auto == "VALID" else pads[i] + pads[i + n]
            spatial.append((d - 1) * strides[i] + extra[i] + (k - 1) * dilations[i] + 1 - both)
    channels = w[1] * c.attr("group", 1) if isinstance(w[1], int) else None
    c.out(dtype, (x[0], channels, *spatial))


def pool(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    c.out(ir.DataType.INT64, None, 1)
    x = c.dims(0)
    kernel = c.attr("kernel_shape") or ()
    if len(kernel) != len(x) - 2:
        raise Inconsistent(f"kernel {list(kernel)} for input {show(x)}")
    dims = (*x[:2], *_windows(c, x[2:], tuple(kernel), pool=True))
    c.out(c.dtype(0), dims)
    c.out(ir.DataType.INT64, dims, 1)


def global_pool(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    x = c.dims(0)
    c.out(c.dtype(0), (*x[:2], *(1 for _ in x[2:])))


def matmul(c: NodeView) -> None:
    _matmul(c, c.dtype(0), 1)


def matmul_integer(c: NodeView) -> None:
    _matmul(c, INT32, 1)


def q_linear_matmul(c: NodeView) -> None:
    _matmul(c, c.dtype(7), 3)


def _matmul(c: NodeView, dtype: ir.DataType | None, right: int) -> None:
    c.out(dtype, None)
    a, b = c.dims(0), c.dims(right)
    if not a or not b:
        raise Inconsistent("a scalar has no matrix product")
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    require_equal(a[-1], b[-2] if len(b) > 1 else b[0], f"inner dimensions of {show(a)} and {show(b)}")
    c.out(dtype, (*broadcast([a[:-2], b[:-2]]), *rows, *columns))


def gemm(c: NodeView) -> None:
    c.out(c.dtype(0), None)
    a, b = c.dims(0), c.dims(1)
    if len(a) != 2 or len(b) != 2:
        raise Inconsistent(f"{show(a)} and {show(b)} are not both matrices")
    a = a[::-1] if c.attr("transA", 0) else a
    b = b[::-1] if c.attr("transB", 0) else b
    require_equal(a[1], b[0], f"inner dimensions of {show(a)} and {show(b)}")
    result = (a[0], b[1])
    bias = c.dims_or_none(2)
    if bias is not None and len(broadcast([result, bias])) != 2:
        raise Inconsistent(f"bias {show(bias)} does not fit {show(result)}")
    c.out(c.dtype(0), result)


def rnn(c: NodeView) -> None:
    dtype = c.dtype(0)
    for i in range(3):
        c.out(dtype, None, i)
    x = c.dims(0)
    if len(x) != 3:
        raise Inconsistent(f"input {show(x)} has not 3 dimensions")
    directions = 2 if c.attr("direction", "forward") == "bidirectional" else 1
    hidden = c.attr("hidden_size")
    if hidden is None:
        recurrence = c.dims(2)
        if len(recurrence) != 3:
            raise Unknown
        hidden = recurrence[2]
    if c.attr("layout", 0):
        batch, steps = x[0], x[1]
        sequence: Dims = (batch, steps, directions, hidden)
        state: Dims = (batch, directions, hidden)
    else:
        steps, batch = x[0], x[1]
        sequence, state = (steps, directions, batch, hidden), (directions, batch, hidden)
    c.out(dtype, sequence)
    c.out(dtype, state, 1)
    c.out(dtype, state, 2)


def stft(c: NodeView) -> None:
    dtype = c.dtype(0)
    c.out(dtype, (None, None, None, 2))
    signal, step = c.dims(0), c.static_ints(1)
    window = c.dims_or_none(2)
    length = (
        c.static_ints(3) if c.has(3) else (None if window is None or not isinstance(window[0], int) else window[:1])
    )
    samples = signal[1] if len(signal) > 1 else None
    if not length or not step or not isinstance(length[0], int):
        return
    if step[0] <= 0:
        raise ValueError(f"frame_step is {step[0]}")
    frames = (samples - length[0]) // step[0] + 1 if isinstance(samples, int) else None
    bins = length[0] // 2 + 1 if c.attr("onesided", 1) else length[0]
    c.out(dtype, (signal[0], frames, bins, 2))


RULES: dict[str, Rule] = {
    "AveragePool": pool,
    "Conv": conv,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "GRU": rnn,
    "Gemm": gemm,
    "GlobalAveragePool": global_pool,
    "GlobalLpPool": global_pool,
    "GlobalMaxPool": global_pool,
    "LSTM": rnn,
    "LpPool": pool,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "MaxPool": pool,
    "QLinearConv": q_linear_conv,
    "QLinearMatMul": q_linear_matmul,
    "RNN": rnn,
    "STFT": stft,
}

# Operators of other domains whose outputs have the shapes of a standard operator with the same leading inputs.
CONTRIB_RULES: dict[tuple[str, str], Rule] = {("com.microsoft", "DynamicQuantizeLSTM"): rnn}
