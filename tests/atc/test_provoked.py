"""Every error code that the product can report is provoked by a test; the marker itself is checked in tests/conftest.py."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from asc_devkit.atc import errors

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"(?:ASC|E|EI|EH|EZ|W)\d{4,5}")  # EE codes are seed classes


def _raised() -> dict[str, str]:
    """Code -> a place that can report it: every text of the sources that is a code, and the codes of data tables."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.setdefault(node.value, f"{path.relative_to(ROOT)}:{node.lineno}")
    for path in sorted((ROOT / "src").rglob("data/*.json")):
        if not path.name.startswith("errors"):  # the registry lists codes of others too
            for code in _codes(json.loads(path.read_text(encoding="utf-8"))):
                found.setdefault(code, str(path.relative_to(ROOT)))
    return found


def _codes(value: object) -> Iterator[str]:
    """Every ``"code": "E..."`` of a data file."""
    if isinstance(value, dict):
        if isinstance(value.get("code"), str) and CODE.fullmatch(value["code"]):
            yield value["code"]
        for item in value.values():
            yield from _codes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _codes(item)


def _marked() -> set[str]:
    codes: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.provokes" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.provokes":
                codes |= {str(ast.literal_eval(argument)) for argument in node.args}
    return codes


def test_every_code_that_can_be_reported_is_provoked_by_a_test() -> None:
    raised, marked = _raised(), _marked()
    assert len(raised) > 90  # the walk found the sources
    missing = sorted(f"{code} ({place})" for code, place in raised.items() if code not in marked)
    assert not missing, 'mark a test with @pytest.mark.provokes("CODE") for: ' + ", ".join(missing)


def test_every_code_that_can_be_reported_is_registered() -> None:
    assert not [f"{code} ({place})" for code, place in _raised().items() if errors.lookup(code) is None]
