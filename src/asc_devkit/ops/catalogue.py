"""The operator catalogue: what the toolkit knows about each operator, declared once, used in both directions.

A family module (``ops/families/elementwise.py``, ``ops/families/conv.py``, ...) declares operators with the helpers of
``ops.declare`` (a pure rename is one line). ``ops.convert`` walks a graph with these declarations; ``perf``, ``atc``
and ``npu`` read the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np
import onnx_ir as ir

from asc_devkit.ge.desc import Engine

CANONICAL_OPSET: Final = 23
_NEWER: Final = "ai.onnx.opset"
#: Domain of lowered nodes that a user's plugin computes; never in a file.
PLUGIN_DOMAIN: Final = "asc.plugin"
#: Attribute of a node in the ``.om``: file name of the plugin that declared its operator.
PLUGIN_ATTR: Final = "_op_plugin"


def newer_domain(opset: int) -> str:
    """Domain of standard operators in a form that the canonical opset lacks (only hosts run them): ``ai.onnx.opset28``."""
    return f"{_NEWER}{opset}"


def newer_opset(domain: str) -> int | None:
    """The opset that a ``newer_domain`` stands for, None for other domains."""
    number = domain.removeprefix(_NEWER)
    return int(number) if number != domain and number.isascii() and number.isdigit() and len(number) < 4 else None


class Cost(str, Enum):
    """Which formula of ``perf`` prices the operator."""

    MATMUL = "matmul"
    CONV = "conv"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    REDUCE = "reduce"
    NORM = "norm"
    SOFTMAX = "softmax"
    POOL = "pool"
    MOVEMENT = "movement"
    GATHER = "gather"
    TRANSPOSE = "transpose"
    RNN = "rnn"
    QUANT = "quant"
    FREE = "free"
    AICPU = "aicpu"
    HOST = "host"


class Mix(str, Enum):
    """Behaviour under ``mixed_float16``: white drops to fp16, black stays fp32, gray follows its producer."""

    WHITE = "white"
    GRAY = "gray"
    BLACK = "black"


class Emit(Protocol):
    """What a conversion function may ask about the node it converts and do to build its replacement.

    All answers are in terms of the graph under construction: when lowering replaces fp16 by fp32, ``dtype`` and
    ``out_dtype`` say fp32.
    """

    node: ir.Node
    inputs: list[ir.Value | None]

    def value(self, index: int) -> ir.Value | None:
        """Input ``index`` or None when absent."""

    def need(self, index: int) -> ir.Value:
        """Input ``index``; rejects the node when it is absent."""

    def const(self, index: int) -> np.ndarray[Any, Any] | None:
        """The array of input ``index`` when it is a constant, else None."""

    def ints(self, index: int) -> list[int] | None:
        """Input ``index`` as a list of Python integers when it is a constant, else None."""

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Static shape of input ``index``, None when unknown."""

    def rank(self, index: int) -> int | None:
        """Number of dimensions of input ``index``, None when unknown."""

    def dtype(self, index: int) -> ir.DataType | None:
        """Element type of input ``index``."""

    def out_shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Static shape of output ``index`` of the node, None when unknown."""

    def out_dtype(self, index: int = 0) -> ir.DataType | None:
        """Element type of output ``index`` of the node."""

    def used(self, index: int) -> bool:
        """True when the node has output ``index`` and something reads it."""

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute as a Python value (int, float, str, list, ir.TensorProtocol, ir.Graph)."""

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | np.ndarray[Any, Any] | None],
        attrs: Mapping[str, Any] | None = None,
        outputs: int = 1,
        shape: Sequence[int] | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """Append a node and return its first output (``.producer().outputs`` has the others).

        Arrays become initializers. Attributes that are None are left out. ``dtype`` defaults to the first input's.
        """

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A constant ``value`` under another static shape, without copying its data."""

    def reject(self, reason: str, fix: str = "") -> Exception:
        """Build the exception that lists this node as unsupported, with a rewrite hint."""


Convert = Callable[[Emit], "ir.Value | Sequence[ir.Value]"]


@dataclass(frozen=True)
class GeOp:
    """One operator of the Graph Engine vocabulary.

    ``inputs``: GE input names; a trailing ``*`` marks a dynamic input (``x*`` -> x0, x1, ...).
    ``attrs``: name -> kind (``int float bool str ints floats bools strs dtype tensor graph``). Data types
    are stored as ``ir.DataType`` codes, booleans as 0/1. A leading underscore marks what GE itself cannot say.
    ``defaults``: value of an attribute that a node does not carry.
    ``floats``: float dtypes the AI core kernel accepts, by ``Soc.generation`` or ``"*"``.
    ``exact``: the result is representable whenever the inputs are (moves, selections, relu): no rounding needed.
    ``bounds``: interval every finite result lies in, where one is known (sigmoid: (0, 1)).
    ``lower``: builds the ONNX form for execution.
    ``plugin``: file that declared it, "" for built-in operators. ``flops``: operations of a node, where declared.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lower: Convert
    attrs: Mapping[str, str] = field(default_factory=dict)
    engine: Engine = Engine.VECTOR
    cost: Cost = Cost.ELEMENTWISE
    mix: Mix = Mix.GRAY
    floats: Mapping[str, frozenset[str]] = field(default_factory=dict)
    exact: bool = False
    bounds: tuple[float, float] | None = None
    source: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    flops: Callable[[ir.Node], float] | None = None


@dataclass(frozen=True)
class OnnxOp:
    """How an ONNX operator (canonical opset) becomes GE operators.

    ``raise_``: builds the GE form; None when the nodes of ONNX's own definition of the operator are converted instead.
    ``rewritten``: the real ATC has no parser for it; the toolkit turns it exactly into operators CANN has.
    """

    type: str
    raise_: Convert | None
    ge_types: tuple[str, ...]
    domain: str = ""
    rewritten: bool = False
