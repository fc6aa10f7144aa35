"""``docs/passes.md`` from the pass declarations: ``python -m asc_devkit.passes.document > docs/passes.md``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable

from asc_devkit.passes.declare import GRAPH, UB, Pass
from asc_devkit.passes.pipeline import all_passes

_HEAD = """# Graph passes

What the optimise stage of a conversion may rewrite. This page is generated from the passes themselves.

Each pass can be switched off: `--fusion_switch_file=FILE` with lines `Name:off`, or with the JSON form

```json
{"Switch": {"GraphFusion": {"ALL": "on", "SoftmaxFusionPass": "off"}, "UBFusion": {"ALL": "on"}}}
```

where a single name outranks `ALL`. `fusion_result.json` beside the `.om` says how often each pass found its pattern
(`match_times`) and how often it changed the graph (`effect_times`).

Names are the vendor's where its compiler has a pass for the same rewrite; names marked *own* are built the same way.
The implementation is this project's in every case. Passes of level O1 also run with `--oo_level=O1`. Rewrites never
take weights out of the range of float16.
"""


def page(passes: Iterable[Pass]) -> str:
    """The Markdown text for ``passes``."""
    items = list(passes)
    parts = [_HEAD]
    for group, title in ((GRAPH, "Graph fusion"), (UB, "UB fusion")):
        parts.append(f"\n## {title}\n\n| pass | rewrites | changes in the results | level |\n|---|---|---|---|\n")
        for item in items:
            if item.group == group:
                parts.append(_row(item))
    return "".join(parts)


def _row(item: Pass) -> str:
    text = " ".join((inspect.getdoc(item) or "").split())
    name = f"`{item.name}`" + (" *(own)*" if item.own else "")
    cells = (name, text, item.numerics, f"O{item.level}")
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(page(all_passes()))
