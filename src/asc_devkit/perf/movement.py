"""Work of operators that move data: slices, concatenation, padding, transposition, gathers, format changes."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from asc_devkit.perf.coefficients import vector_work
from asc_devkit.perf.rates import Rates
from asc_devkit.perf.view import NodeView, Work, elements, nbytes, shape_of, width


def movement(view: NodeView, rates: Rates) -> Work:
    """Slice, Concat, Split, Pad, Tile, ...: bytes that are needed, at the bandwidth their run length allows."""
    written = view.written()
    largest = max(view.outputs, key=nbytes)
    reads = [(v, min(nbytes(v), written)) for v in view.inputs if v is not None]
    run = min(
        (
            _run(shape_of(v), shape_of(o)) * width(o)
            for v, _ in reads[:8]
            for o in view.outputs[:8]
            if v.dtype == o.dtype
        ),
        default=written,
    )
    table = vector_work(view.type)
    return _moved(view, rates, reads, written, run, table.cycles, width(largest))


def transpose(view: NodeView, rates: Rates) -> Work:
    """Transpose and TransData: blocks are turned on chip; axes that stay last make long runs."""
    source, out = view.input(0), view.outputs[0]
    shape, size = view.shape(0), width(out)
    perm = view.integers("perm") or view.constant(1)
    kept = 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis >= len(perm) or perm[axis] != axis:
            break
        kept *= shape[axis]
    written = view.written()
    reads = [(source, nbytes(source))] if source is not None else []
    turned = kept * size < 32
    cycles = vector_work(view.type).cycles * (1 if turned else 0.25)
    # Blocks are turned on chip, so runs are some rows wide even when no axis stays in place.
    run = max(kept * size, min(32 * size, 128)) if turned else kept * size
    if view.type == "TransData":
        run = 16 * size * min(max(prod(shape[2:]), 1), 16)
    work = _moved(view, rates, reads, written, run, cycles, size)
    work.head_us = rates.k.transpose_base_us * min(1.0, written / 2**20)
    return work


def gather(view: NodeView, rates: Rates) -> Work:
    """Gather, scatter, embedding: rows chosen by index; only they are read."""
    data, out = view.input(0), view.outputs[0]
    written = view.written()
    index = next((v for v in view.inputs[1:] if v is not None and v.dtype is not None and not _is_float(v)), None)
    reads = [(v, nbytes(v) if v is not data else min(nbytes(v), written)) for v in view.inputs if v is not None]
    count = max(elements(index), 1) if index is not None else 1
    row = max(elements(out) // count, 1) * width(out)
    work = _moved(view, rates, reads, written, row, vector_work(view.type).cycles, width(out))
    work.head_us = count * rates.k.gather_row_us / max(work.blocks, 1) * rates.vectors
    return work


def _moved(
    view: NodeView,
    rates: Rates,
    reads: list[tuple[ir.Value, float]],
    written: float,
    run: float,
    cycles: float,
    size: float,
) -> Work:
    blocks = max(min(rates.vectors, int(-(-written // rates.k.block_bytes))), 1)
    vector_us = written / rates.vector_bpc * cycles / (blocks * rates.vector_mhz) / rates.k.vector_efficiency
    share = min(1.0, (max(run, size) / rates.k.short_burst_bytes) ** 0.5)
    return Work(vector_us=vector_us, reads=reads, written=written, blocks=blocks, bandwidth=share, l2_bandwidth=share)


def _run(source: tuple[int, ...], target: tuple[int, ...]) -> int:
    """Elements that are contiguous on both sides when part of one is copied into the other."""
    run = 1
    for a, b in zip(reversed(source), reversed(target), strict=False):
        run *= min(a, b)
        if a != b:
            break
    return max(run, 1)


def _is_float(value: object) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.is_floating_point()
