"""Inputs and attributes of a node under evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]


class Refuse(Exception):
    """The node cannot be evaluated here; never leaves this package."""


class Call:
    """Inputs and attributes of the node under evaluation."""

    __slots__ = ("node", "x")

    def __init__(self, node: ir.Node, x: Sequence[Array | None]) -> None:
        self.node = node
        self.x = x

    def __getitem__(self, index: int) -> Array:
        value = self.x[index] if index < len(self.x) else None
        if value is None:
            raise Refuse
        return value

    def get(self, index: int) -> Array | None:
        return self.x[index] if index < len(self.x) else None

    def attr(self, name: str, default: Any = None) -> Any:
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def ints(self, index: int) -> list[int] | None:
        """Input ``index`` as a list of Python integers, None when absent."""
        value = self.get(index)
        return None if value is None else [int(v) for v in value.reshape(-1)]


Function = Callable[[Call], "Array | Sequence[Array]"]
