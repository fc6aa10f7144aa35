"""report.json keeps what its schema and the page about it promise."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from asc_devkit.report import report_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report_schema.md"


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(report_schema())


def test_reports_of_every_kind_keep_the_schema(report: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(report_schema()).validate(json.loads(json.dumps(report, allow_nan=False)))


@pytest.mark.parametrize("section", ["schema", "soc", "verdict", "conversion"])
def test_the_schema_notices_a_missing_section(reports: dict[str, dict[str, Any]], section: str) -> None:
    damaged = copy.deepcopy(reports["example"])
    del damaged[section]
    assert not jsonschema.Draft202012Validator(report_schema()).is_valid(damaged)


def test_the_schema_notices_a_number_written_as_text(reports: dict[str, dict[str, Any]]) -> None:
    damaged = copy.deepcopy(reports["example"])
    damaged["performance"]["total_us"] = "50.3"
    assert not jsonschema.Draft202012Validator(report_schema()).is_valid(damaged)


def test_every_field_of_real_reports_is_described(report: dict[str, Any]) -> None:
    assert sorted(set(_undescribed(report_schema(), report_schema(), report, ""))) == []


def _undescribed(schema: dict[str, Any], part: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
    judge = jsonschema.Draft202012Validator
    options = [o for o in part.get("oneOf", [part]) if judge({**o, "$defs": schema["$defs"]}).is_valid(value)]
    part = options[0] if options else part
    if isinstance(value, list) and "items" in part:
        for item in value:
            yield from _undescribed(schema, part["items"], item, f"{path}[]")
    elif isinstance(value, dict) and "properties" in part:
        for key, item in value.items():
            field = part["properties"].get(key)
            if field is None or not (field.get("description") or "$ref" in field):
                yield f"{path}.{key}"
            else:
                yield from _undescribed(schema, field, item, f"{path}.{key}")


def test_the_page_names_every_field() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = set(_names(report_schema()))
    assert len(names) > 80
    assert [name for name in names if f"{name}`" not in text] == []


def _names(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "properties":
                yield from value
            yield from _names(value)
    elif isinstance(part, list):
        for item in part:
            yield from _names(item)
