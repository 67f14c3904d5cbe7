"""A real browser for tests of pages: Debian's Chromium without a network."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --window-size=1400,1000""".split()


def start_browser(profile):
    """Chromium under Selenium; skips where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def axe_violations(browser):
    """What axe finds on the open page: rule and elements."""
    folder = Path(importlib.util.find_spec("axe_selenium_python").submodule_search_locations[0])
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    browser.execute_script((folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    return [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in found["violations"]]
