"""report.html in a real browser: offline, without errors, every tab, tables and charts, at 50,000 rows and hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.page import Page
from tests.browser.reports import HOSTILE

pytestmark = pytest.mark.xdist_group("browser")  # one browser for all
ALL_TABS = ["verdict", "accuracy", "operators", "roofline", "memory", "rewrites", "log", "environment"]
LARGEST_PAGE = 6 << 20
READY_S = 8.0  # generous: the machine that runs this may be busy


def test_every_tab_opens_without_network_or_console_messages(any_page: Page) -> None:
    for panel in any_page.tabs():
        shown = any_page.open(panel)
        assert shown.is_displayed()
        assert [p.get_attribute("id") for p in any_page.all("[role=tabpanel]") if p.is_displayed()] == [panel]
        assert shown.text.strip()
    assert any_page.console() == []
    assert {url for url in any_page.requests() if url != "about:blank"} == {any_page.file.as_uri()}


def test_the_example_has_all_parts(example: Page) -> None:
    assert example.tabs() == ALL_TABS
    assert len(example.all(".answer.yes")) >= 3
    assert "99." in example.one("#verdict").text


@pytest.mark.parametrize(
    ("panel", "plot"),
    [
        ("accuracy", "#layer-chart"),
        ("operators", "#timeline"),
        ("roofline", "#roof-chart"),
        ("memory", "#memory-chart"),
    ],
)
def test_charts_are_drawn(example: Page, panel: str, plot: str) -> None:
    example.open(panel)
    example.until(lambda: example.inked(plot) > 5)


def test_typing_filters_the_operators(example: Page) -> None:
    example.open("operators")
    everything = example.column("operator-table", "Type")
    box = example.one("#operator-table input[type=search]")
    box.send_keys("conv")
    example.until(lambda: len(example.column("operator-table", "Type")) < len(everything))
    names = example.column("operator-table", "Operator")
    types = example.column("operator-table", "Type")
    assert names and all("conv" in f"{n} {t}".lower() for n, t in zip(names, types, strict=True))
    box.send_keys("nothing has this name")
    example.until(lambda: "Nothing matches." in example.texts("#operator-table tbody td"))
    box.send_keys(Keys.CONTROL, "a", Keys.DELETE)
    example.until(lambda: example.column("operator-table", "Type") == everything)


def test_clicking_a_heading_sorts_and_clicking_again_turns_round(example: Page) -> None:
    example.open("operators")
    heading = "#operator-table thead th:nth-child(2)"
    example.one(f"{heading} button").click()
    ascending = example.column("operator-table", "Operator")
    assert example.one(heading).get_attribute("aria-sort") == "ascending"
    assert ascending == sorted(ascending) and len(set(ascending)) > 1
    example.one(f"{heading} button").click()
    assert example.column("operator-table", "Operator") == ascending[::-1]


def test_choosing_a_row_shows_the_operator(example: Page) -> None:
    example.open("operators")
    name = example.column("operator-table", "Operator")[0]
    example.one("#operator-table tbody tr.row td").click()
    assert name in example.one("#operator-detail").text
    assert example.one("#operator-table tr[aria-selected=true]").text.find(name) >= 0


def test_tabs_follow_the_arrow_keys_and_the_address(example: Page) -> None:
    example.one("#tab-verdict").send_keys(Keys.ARROW_RIGHT)
    assert example.one("#accuracy").is_displayed()
    assert example.driver.current_url.endswith("#accuracy")
    example.driver.switch_to.active_element.send_keys(Keys.END)
    assert example.one("#environment").is_displayed()


def test_fifty_thousand_operators_stay_quick(large_page: Page) -> None:
    assert large_page.file.stat().st_size < LARGEST_PAGE
    assert large_page.ready_s < READY_S
    large_page.open("operators")
    assert "50,000 rows" in large_page.one("#operator-table output").text
    assert len(large_page.all("#operator-table tbody tr")) < 100
    box = large_page.one("#operator-table input[type=search]")
    box.send_keys("op_49999")
    large_page.until(lambda: large_page.column("operator-table", "Operator") == ["op_49999"])
    box.send_keys(Keys.CONTROL, "a", Keys.DELETE)
    slowest = large_page.column("operator-table", "Operator")
    view = large_page.one("#operator-table .view")
    large_page.driver.execute_script("arguments[0].scrollTop = arguments[0].scrollHeight", view)
    large_page.until(lambda: not set(large_page.column("operator-table", "Operator")) & set(slowest))


def test_names_in_the_model_never_run_or_change_the_page(any_page: Page) -> None:
    assert any_page.driver.title != "taken"
    assert any_page.all("img") == []
    if any_page.file.parent.name == "refused":
        assert HOSTILE in any_page.one("h1").text
        assert any_page.tabs() == ["verdict", "log", "environment"]
        assert len(any_page.all(".problem")) == 3


def test_the_policy_forbids_loading_anything(folder: Path) -> None:
    text = (folder / "example" / "report.html").read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "http://" not in text and "https://" not in text


def test_dark_and_narrow_pages_do_not_scroll_sideways(example: Page) -> None:
    driver = example.driver
    size = driver.get_window_size()
    try:
        driver.set_window_size(500, 900)
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for panel in example.tabs():
            example.open(panel)
            root = "document.documentElement"
            wide, room = driver.execute_script(f"return [{root}.scrollWidth, {root}.clientWidth]")
            assert wide <= room, panel
        background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in background.strip("rgba()").split(",")[:3]) < 80
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        driver.set_window_size(size["width"], size["height"])


def test_printing_lays_out_every_part_on_light_paper(example: Page) -> None:
    document = example.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(document) > 20_000
    assert [p.get_attribute("id") for p in example.all("[role=tabpanel]") if p.is_displayed()] == ["verdict"]
    assert example.console() == []
