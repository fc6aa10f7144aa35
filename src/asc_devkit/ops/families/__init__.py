"""One module per family of operators; importing the package declares them all.

To add an operator, declare it in its family: ``rename`` when both vocabularies agree on inputs and outputs, else ``ge``
with its lowering and ``onnx`` with its conversion. Nothing else needs to know; ``make docs`` updates the page.
"""

from asc_devkit.ops.families import (
    activation,
    aipp,
    compiled,
    control,
    conv,
    defined,
    device,
    elementwise,
    gather,
    logic,
    loss,
    matmul,
    movement,
    norm,
    pool,
    quant,
    random,
    reduce,
    resize,
    rnn,
    vision,
)

__all__ = [
    "activation",
    "aipp",
    "compiled",
    "control",
    "conv",
    "defined",
    "device",
    "elementwise",
    "gather",
    "logic",
    "loss",
    "matmul",
    "movement",
    "norm",
    "pool",
    "quant",
    "random",
    "reduce",
    "resize",
    "rnn",
    "vision",
]
