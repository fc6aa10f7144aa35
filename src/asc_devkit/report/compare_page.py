"""``render``: the result of a comparison as one self-contained page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any


def render(result: Mapping[str, Any]) -> str:
    """The page of a result (schema ``asc-devkit/compare/1``, numbers finite). Names in it are data, never markup."""
    folder = resources.files("asc_devkit.report") / "compare"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    data = json.dumps(result).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>Accuracy comparison</title>",
            f"<style>{style}</style></head><body>",
            '<main id="page"></main>',
            f'<script type="application/json" id="data">{data}</script>',
            f"<script>{script}</script>",
            "</body></html>",
            "",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"
