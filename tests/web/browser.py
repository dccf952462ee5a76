"""A real headless Chromium (Debian: chromium, chromium-driver), as people's browsers are set, and what it asked for."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.conftest import wait_until

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Debian's chromium and chromium-driver"
)


class Browser:
    """One window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """The visible text of all that a CSS selector finds."""
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())", selector
        )
        return list(found)

    def text(self, selector: str = "body") -> str:
        return self.texts(selector)[0]

    def table(self) -> list[dict[str, str]]:
        """The rows of the page's first table, by title."""
        rows = self.run(
            "return [...document.querySelectorAll('.wide:first-of-type tbody tr')].map("
            "r => [...r.cells].map(c => [c.dataset.label, c.innerText.trim()]))"
        )
        return [dict(row) for row in rows]

    def facts(self) -> dict[str, str]:
        """Names and values of all lists of facts, in order."""
        both = self.run(  # at once: the page changes under us
            "const texts = tag => [...document.querySelectorAll('.facts ' + tag)].map(e => e.innerText.trim());"
            "return ['dt', 'dd'].map(texts)"
        )
        return dict(zip(*both, strict=True))

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_until(condition, what=f"{what}; the page: {self.text()[:2000]}")

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``, as a person's desktop says."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, width: int, height: int) -> None:
        """A viewport of exactly that many CSS pixels; below 700 a phone's."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def hosts(self) -> set[str]:
        """The hosts of all requests that were made since the last call."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urlsplit(message["params"]["request"]["url"])
                if url.scheme not in ("data", "chrome", "about", "blob"):
                    found.add(url.hostname or "")
        return found

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since the last call: errors, refused scripts and styles."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def opened(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A browser, ended with all its processes and files."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--disable-component-update", "--no-first-run"):  # fmt: skip
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # It leaves folders of its own behind in the one for temporary files.
    with tempfile.TemporaryDirectory(prefix="yo", ignore_cleanup_errors=True) as folder:
        service = webdriver.ChromeService(executable_path=DRIVER, env={**os.environ, "TMPDIR": folder})
        driver = webdriver.Chrome(options=options, service=service)
        try:
            browser = Browser(driver)
            browser.size(width, height)
            yield browser
        finally:
            driver.quit()
