"""The page and the terminal summary of reports: complete, safe, small, and right about partial data."""

from __future__ import annotations

import base64
import copy
import gzip
import io
import json
import re
import time
from typing import Any

import pytest

from asc_devkit.report import print_summary, render_html, text
from asc_devkit.report.view import number, page_data
from tests.browser.reports import HOSTILE, large, refused


def _data(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data" data-packed="(\w+)">(.*?)</script>', html, re.S)
    assert found is not None
    packed, body = found.groups()
    plain = gzip.decompress(base64.b64decode(body)).decode() if packed == "yes" else body
    made: dict[str, Any] = json.loads(plain)
    return made


def _summary(report: dict[str, Any]) -> str:
    out = io.StringIO()
    print_summary(report, file=out)
    return out.getvalue()


def test_the_page_carries_all_operators_and_layers(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["example"]
    data = _data(render_html(report))
    names = [data["texts"][place] for place in data["operators"]["name"]]
    assert names == [o["name"] for o in report["performance"]["operators"]]
    assert data["operators"]["us"] == [pytest.approx(o["us"], rel=1e-4) for o in report["performance"]["operators"]]
    assert [data["texts"][place] for place in data["layers"]["name"]] == [
        r["name"] for r in report["accuracy"]["layers"]
    ]


def test_the_page_loads_nothing(report: dict[str, Any]) -> None:
    html = render_html(report)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)", html)
    assert not re.search(r"url\(|@import|https?://", html)


def test_hostile_names_stay_text(reports: dict[str, dict[str, Any]]) -> None:
    report = copy.deepcopy(reports["example"])
    report["model"]["name"] = HOSTILE
    for operator in report["performance"]["operators"]:
        operator["name"] = HOSTILE
    for layer in report["accuracy"]["layers"]:
        layer["name"] = layer["tensor"] = HOSTILE
    for html in (render_html(report), render_html(refused(reports["example"]))):
        assert "<img" not in html and html.count("</script>") == 2
        assert "49" not in re.findall(r"<h1>(.*?)</h1>", html)[0]  # {{7*7}} is not evaluated


@pytest.mark.parametrize("section", ["accuracy", "performance", "memory"])
def test_a_report_without_a_section_has_a_page_without_it(reports: dict[str, dict[str, Any]], section: str) -> None:
    report = copy.deepcopy(reports["example"])
    del report[section]
    tab = {"performance": "operators"}.get(section, section)
    assert f'id="tab-{tab}"' in render_html(reports["example"])
    assert f'id="tab-{tab}"' not in render_html(report)
    assert "digits" in _summary(report)


def test_fifty_thousand_operators_make_a_small_page_in_seconds(reports: dict[str, dict[str, Any]]) -> None:
    report = large(reports["example"], 50_000)
    begun = time.process_time()
    html = render_html(report)
    assert time.process_time() - begun < 60
    assert len(html) < 6 << 20
    assert len(_data(html)["operators"]["name"]) == 50_000


def test_the_summary_answers_all_questions_without_colour_when_piped(report: dict[str, Any]) -> None:
    shown = _summary(report)
    assert "\x1b" not in shown
    for question in ("Converts?", "Accurate?", "How fast?", "Fits?"):
        assert question in shown
    assert ("not accepted" in shown) == (not report["verdict"]["passed"])


def test_the_summary_names_every_problem(reports: dict[str, dict[str, Any]]) -> None:
    shown = re.sub(r"\s+", " ", _summary(reports["refused"]))
    for problem in reports["refused"]["problems"]:
        assert problem["code"] in shown
        assert re.sub(r"\s+", " ", problem["what"]) in shown


def test_markup_in_names_is_printed_not_obeyed(reports: dict[str, dict[str, Any]]) -> None:
    report = copy.deepcopy(reports["example"])
    report["model"]["name"] = "[red]net[/red]"
    report["accuracy"]["layers"][0]["name"] = "[link=x]layer"
    shown = _summary(report)
    assert "[red]net[/red]" in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123456, 0.12346),
        (3.0, 3),
        (12, 12),
        (True, None),
        (None, None),
        (float("nan"), "nan"),
        ("inf", "inf"),
        ("x", None),
    ],
)
def test_numbers_of_the_page(value: Any, shown: Any) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (text.microseconds, 0.5, "0.50 us"),
        (text.microseconds, 1234.0, "1.23 ms"),
        (text.microseconds, 2.5e6, "2.50 s"),
        (text.microseconds, None, "unknown"),
        (text.size, 1536, "1.50 KiB"),
        (text.size, 48 * 2**30, "48.0 GiB"),
        (text.percent, 0.9917, "99.17 %"),
        (text.cosine, 0.99999999, "> 0.999999"),
        (text.cosine, 1.0, "1.000000"),
        (text.cosine, "nan", "nan"),
    ],
)
def test_figures_read_as_people_write_them(function: Any, value: Any, shown: str) -> None:
    assert function(value) == shown


def test_texts_are_stored_once(reports: dict[str, dict[str, Any]]) -> None:
    texts = page_data(reports["example"])["texts"]
    assert len(texts) == len(set(texts))
