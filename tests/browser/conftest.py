"""Debian's chromium, one for all browser tests, and the reports they open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from asc_devkit import check, files
from asc_devkit.report import render_html
from tests.browser.page import Page
from tests.browser.reports import large, refused

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1360,1000",
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A headless browser with an empty profile that logs its console and its network traffic."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert browser and driver, "install chromium and chromium-driver (`make browser`)"
    options = webdriver.ChromeOptions()
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(service=Service(driver), options=options)
    yield started
    started.quit()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three reports: ``example`` (the embedded example, really checked), ``refused`` and ``large`` (50,000 rows)."""
    made = tmp_path_factory.mktemp("reports")
    result = check.run(check.CheckOptions(None, output=made / "example", threads=1))
    assert result.html is not None
    files.write_text(made / "refused" / "report.html", render_html(refused(result.report)))
    files.write_text(made / "large" / "report.html", render_html(large(result.report, 50_000)))
    return made


@pytest.fixture(params=["example", "refused", "large"])
def any_page(request: pytest.FixtureRequest, chromium: webdriver.Chrome, folder: Path) -> Page:
    """Each of the three reports, opened."""
    return Page(chromium, folder / request.param / "report.html")


@pytest.fixture
def example(chromium: webdriver.Chrome, folder: Path) -> Page:
    """The report of the embedded example, opened."""
    return Page(chromium, folder / "example" / "report.html")


@pytest.fixture
def large_page(chromium: webdriver.Chrome, folder: Path) -> Page:
    """The report with 50,000 operators, opened."""
    return Page(chromium, folder / "large" / "report.html")
