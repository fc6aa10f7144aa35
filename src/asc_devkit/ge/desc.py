"""What a compiled value and node know beyond ONNX: the ``TensorDesc`` and the keys under which IR objects carry facts.

Used by every room that touches the IR (``onnx_ir``). The IR itself is ``onnx_ir.Model``: before the *select* stage its
nodes are ONNX operators (domain ``""``), afterwards they are GE operators (domain ``ge``) plus host operators that
keep their ONNX identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

GE_DOMAIN: Final = "ge"

# --- keys in ir.Value.meta -------------------------------------------------------------------------------------------
DESC: Final = "ge.desc"  # TensorDesc of the value
MAX_BYTES: Final = "ge.max_bytes"  # int: bytes of the largest gear, for a value whose shape differs between gears
ORIGIN_TENSOR: Final = "ge.origin_tensor"  # str: name of the tensor of the user's model this value equals
ORIGIN_DTYPE: Final = "ge.origin_dtype"  # ir.DataType it had there, where an operator fixes another (AIPP: fp16)

# --- keys in ir.Node.meta --------------------------------------------------------------------------------------------
ENGINE: Final = "ge.engine"  # Engine
ORIGIN_OPS: Final = "ge.origin_ops"  # tuple[tuple[name, op_type], ...] of the user's model, in order
PASSES: Final = "ge.passes"  # tuple[str, ...]: names of the fusion passes that made this node
GROUP: Final = "ge.group"  # int: fused-group id shared by all members (optimise stage only)
IMPL_MODE: Final = "ge.impl_mode"  # str: a name of ge.impl_modes, absent for the default
UNCLEAR: Final = "ge.unclear"  # str: why a fused kernel of a foreign file cannot be told apart

# --- attribute of a fused GE node: an ir.Graph whose inputs/outputs match the node's by position --------------------
MEMBERS: Final = "_members"


class Engine(str, Enum):
    """Where an operator runs. ``HOST`` marks operators CANN lacks: run by the host CPU outside the NPU."""

    CUBE = "AIcoreEngine/cube"
    VECTOR = "AIcoreEngine/vector"
    AICPU = "DNN_VM_AICPU"
    LOCAL = "DNN_VM_GE_LOCAL"  # no task: Data, Const, NetOutput, no-copy Reshape, ...
    HOST = "host"


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """Layout facts of a value in the compiled graph.

    The value's own ``shape``/``dtype`` stay the *origin* shape and the device dtype. ``format`` is the device format
    ("ND", "NCHW", "NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ"), ``storage_shape`` the padded shape in memory.
    """

    format: str = "ND"
    origin_format: str = "ND"
    storage_shape: tuple[int, ...] = ()
    groups: int = 1
