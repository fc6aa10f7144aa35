"""Handlers of Caffe layer types, by family; ``HANDLERS`` maps a type to the function that builds its ONNX nodes.

A handler gets a ``Site`` and returns one value per top. Layer semantics come from Caffe's layer catalogue and from the
papers of the forks that introduced the others; each docstring states the formula that is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from asc_devkit.frontends.caffe.emit import Site, Value
from asc_devkit.frontends.caffe.layers import (
    activation,
    detection,
    normalize,
    product,
    recurrent,
    resize,
    shape,
    window,
)

HANDLERS: Final[Mapping[str, Callable[[Site], list[Value]]]] = {
    **activation.HANDLERS,
    **detection.HANDLERS,
    **normalize.HANDLERS,
    **product.HANDLERS,
    **recurrent.HANDLERS,
    **resize.HANDLERS,
    **shape.HANDLERS,
    **window.HANDLERS,
}

__all__ = ["HANDLERS"]
