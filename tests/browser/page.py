"""A report opened in the browser, and what a person does with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

WAIT_S = 20


class Page:
    """``ready_s`` is how long the page took from opening to its data being shown."""

    def __init__(self, driver: webdriver.Chrome, file: Path) -> None:
        self.driver, self.file = driver, file
        for log in ("browser", "performance"):
            driver.get_log(log)  # what earlier pages left
        begun = time.perf_counter()
        driver.get("about:blank")
        driver.get(file.as_uri())
        self.until(lambda: driver.execute_script("return document.documentElement.dataset.ready === 'yes'"))
        self.ready_s = time.perf_counter() - begun

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait for a condition."""
        WebDriverWait(self.driver, WAIT_S, poll_frequency=0.05).until(lambda _: holds())

    def one(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """All elements of a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements, in one call to the browser."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        found: list[str] = self.driver.execute_script(script, selector)
        return found

    def tabs(self) -> list[str]:
        """Ids of the panels, in order."""
        return [str(tab.get_attribute("aria-controls")) for tab in self.all("[role=tab]")]

    def open(self, panel: str) -> WebElement:
        """Click a tab; returns its panel."""
        self.one(f"#tab-{panel}").click()
        return self.one(f"#{panel}")

    def column(self, table: str, title: str) -> list[str]:
        """The cells shown under a heading."""
        at = self.texts(f"#{table} thead th").index(title)
        return self.texts(f"#{table} tbody tr.row td:nth-child({at + 1})")

    def inked(self, plot: str) -> int:
        """Different colours a chart has drawn."""
        script = """
          const c = document.querySelector(arguments[0] + " canvas");
          const data = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
          return new Set(data).size;"""
        return int(self.driver.execute_script(script, plot))

    def console(self) -> list[str]:
        """Messages on the console."""
        return [f"{entry['level']} {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses the page asked for; the browser's own start page (chrome://) is not part of it."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith("chrome://")]
