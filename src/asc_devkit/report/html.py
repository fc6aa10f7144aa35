"""``render_html``: one self-contained page from a report.

The page is a Jinja2 template with its style, scripts and data inlined. A content security policy that knows nothing but
the hashes of those scripts and that style keeps the page from loading anything and names in the model from running as code.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from asc_devkit.report.origins import ORIGINS, origin_of
from asc_devkit.report.text import FILTERS
from asc_devkit.report.view import MAX_LOG, page_data

# in this order: later files use what earlier ones define
SCRIPTS: Final = (
    "data.js", "dom.js", "plot.js", "table.js", "accuracy.js", "operators.js", "timeline.js", "roofline.js", "memory.js",
    "rewrites.js", "main.js",
)  # fmt: skip
PLAIN_BYTES: Final = 1 << 20  # larger data is compressed


def render_html(report: Mapping[str, Any]) -> str:
    """The page of ``report`` (docs/report_schema.md); sections the report lacks are left out of it."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters.update(FILTERS)
    environment.globals["origin_of"] = origin_of
    style, script = _read("report.css"), "\n".join(_read(name) for name in SCRIPTS)
    data, packed = _data(page_data(report))
    log = str((report.get("conversion") or {}).get("log") or "")
    return environment.get_template("report.html.j2").render(
        report=_Section(report),
        origins=ORIGINS,
        style=style,
        script=script,
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'",
        data=data,
        packed=packed,
        log=log if len(log) <= MAX_LOG else log[: MAX_LOG // 2] + "\n[...]\n" + log[-MAX_LOG // 2 :],
    )


class _Section(dict[str, Any]):
    """A mapping whose absent keys are empty sections, so that the template reads partial reports."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({k: _Section(v) if isinstance(v, Mapping) else v for k, v in values.items()})

    def __missing__(self, key: str) -> _Section:
        return _Section({})


@cache
def _read(name: str) -> str:
    return (resources.files("asc_devkit.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"


def _data(data: dict[str, Any]) -> tuple[str, bool]:
    """The data as text that cannot end its script element, and whether it is gzip in base64."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    if len(text) > PLAIN_BYTES:
        return base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii"), True
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text, False
