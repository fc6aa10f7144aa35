"""Reading a GE node for pricing: shapes, bytes, attributes; and the ``Work`` a formula returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final

import onnx_ir as ir

from asc_devkit.ge.desc import DESC, IMPL_MODE, TensorDesc
from asc_devkit.ge.impl_modes import HI_FLOAT_32

# Names of cube and vector element types; everything else is priced by its width.
_NAMES: Final = {
    ir.DataType.FLOAT16: "fp16",
    ir.DataType.BFLOAT16: "bf16",
    ir.DataType.FLOAT: "fp32",
    ir.DataType.INT8: "int8",
    ir.DataType.UINT8: "uint8",
    ir.DataType.INT4: "int4",
}
MOST_CONSTANT: Final = 64  # axes and permutations are shorter; anything longer is data
_HALF: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@dataclass(slots=True)
class Work:
    """What an operator costs before memory: busy times in microseconds, operand traffic in bytes.

    ``reads`` lists (value, bytes touched); ``l2_bytes`` is extra traffic between L2 and the cores (tiles loaded again),
    ``l0a_bytes``/``l0b_bytes`` what MTE1 copies, ``cube_flops`` the cube's share of ``flops``.
    ``bandwidth`` is the share of device memory bandwidth that the access pattern allows; ``head_us`` runs before or after
    everything else, ``fill_us`` likewise but never longer than the rest.
    """

    cube_us: float = 0.0
    mte1_us: float = 0.0
    vector_us: float = 0.0
    flops: float = 0.0
    reads: list[tuple[ir.Value, float]] = field(default_factory=list)
    written: float = 0.0
    l2_bytes: float = 0.0
    l0a_bytes: float = 0.0
    l0b_bytes: float = 0.0
    cube_flops: float = 0.0
    blocks: int = 1
    bandwidth: float = 1.0
    l2_bandwidth: float = 1.0
    head_us: float = 0.0
    fill_us: float = 0.0
    note: str = ""


class NodeView:
    """Shapes, sizes and attributes of one node. Unknown dimensions count as 1."""

    __slots__ = ("inputs", "node", "outputs", "type")

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.type = node.op_type
        self.inputs = node.inputs
        self.outputs = node.outputs

    def integer(self, name: str, default: int) -> int:
        """An integer attribute; ``default`` when the node has none of that type."""
        found = self.node.attributes.get(name)
        return found.value if found is not None and isinstance(found.value, int) else default

    def integers(self, *names: str) -> list[int]:
        """The first of these attributes that holds integers (one or a list), [] when there is none."""
        for name in names:
            found = self.node.attributes.get(name)
            if found is None:
                continue
            if isinstance(found.value, int):
                return [found.value]
            if isinstance(found.value, (list, tuple)) and all(isinstance(v, int) for v in found.value):
                return list(found.value)
        return []

    def text(self, name: str, default: str) -> str:
        """A string attribute; ``default`` when the node has none of that type."""
        found = self.node.attributes.get(name)
        return found.value if found is not None and isinstance(found.value, str) else default

    def constant(self, index: int) -> list[int]:
        """A short constant input (axes, permutation) as integers, [] when it is none."""
        value = self.input(index)
        constant = value.const_value if value is not None else None
        if constant is None or constant.size > MOST_CONSTANT or not constant.dtype.is_integer():
            return []
        return [int(v) for v in constant.numpy().reshape(-1)]

    def input(self, index: int) -> ir.Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an input; () when it is absent."""
        value = self.input(index)
        return shape_of(value) if value is not None else ()

    def out_shape(self, index: int = 0) -> tuple[int, ...]:
        return shape_of(self.outputs[index])

    def dtype(self, index: int) -> str:
        """Cube type name of an input (``fp16``, ``int8``, ...)."""
        value = self.input(index)
        if value is not None and value.dtype == ir.DataType.FLOAT and self.node.meta.get(IMPL_MODE) == HI_FLOAT_32:
            return "hf32"
        return _NAMES.get(value.dtype, "fp16") if value is not None and value.dtype is not None else "fp16"

    def reads(self) -> list[tuple[ir.Value, float]]:
        """Every input once, in full."""
        return [(v, nbytes(v)) for v in self.inputs if v is not None]

    def written(self) -> float:
        return sum(nbytes(v) for v in self.outputs)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """Origin shape with unknown dimensions as 1."""
    if value.shape is None:
        return ()
    return tuple(d if isinstance(d, int) else 1 for d in value.shape)


def elements(value: ir.Value) -> int:
    """Elements in memory: of the storage shape where there is one."""
    desc = value.meta.get(DESC)
    if isinstance(desc, TensorDesc) and desc.storage_shape:
        return prod(desc.storage_shape)
    return prod(shape_of(value))


def width(value: ir.Value) -> float:
    """Bytes of one element."""
    return value.dtype.itemsize if value.dtype is not None and value.dtype != ir.DataType.STRING else 4.0


def nbytes(value: ir.Value) -> float:
    """Bytes in memory, padding of the device format included."""
    return elements(value) * width(value)


def is_half(value: ir.Value) -> bool:
    """True for 16-bit float values, which many kernels compute in fp32."""
    return value.dtype in _HALF
