"""Work of operators on the vector units: elementwise, reductions, normalisation, softmax, pooling, sorting."""

from __future__ import annotations

from math import prod

from asc_devkit.perf.coefficients import vector_work
from asc_devkit.perf.rates import Rates
from asc_devkit.perf.view import NodeView, Work, elements, is_half, shape_of, width


def elementwise(view: NodeView, rates: Rates) -> Work:
    """Operators that touch every element once; the largest operand counts."""
    values = [v for v in (*view.outputs, *view.inputs) if v is not None]
    count = max((elements(v) for v in values), default=0)
    widest = max((width(v) for v in values if elements(v) == count), default=2.0)
    table = vector_work(view.type)
    cycles = _cycles(view.type, rates)
    if table.wide and is_half(view.outputs[0]):
        widest, cycles = 4.0, cycles + 2
    return _spread(view, rates, count * widest, cycles, flops=float(count))


def pool(view: NodeView, rates: Rates) -> Work:
    """Windows: every output element gathers its window; a global pool reads each input element once."""
    out, source = view.outputs[0], view.input(0)
    count = elements(out)
    inside = elements(source) if source is not None else count
    window = max(prod(view.integers("ksize", "kernel_size", "kernel_shape", "window")), 1)
    if window == 1 or "Global" in view.type or view.integer("global_pooling", 0):
        window = max(inside // max(count, 1), 1)
    return _spread(view, rates, count * window * width(out), 2, flops=float(count * window))


def reduce(view: NodeView, rates: Rates) -> Work:
    """Sums, means, maxima: one pass over the input. Reducing leading axes makes cores meet at the end."""
    source = view.input(0)
    count = elements(source) if source is not None else 0
    size = width(source) if source is not None else 2.0
    wide = source is not None and is_half(source)
    last = _reduces_last(view)
    listed = vector_work(view.type)
    cycles = _cycles(view.type, rates) if listed is not vector_work("*") else (6.0 if last else 3.0)
    work = _spread(view, rates, count * (4.0 if wide else size), cycles + wide, flops=float(count))
    rows = elements(view.outputs[0]) if last else 1
    work.vector_us += _row_us(rows, count // max(rows, 1), rates)
    work.head_us = rates.k.reduce_head_us if last else rates.k.reduce_across_head_us
    return work


def normalise(view: NodeView, rates: Rates) -> Work:
    """Layer, group, instance and RMS norm: several passes over a row that stays in UB, plus a fixed cost per row."""
    source = view.input(0)
    count = elements(source) if source is not None else 0
    row = _row_length(view, count)
    rows = max(count // max(row, 1), 1)
    cycles = _cycles(view.type, rates) + (2 if source is not None and is_half(source) else 0)
    work = _spread(view, rates, count * 4.0, cycles, flops=8.0 * count, units=min(rates.vectors, rows))
    work.vector_us += _row_us(rows, row, rates)
    work.head_us = rates.k.norm_head_us
    return work


def softmax(view: NodeView, rates: Rates) -> Work:
    """Maximum, exponential, sum and division over a row; other axes than the last are strided in UB."""
    shape = view.shape(0)
    rank = max(len(shape), 1)
    axis = (view.integers("axes", "axis") or [-1])[0] % rank
    count = prod(shape)
    row = shape[axis] if shape else 1
    rows = max(count // max(row, 1), 1)
    source = view.input(0)
    cycles = _cycles(view.type, rates) + (2 if source is not None and is_half(source) else 0)
    if axis == rank - 1:
        work = _spread(view, rates, count * 4.0, cycles, flops=5.0 * count, units=min(rates.vectors, rows))
        work.vector_us += _row_us(rows, row, rates)
    else:
        work = _spread(view, rates, count * 4.0, 2.5 * cycles, flops=5.0 * count)
    work.head_us = rates.k.softmax_head_us
    return work


def declared(view: NodeView, rates: Rates, flops: float, cube: bool) -> Work:
    """An operator of a plugin that says how many operations it takes; every input is read once.

    Vector units do one operation per element and cycle, the cube 8192 (16 x 16 x 16 multiply-adds) per core and cycle.
    """
    note = "operations as the plugin declares"
    if cube:
        cube_us = flops / (8192.0 * rates.cores * rates.cube_mhz)
        return Work(
            cube_us=cube_us, flops=flops, reads=view.reads(), written=view.written(), blocks=rates.cores, note=note
        )
    work = _spread(view, rates, flops * width(view.outputs[0]), 1.0, flops=flops)
    work.note = note
    return work


def _spread(view: NodeView, rates: Rates, size: float, cycles: float, flops: float, units: int = 0) -> Work:
    """``size`` bytes at ``cycles`` per vector width, spread over as many vector units as the operands are worth."""
    reads, written = view.reads(), view.written()
    blocks = max(min(units or rates.vectors, rates.vectors, int(-(-size // rates.k.block_bytes))), 1)
    vector_us = size / rates.vector_bpc * cycles / (blocks * rates.vector_mhz) / rates.k.vector_efficiency
    return Work(vector_us=vector_us, flops=flops, reads=reads, written=written, blocks=blocks)


def _row_us(rows: int, length: int, rates: Rates) -> float:
    """Fixed work per row; short rows share it, because several are handled in one go."""
    cycles = rates.k.row_cycles / rates.k.fused_vector_speedup * min(1.0, length / rates.k.short_row_elements)
    return -(-rows // rates.vectors) * cycles / rates.vector_mhz


def _cycles(op_type: str, rates: Rates) -> float:
    """Vector cycles per register width; families that keep intermediates in registers run composites faster."""
    cycles = vector_work(op_type).cycles
    return max(cycles / rates.k.fused_vector_speedup, 4.0) if cycles > 4 else cycles


def _row_length(view: NodeView, count: int) -> int:
    """Elements normalised together: the size of scale for layer norms, the group for group norms."""
    shape = view.shape(0)
    groups = view.integer("num_groups", 0)
    if groups > 0 and len(shape) > 1:
        return max(count // max(shape[0] * groups, 1), 1)
    if view.type.startswith("Instance") and len(shape) > 2:
        return prod(shape[2:])
    scale = view.shape(1)
    return prod(scale) if scale else (shape[-1] if shape else 1)


def _reduces_last(view: NodeView) -> bool:
    """True when the last axis is among the reduced ones, judged by shapes when the axes are not an attribute."""
    shape = view.shape(0)
    axes = view.integers("axes", "axis", "dimension") or view.constant(1)
    if axes:
        return any(a % max(len(shape), 1) == len(shape) - 1 for a in axes)
    out = shape_of(view.outputs[0])
    return not (shape and out and shape[-1] == out[-1])
