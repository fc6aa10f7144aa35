"""Regenerates the reference pages from the code: `make docs`; with --check exits 1 when a page is out of date."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def compatibility() -> str:
    """Status of every command users know; a row works only if a test in the suite runs it."""
    covered: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.seed":
                    for argument in mark.args:
                        covered.setdefault(str(ast.literal_eval(argument)), []).append(
                            f"`{path.relative_to(ROOT)}::{node.name}`"
                        )
    rows = json.loads((DOCS / "seed_commands.json").read_text(encoding="utf-8"))["rows"]
    lines = [
        "# Compatibility",
        "",
        "Generated from the tests (`make docs`): a command is `works` only if at least one test of the suite runs it.",
        "",
        "| id | area | command | status | tests |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        tests = covered.get(row["id"], [])
        command = row["command"].replace("|", "\\|")
        status = "works" if tests else "not yet"
        lines.append(f"| {row['id']} | {row['area']} | `{command}` | {status} | {'<br>'.join(tests)} |")
    return "\n".join(lines) + "\n"


def options() -> str:
    """The ATC option table."""
    from asc_devkit.atc.options import table

    specs = list(table().values())
    vendor = sum(spec.origin == "vendor" for spec in specs)
    lines = [
        "# Options",
        "",
        f"The {vendor} options of the vendor's `atc`, and those that only articles or this toolkit know.",
        "*implemented*: changes the result as described. *recorded*: accepted and noted in the log, without effect here.",
        "*not applicable here*: meaningless without the vendor's compiler. *since*: month of the oldest public material",
        "we saw the option in. `-` and `_` in names, `--name value` and unambiguous beginnings of names are understood.",
    ]
    for group in dict.fromkeys(spec.group for spec in specs):
        lines += ["", f"## {group.capitalize()}", ""]
        lines += ["| option | values | default | since | effect | meaning |", "|---|---|---|---|---|---|"]
        for spec in specs:
            if spec.group != group:
                continue
            note = f" ({spec.origin}{': ' + spec.alias if spec.alias else ''})" if spec.origin != "vendor" else ""
            cells = (", ".join(spec.values), spec.default, spec.since, spec.effect, spec.sentence)
            lines.append(f"| `--{spec.name}`{note} | " + " | ".join(map(_escaped, cells)) + " |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def pages() -> dict[str, Callable[[], str]]:
    """File name under docs/ -> function that renders it."""
    from asc_devkit.atc import errors
    from asc_devkit.ops import docs as ops_docs
    from asc_devkit.passes import document as passes_docs
    from asc_devkit.passes.pipeline import all_passes
    from asc_devkit.precision.policy import document as standards
    from asc_devkit.report import schema_page
    from asc_devkit.soc import docs as soc_docs

    return {
        "compatibility.md": compatibility,
        "options.md": options,
        "errors.md": errors.page,
        "supported_operators.md": ops_docs.render,
        "passes.md": lambda: passes_docs.page(all_passes()),
        "chips.md": soc_docs.render,
        "standards.md": standards.page,
        "report_schema.md": schema_page.page,
    }


def main() -> int:
    stale = []
    for name, render in pages().items():
        text, path = render(), DOCS / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    print("out of date: " + ", ".join(stale) if stale else "all pages are current")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
