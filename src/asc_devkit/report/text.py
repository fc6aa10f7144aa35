"""Numbers as people read them: times, sizes, counts, shares, errors. Shared by the page's template and the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def microseconds(value: Any) -> str:
    """``1.2 us``, ``3.40 ms``, ``1.20 s``."""
    if not isinstance(value, (int, float)):
        return "unknown" if value is None else str(value)
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} us"


def size(value: Any) -> str:
    """Bytes in KiB, MiB or GiB."""
    if not isinstance(value, (int, float)):
        return "unknown" if value is None else str(value)
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{_three(value / factor)} {unit}"
    return f"{value:.0f} B"


def percent(value: Any) -> str:
    """A share of one as a percentage."""
    return f"{100 * value:.2f} %" if isinstance(value, (int, float)) else str(value)


def small(value: Any) -> str:
    """A number of unknown magnitude with three significant digits."""
    return f"{value:.3g}" if isinstance(value, (int, float)) else str(value)


def cosine(value: Any) -> str:
    """Cosines never round up to one."""
    if not isinstance(value, (int, float)):
        return str(value)
    text = f"{value:.6f}"
    return "> 0.999999" if value < 1 and text == "1.000000" else text


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def answer(sentence: str) -> str:
    """A verdict's answer without the yes or no that an icon or a coloured word beside it already says."""
    for word in ("Yes: ", "No: "):
        if sentence.startswith(word):
            return sentence[len(word) : len(word) + 1].upper() + sentence[len(word) + 1 :]
    return sentence


FILTERS: Final[dict[str, Callable[[Any], str]]] = {
    "microseconds": microseconds,
    "size": size,
    "percent": percent,
    "small": small,
    "cosine": cosine,
    "answer": answer,
}
