"""The page of a comparison in a browser: what a person sees, filters and clicks."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from asc_devkit import files
from asc_devkit.precision.comparison import Options, compare_paths
from asc_devkit.precision.comparison.outputs import finite
from asc_devkit.precision.comparison.pairs import PairOptions
from asc_devkit.precision.policy import Policy
from asc_devkit.report.compare_page import render
from tests.precision.nets import make
from tests.precision.test_localisation import tensor_files


@pytest.fixture(scope="module")
def page(chromium: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory) -> webdriver.Chrome:
    """The report of a net with four faults, judged with its model."""
    folder: Path = tmp_path_factory.mktemp("compare")
    case = make(5)
    onnx.save(case.model, folder / "net.onnx")
    golden, target = tensor_files(folder / "g", case.golden, False), tensor_files(folder / "t", case.target, False)
    result = compare_paths(golden, target, Options(PairOptions(Policy("cann-eco")), model=folder / "net.onnx"))
    assert [f.op for f in result.findings] == list(case.faults)
    files.write_text(folder / "page.html", render(finite(result.page())))
    chromium.get_log("browser")
    chromium.get((folder / "page.html").as_uri())
    return chromium


def texts(page: webdriver.Chrome, selector: str) -> list[str]:
    return [e.text for e in page.find_elements(By.CSS_SELECTOR, selector)]


def test_the_verdict_and_the_operators_to_blame_come_first(page: webdriver.Chrome) -> None:
    assert page.find_element(By.CSS_SELECTOR, "h1 .verdict").text == "FAIL"
    assert len(texts(page, "#findings tbody tr")) == 4
    assert texts(page, "#model")[0].startswith("bug: 4 of ")
    assert page.get_log("browser") == []


def test_the_curve_and_the_graph_mark_them(page: webdriver.Chrome) -> None:
    marked = page.execute_script(
        "return [...document.querySelectorAll('#along circle')].filter(c => c.getAttribute('r') === '5').length"
    )
    assert marked == 4
    first = texts(page, "#findings tbody tr td")[0]
    assert first in "".join(
        page.execute_script("return [...document.querySelectorAll('#graph title')].map(t => t.textContent)")
    )


def test_filters_narrow_the_table(page: webdriver.Chrome) -> None:
    rows = len(page.find_elements(By.CSS_SELECTOR, "#tensors tbody tr"))
    page.find_element(By.ID, "filter").send_keys("layernorm")
    narrowed = texts(page, "#tensors tbody tr td:nth-child(2)")
    assert 0 < len(narrowed) < rows and all("layernorm" in name for name in narrowed)
    page.find_element(By.ID, "filter").clear()
    page.execute_script("document.getElementById('filter').oninput()")


def test_a_click_shows_values_histograms_and_the_heat_map(page: webdriver.Chrome) -> None:
    page.find_elements(By.CSS_SELECTOR, "#findings tbody tr")[1].click()
    assert page.find_elements(By.CSS_SELECTOR, "#detail svg.heat rect")
    assert len(page.find_elements(By.CSS_SELECTOR, "#detail svg")) == 3
    assert "rmse" in page.find_element(By.ID, "detail").text
    assert page.get_log("browser") == []
