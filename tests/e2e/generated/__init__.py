"""A deterministic generator of random valid models, and the noise that says how close two runs of one can be."""

from __future__ import annotations

import onnx

from tests.e2e.generated import layers, tensors
from tests.e2e.generated.maker import ModelMaker, Step
from tests.passes import random_graphs

STEPS: dict[str, Step] = {
    **random_graphs.STEPS,  # type: ignore[dict-item]
    **{step.__name__: step for step in (*layers.STEPS, *tensors.STEPS)},
}


def maker(seed: int) -> ModelMaker:
    """The generator of one model; its ``rng`` goes on to make the inputs."""
    return ModelMaker(seed, STEPS)


def model(made: ModelMaker, seed: int, most: int) -> onnx.ModelProto:
    """A model of 3 to ``most`` steps."""
    return made.model(3 + seed % (most - 2))
