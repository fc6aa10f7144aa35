"""One module per family of operators; importing the package declares them all."""

from asc_devkit.ops.families import (
    activation,
    control,
    conv,
    elementwise,
    gather,
    logic,
    loss,
    matmul,
    movement,
    norm,
    pool,
    random,
    reduce,
    resize,
    rnn,
    vision,
)

__all__ = [
    "activation",
    "control",
    "conv",
    "elementwise",
    "gather",
    "logic",
    "loss",
    "matmul",
    "movement",
    "norm",
    "pool",
    "random",
    "reduce",
    "resize",
    "rnn",
    "vision",
]
