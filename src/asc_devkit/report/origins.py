"""Where numbers come from, said the same way on the page, in the terminal and in the documentation."""

from __future__ import annotations

from typing import Final

# key -> (label, what it means)
ORIGINS: Final[dict[str, tuple[str, str]]] = {
    "measured": (
        "measured on host",
        "Taken on this computer: wall times, file sizes, the original model's own results.",
    ),
    "simulated": (
        "simulated numerics",
        "Computed by the virtual NPU: the compiled graph in the chip's types and rounding, on this CPU.",
    ),
    "estimated": (
        "estimated",
        "Predicted by the performance model; the interval holds 80 % of comparable measurements.",
    ),
    "planned": ("planned", "Follows from the compiled graph: sizes and lifetimes of its tensors."),
}
_OF_ANSWER: Final = {"converts": "measured", "accurate": "simulated", "fast": "estimated", "fits": "planned"}


def origin_of(answer: str) -> str:
    """Key into ``ORIGINS`` of the verdict's answer ``answer``."""
    return _OF_ANSWER[answer]
