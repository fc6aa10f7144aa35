"""The JSON schema of `asc check`'s report, and its description as a page (docs/report_schema.md, made by `make docs`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

_HEAD: Final = """# The report as data

Generated from the JSON schema (`make docs`). `asc check` writes `report.json`, `asc check --json` prints it. Its schema is
[check-1.json](../src/asc_devkit/report/schema/check-1.json) (JSON Schema 2020-12), also in the installed package:

```python
from asc_devkit.report import report_schema

schema = report_schema()
```

{description} Infinities and NaN, which JSON lacks, are the strings `"inf"`, `"-inf"` and `"nan"`.

Useful questions, with jq:

```
jq -r .verdict.summary report.json
jq -r '.accuracy.layers | sort_by(-.own_error) | .[:5][] | [.name, .own_error] | @tsv' report.json
jq -r '.performance.operators | sort_by(-.us) | .[:5][] | [.name, .us, .bound_by] | @tsv' report.json
```
"""


def report_schema() -> dict[str, Any]:
    """The schema of report.json, ``asc-devkit/check/1``."""
    text = (resources.files("asc_devkit.report") / "schema" / "check-1.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def page() -> str:
    """The schema as Markdown: a table per section, nested fields with their path; objects used often at the end."""
    schema = report_schema()
    lines = [_HEAD.format(description=schema["description"])]
    single = {k: v for k, v in schema["properties"].items() if not _variants(v)}
    lines += ["## Top level", "", *_table(_rows(schema, {"properties": single, "required": schema["required"]}, ""))]
    for name, part in schema["properties"].items():
        if name not in single:
            absent = "" if name in schema["required"] else " Absent when it could not be made."
            lines += ["", f"## `{name}`", "", f"{part.get('description', '')}{absent}"]
            for variant in _variants(part):
                lines += ["", *_table(_rows(schema, variant, ""))]
    for name, part in schema["$defs"].items():
        if "properties" in part:
            about = ["", part["description"]] if "description" in part else []
            lines += ["", f"## {name}", *about, "", *_table(_rows(schema, part, ""))]
    return "\n".join(lines) + "\n"


def _table(rows: Iterator[tuple[str, str, str]]) -> list[str]:
    cells = [f"| `{name}` | {kind} | {text} |" for name, kind, text in rows]
    return ["| field | type | meaning |", "|---|---|---|", *cells]


def _rows(schema: dict[str, Any], part: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in part.get("properties", {}).items():
        path = prefix + name
        text = str(field.get("description", "")).replace("|", "\\|")
        optional = "" if name in part.get("required", ()) else " *(optional)*"
        yield path, _kind(schema, field), (text + optional).strip()
        inner = f"{path}[]." if "items" in field else f"{path}."
        for variant in _variants(field):
            yield from _rows(schema, variant, inner)


def _variants(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects spelled out in ``part`` (in its items for a list); references are described in their own place."""
    if "items" in part:
        return _variants(part["items"])
    return [option for option in part.get("oneOf", [part]) if "properties" in option]


def _kind(schema: dict[str, Any], field: dict[str, Any]) -> str:
    """A type as people read it: ``number or null``, ``list of string``, a link to an object used in several places."""
    if "$ref" in field:
        name = field["$ref"].removeprefix("#/$defs/")
        return f"[{name}](#{name})" if "properties" in schema["$defs"][name] else name
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "oneOf" in field:
        return " or ".join(dict.fromkeys(_kind(schema, option) for option in field["oneOf"]))
    if "items" in field:
        return f"list of {_kind(schema, field['items'])}"
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
