"""What a kernel would leave in the performance counters, as the cost model sees it; the raw material of profiles.

Attached to every ``OpTime`` of a kernel and read by ``profiling``. Bytes are totals over all cores for one execution.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from asc_devkit.ge.desc import DESC, ORIGIN_OPS, TensorDesc
from asc_devkit.perf.view import Work, nbytes


@dataclass(frozen=True, slots=True)
class Operand:
    """One input or output: ``shape`` as it lies in memory (unknown sizes are -1), IR dtype name, device format."""

    shape: tuple[int, ...]
    dtype: str
    format: str
    size_bytes: float
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Counters:
    """Busy times (us) and traffic (bytes) of one kernel.

    ``memory_*`` is device memory (HBM or DDR), ``core_*`` what moves between L2 and the cores, tiles loaded again
    included; ``l2_hit``/``l2_miss`` divide the operands' first reads and the writes. ``l0a``/``l0b`` is what MTE1 copies.
    ``cube_flops`` is the share of the operator's flops that the cube does. ``origins`` are the operators of the user's
    model that the kernel stands for.
    """

    mte1_us: float = 0.0
    memory_us: float = 0.0
    l2_us: float = 0.0
    memory_read: float = 0.0
    memory_written: float = 0.0
    core_read: float = 0.0
    core_written: float = 0.0
    l2_hit: float = 0.0
    l2_miss: float = 0.0
    l0a: float = 0.0
    l0b: float = 0.0
    cube_flops: float = 0.0
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """Device memory and L2 traffic of one kernel, bytes."""

    memory_read: float
    memory_written: float
    hit: float
    miss: float


def operands(values: tuple[ir.Value | None, ...] | list[ir.Value | None]) -> tuple[Operand, ...]:
    """Descriptions of the operands that are present."""
    return tuple(_operand(v) for v in values if v is not None)


def _operand(value: ir.Value) -> Operand:
    desc = value.meta.get(DESC)
    known = isinstance(desc, TensorDesc)
    if isinstance(desc, TensorDesc) and desc.storage_shape:
        shape = desc.storage_shape
    else:
        shape = tuple(d if isinstance(d, int) else -1 for d in value.shape or ())
    return Operand(
        shape=shape,
        dtype=value.dtype.name if value.dtype is not None else "UNDEFINED",
        format=desc.format if known and isinstance(desc, TensorDesc) else "ND",
        size_bytes=nbytes(value),
        constant=value.const_value is not None,
    )


def counters(
    node: ir.Node, work: Work, traffic: Traffic, *, mte1_us: float = 0.0, memory_us: float = 0.0, l2_us: float = 0.0
) -> Counters:
    """The counters of ``node``, whose cost is ``work``."""
    origins = node.meta.get(ORIGIN_OPS) or ()
    read = sum(size for _, size in work.reads)
    return Counters(
        mte1_us=mte1_us,
        memory_us=memory_us,
        l2_us=l2_us,
        memory_read=traffic.memory_read,
        memory_written=traffic.memory_written,
        core_read=read + work.l2_bytes,
        core_written=work.written,
        l2_hit=traffic.hit,
        l2_miss=traffic.miss,
        l0a=work.l0a_bytes,
        l0b=work.l0b_bytes,
        cube_flops=work.cube_flops,
        inputs=operands(tuple(node.inputs)),
        outputs=operands(tuple(v for v in node.outputs if v.name)),
        origins=tuple(name or "" for name, _ in origins),
    )
