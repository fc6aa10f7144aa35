"""Work of operators on the cube: matrix products, convolutions (as implicit products), attention, recurrences."""

from __future__ import annotations

from math import prod
from typing import Final

from asc_devkit.ge import formats
from asc_devkit.ge.desc import DESC, TensorDesc
from asc_devkit.perf.gemm import Gemm, element_bytes, price
from asc_devkit.perf.rates import Rates
from asc_devkit.perf.view import NodeView, Work, elements, nbytes, width

# Convolution types whose window runs over the *input* gradient: the kernel spreads the input with zeros on chip.
_TRANSPOSED: Final = frozenset(
    {
        "Conv2DTranspose",
        "Conv2DTransposeD",
        "Conv3DTranspose",
        "Conv3DTransposeD",
        "Deconvolution",
        "Conv2DBackpropInput",
    }
)


def matmul(view: NodeView, rates: Rates) -> Work:
    """``MatMulV2``/``MatMulV3``, ``BatchMatMulV2`` and relatives: [.., m, k] x [.., k, n]."""
    if view.type == "Einsum":
        return _einsum(view, rates)
    a, b = view.shape(0), view.shape(1)
    if not a or not b or view.input(0) is None or view.input(1) is None:
        return Work(reads=view.reads(), written=view.written(), note="shapes unknown")
    left, right = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    transpose_a = _flag(view, "transpose_x1", "adj_x1", "transpose_a")
    transpose_b = _flag(view, "transpose_x2", "adj_x2", "transpose_b")
    m, k = (left[-1], left[-2]) if transpose_a else (left[-2], left[-1])
    n = right[-2] if transpose_b else right[-1]
    batch = max(prod(left[:-2]), prod(right[:-2]))
    if batch > 1 and prod(right[:-2]) == 1 and not transpose_a:
        m, batch = m * batch, 1  # one right operand for all: the batch is more rows
    first, second = view.inputs[0], view.inputs[1]
    assert first is not None and second is not None
    plain = rates.soc.matmul_format == "ND"  # blocked formats have no short rows
    gemm = Gemm(
        m=max(m, 1),
        n=max(n, 1),
        k=max(k, 1),
        batch=max(batch, 1),
        dtype=view.dtype(0),
        a_bytes=nbytes(first) / batch if batch else 0.0,
        b_bytes=nbytes(second) / batch if batch else 0.0,
        out_bytes=view.written() / max(batch, 1),
        a_penalty=rates.k.row_penalty(int(left[-1] * width(first))) if plain and min(left[-2:]) > 1 else 1.0,
        b_penalty=rates.k.row_penalty(int(right[-1] * width(second))) if plain and min(right[-2:]) > 1 else 1.0,
    )
    return _from_gemm(gemm, view, rates)


def _einsum(view: NodeView, rates: Rates) -> Work:
    """Two operands: letters in both and the result are the batch, those only in both are K."""
    left, _, out = view.text("equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, index in zip(terms, range(len(view.inputs)), strict=False):
        sizes.update(zip(term, view.shape(index), strict=False))
    first, second = view.input(0), view.input(1)
    if len(terms) != 2 or first is None or second is None or "." in left or not set(out) <= set(sizes):
        work = Work(reads=view.reads(), written=view.written(), note="priced by its traffic only")
        work.flops = 2.0 * prod(sizes.values())
        return work
    a, b, y = set(terms[0]), set(terms[1]), set(out)
    batch = max(prod(sizes[c] for c in a & b & y), 1)
    gemm = Gemm(
        m=max(prod(sizes[c] for c in a & y - b), 1),
        n=max(prod(sizes[c] for c in b & y - a), 1),
        k=max(prod(sizes[c] for c in (a | b) - y), 1),
        batch=batch,
        dtype=view.dtype(0),
        a_bytes=nbytes(first) / batch,
        b_bytes=nbytes(second) / batch,
        out_bytes=view.written() / batch,
    )
    return _from_gemm(gemm, view, rates)


def convolution(view: NodeView, rates: Rates) -> Work:
    """Convolutions as implicit products: rows are output positions, K runs over the window and the channels.

    Channels are padded to C0 as the device format stores them. Groups share block-diagonal weights of E groups each
    (``ge.formats.grouping``), so a depthwise convolution does up to 16 times its own multiplications.
    """
    transposed = view.type in _TRANSPOSED
    data, weight = _operands(view)
    if data is None or weight is None:
        return Work(reads=view.reads(), written=view.written(), note="shapes unknown")
    x, w, y = view.shape(data), view.shape(weight), view.out_shape()
    if len(x) < 3 or len(w) != len(x) or len(y) != len(x):
        return Work(reads=view.reads(), written=view.written(), note="shapes unknown")
    channels_last = view.text("data_format", "NCHW").endswith("C")
    cin = x[-1] if channels_last else x[1]
    cout = y[-1] if channels_last else y[1]
    positions = prod(y) // max(cout, 1)
    window = prod(w[2:])
    dtype = view.dtype(data)
    c0 = 32 if dtype in ("int8", "uint8") else 16
    depthwise = view.type.startswith("Depthwise")
    groups = max(view.integer("groups", 1), 1)
    if depthwise:
        groups = cin
    share = formats.grouping(groups, max(cin // groups, 1), max(cout // groups, 1), c0) if groups > 1 else 1
    blocks = -(-groups // share)
    k_channels = -(-cin // blocks // c0) * c0
    source, kernel = view.inputs[data], view.inputs[weight]
    assert source is not None and kernel is not None
    layout = kernel.meta.get(DESC)
    if isinstance(layout, TensorDesc) and layout.format.endswith("C04"):
        k_channels = 4  # the small-channel format packs four channels instead of C0
    size = element_bytes(dtype)
    gemm = Gemm(
        m=max(positions, 1),
        n=max(-(-cout // blocks), 1),
        k=max(window * k_channels, 1),
        batch=blocks,
        dtype=dtype,
        a_bytes=max(nbytes(source), prod(x) * size) / blocks,
        b_bytes=window * k_channels * -(-cout // blocks // 16) * 16 * size,
        out_bytes=view.written() / blocks,
    )
    work = _from_gemm(gemm, view, rates)
    work.flops = 2.0 * positions * cout * window * cin / groups
    if groups > 1:
        work.note = (
            f"{groups} groups in {blocks} block-diagonal products: {gemm.flops / work.flops:.3g}x the multiplications"
        )
    elif transposed and max(view.integers("strides"), default=1) > 1:
        work.note = "the input is spread with zeros on chip; they are multiplied too"
    return work


def attention(view: NodeView, rates: Rates) -> Work:
    """Fused attention: two products and a softmax over the scores, which never leave the chip."""
    q, k = view.shape(0), view.shape(1)
    if len(q) < 3 or len(k) < 3:
        return Work(reads=view.reads(), written=view.written(), note="shapes unknown")
    layout = view.text("input_layout", "BNSD")
    heads = max(view.integer("head_num", view.integer("num_heads", 1)), 1)
    axis = layout.index("S") if "S" in layout and len(layout) == len(q) else len(q) - 2
    rows, columns = q[axis], k[axis]
    depth = q[-1] // heads if layout.endswith("H") else q[-1]
    batch = max(prod(q) // max(rows * depth, 1), 1)
    size = width(view.inputs[0]) if view.inputs[0] is not None else 2.0
    tile = price(
        Gemm(rows, columns, depth, batch, view.dtype(0), rows * depth * size, columns * depth * size, 0.0),
        rates.soc.name,
    )
    scores = 4.0 * batch * rows * columns
    units = min(rates.vectors, batch * -(-rows // 16))
    vector_us = scores / rates.vector_bpc * 24 / (units * rates.vector_mhz) / rates.k.vector_efficiency
    return Work(
        cube_us=2 * tile.cube_us,
        mte1_us=2 * tile.mte1_us,
        l0a_bytes=2 * tile.l0a_bytes,
        l0b_bytes=2 * tile.l0b_bytes,
        vector_us=vector_us,
        flops=4.0 * batch * rows * columns * depth,
        reads=view.reads(),
        written=view.written(),
        # On split cores scores and probabilities travel cube -> vector -> cube through L2.
        l2_bytes=2 * tile.l2_bytes + (4 * scores if rates.split_cores else 0.0),
        blocks=tile.blocks,
        head_us=2 * rates.k.fill_latency_us,
    )


def recurrence(view: NodeView, rates: Rates) -> Work:
    """LSTM, GRU and RNN: one small product per time step with all weights, gates on the vector units, in sequence."""
    x = view.shape(0)
    weights = [v for v in view.inputs[1:3] if v is not None and len(v.shape or ()) >= 2]
    if len(x) != 3 or not weights:
        return Work(reads=view.reads(), written=view.written(), note="shapes unknown")
    steps, batch = x[0], x[1]
    count = sum(elements(v) for v in weights)
    hidden = max(view.out_shape()[-1], 1)
    size = width(weights[0])
    depth = max(count // (4 * hidden), 1)
    tile = price(
        Gemm(batch, 4 * hidden, depth, 1, view.dtype(0), batch * depth * size, count * size, batch * 4 * hidden * 2.0),
        rates.soc.name,
    )
    gates = batch * 4 * hidden * 4.0
    vector_us = (
        gates / rates.vector_bpc * 12 / (min(rates.vectors, batch) * rates.vector_mhz) / rates.k.vector_efficiency
    )
    per_step = max(tile.cube_us, tile.l2_us) + vector_us + rates.k.rnn_step_us
    return Work(
        cube_us=steps * tile.cube_us,
        l0a_bytes=steps * tile.l0a_bytes,
        l0b_bytes=steps * tile.l0b_bytes,
        vector_us=steps * vector_us,
        flops=2.0 * steps * batch * count,
        reads=view.reads(),
        written=view.written(),
        l2_bytes=steps * tile.l2_bytes,
        blocks=tile.blocks,
        head_us=steps * per_step - max(steps * tile.cube_us, steps * tile.l2_us),
        note=f"{steps} steps in sequence",
    )


def _from_gemm(gemm: Gemm, view: NodeView, rates: Rates) -> Work:
    tile = price(gemm, rates.soc.name)
    reads, written = view.reads(), view.written()
    own = sum(size for _, size in reads) + written
    unique = max(gemm.a_bytes + gemm.b_bytes, 1.0)
    penalty = max((gemm.a_bytes * gemm.a_penalty + gemm.b_bytes * gemm.b_penalty) / unique, 1.0)
    return Work(
        cube_us=tile.cube_us,
        mte1_us=tile.mte1_us,
        l0a_bytes=tile.l0a_bytes,
        l0b_bytes=tile.l0b_bytes,
        flops=gemm.flops,
        reads=reads,
        written=written,
        l2_bytes=max(tile.l2_bytes - own, 0.0),
        blocks=tile.blocks,
        bandwidth=rates.k.memory_efficiency_cube / rates.k.memory_efficiency_vector / penalty,
        fill_us=rates.k.fill_latency_us,
    )


def _operands(view: NodeView) -> tuple[int | None, int | None]:
    """Positions of data and weights: the first two inputs that have the output's rank."""
    rank = len(view.out_shape())
    found = [i for i, v in enumerate(view.inputs) if v is not None and v.shape is not None and len(v.shape) == rank]
    return (found[0], found[1]) if len(found) > 1 else (None, None)


def _flag(view: NodeView, *names: str) -> bool:
    return any(view.integer(name, 0) for name in names)
