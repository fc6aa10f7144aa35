"""``render``: what a ``Monitor`` saw, as one self-contained page that loads itself again while the training runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from asc_devkit.report.compare_page import document


def render(facts: Mapping[str, Any]) -> str:
    """The page. Names are data, never markup."""
    folder = resources.files("asc_devkit.report") / "monitor"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return document("Training monitor", style, script, _clean(facts))


def _clean(value: Any) -> Any:
    """JSON without NaN and infinities."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, (list, tuple)) else value
