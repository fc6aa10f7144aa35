"""Inputs with AIPP: the compiled model takes uint8 pictures, the original what its program makes of them in floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.atc.aipp import Aipp, in_floats, of_graph
from asc_devkit.atc.stages import InputSpec as ModelInput
from asc_devkit.check.data import InputSpec

Array = np.ndarray[Any, Any]


class Pictures:
    """The inputs of ``graph`` (compiled) that have AIPP; ``inputs`` are those of the original model."""

    def __init__(self, graph: ir.Graph, inputs: Sequence[ModelInput]) -> None:
        found = of_graph(graph)
        originals = {i.name: i for i in inputs}
        self.shapes = {v.name or "": tuple(int(d) for d in v.shape or ()) for v in graph.inputs if v.name in found}  # type: ignore[arg-type]
        self.prepare: dict[str, Callable[[Array], Array]] = {
            name: partial(_prepared, aipp, originals[name]) for name, aipp in found.items()
        }
        self.notes = [
            f"Input {name} is a uint8 {aipp.input_format} picture; the original model was given the same pixels, "
            "preprocessed in floating point."
            for name, aipp in found.items()
        ]

    def specs(self, inputs: Sequence[InputSpec]) -> list[InputSpec]:
        """``inputs`` as the compiled model takes them."""
        byte = np.dtype(np.uint8)
        return [
            replace(i, shape=self.shapes[i.name], dtype=byte, limit=256) if i.name in self.shapes else i for i in inputs
        ]


def _prepared(aipp: Aipp, original: ModelInput, pictures: Array) -> Array:
    return in_floats(aipp, pictures, original.shape[1]).astype(original.dtype.numpy())
