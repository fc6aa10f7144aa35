"""The embedded example: a CNN trained on handwritten digits (scripts/train_digits.py) and 360 labelled held-out images.

Data: UCI Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak), CC BY 4.0, as shipped with scikit-learn.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

from asc_devkit.check.options import CheckOptions

BATCH: Final = 60  # divides the 360 held-out images, so no batch is padded
INPUT_SHAPE: Final = f"image:{BATCH},1,8,8"


def example_options(options: CheckOptions) -> CheckOptions:
    """``options`` with the example's model; its shape, data and labels fill what the user left open."""
    folder = Path(str(resources.files(__name__)))
    own_data = options.data is not None
    return replace(
        options,
        model=folder / "digits.onnx",
        input_shape=options.input_shape or INPUT_SHAPE,
        data=options.data if own_data else folder / "held_out.npz",
        labels=options.labels if own_data or options.labels else folder / "held_out.npz",
    )
