"""The report in a real browser: opened, searched, filtered, driven by keys; no error, no request, accessible."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from stepgauge import Rollout, load
from stepgauge.data import bundled
from stepgauge.report import collect, report_page
from tests.report.test_report import HOSTILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs chromium and chromedriver"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1400,1000",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    hostile = Rollout(HOSTILE, (HOSTILE, "1 + 1 = 3."), gold="2", id="h", meta={"problem_id": "hostile"})
    data = collect([*bundled()[:160], hostile], {"arithmetic": load("arithmetic"), "math": load("math")})
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_page(data, title="Bundled rollouts"), encoding="utf-8")
    return path


def texts(browser, selector):
    return [found.text for found in browser.find_elements("css selector", selector)]


def test_search_filter_and_keys(browser, page):
    browser.get(page.as_uri())
    assert texts(browser, "h1") == ["Bundled rollouts"]
    assert texts(browser, "#count") == ["21 of 21 problems"]
    assert len(texts(browser, "#list li")) == 21
    assert len(texts(browser, ".candidate")) == 8
    assert len(texts(browser, ".candidate.picked")) == 1
    first = texts(browser, ".problem-text")
    body = browser.find_element("css selector", "body")
    body.send_keys("j")
    assert texts(browser, ".problem-text") != first
    body.send_keys("k")
    assert texts(browser, ".problem-text") == first
    body.send_keys("/")
    browser.switch_to.active_element.send_keys("onerror")
    assert texts(browser, "#count") == ["1 of 21 problems"]
    assert HOSTILE.split()[0] in texts(browser, ".problem-text")[0]  # shown as it was written
    search = browser.find_element("id", "search")
    search.clear()
    search.send_keys("no such words anywhere")
    assert texts(browser, "#count") == ["0 of 21 problems"]
    assert texts(browser, "#problem") == ["No problem matches."]
    search.clear()
    search.send_keys(" ")
    choose(browser, "filter", "right")
    right = len(texts(browser, "#list li"))
    choose(browser, "filter", "wrong")
    assert right + len(texts(browser, "#list li")) == 21
    choose(browser, "filter", "all")
    before = texts(browser, ".step .score")
    choose(browser, "scorer", "math")
    assert texts(browser, ".step .score") != before


def choose(browser, name, value):
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("id", name)).select_by_value(value)


def test_no_error_and_no_request(browser, page):
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    sent = [
        entry["message"] for entry in browser.get_log("performance") if "Network.requestWillBeSent" in entry["message"]
    ]
    assert [message for message in sent if "file://" not in message] == []


def test_hostile_text_ran_nothing(browser, page):
    browser.get(page.as_uri())
    search = browser.find_element("id", "search")
    search.send_keys("onerror")
    assert browser.execute_script("return document.querySelectorAll('#problem img, #problem script').length") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessible(browser, page, theme):
    """axe finds nothing, in both themes."""
    axe = Path(importlib.util.find_spec("axe_selenium_python").submodule_search_locations[0])
    source = (axe / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    browser.get(page.as_uri())
    browser.execute_script("document.documentElement.className = arguments[0]", theme)
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    browser.execute_script(source)
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    problems = [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in found["violations"]]
    assert problems == []


def test_ten_thousand_rows(browser, tmp_path):
    rollouts = [
        Rollout(f"problem {n // 4}: {n}?", (f"{n} + 1 = {n + 1}.", f"The answer is {n + 1}."), gold=str(n + 1))
        for n in range(10_000)
    ]
    path = tmp_path / "large.html"
    path.write_text(report_page(collect(rollouts, {"arithmetic": load("arithmetic")})), encoding="utf-8")
    browser.get(path.as_uri())
    assert texts(browser, "#count") == ["10000 of 10000 problems"]
    search = browser.find_element("id", "search")
    search.send_keys("9999?")
    assert texts(browser, "#count") == ["1 of 10000 problems"]
