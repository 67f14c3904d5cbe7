"""The server's page in a real browser, against a real server."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from stepgauge import load
from stepgauge.serve import create_app
from tests.browser import axe_violations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    import uvicorn

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = create_app({"arithmetic": load("arithmetic"), "math": load("math")}, token="secret")
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join()


def wait_for(browser, words):
    """The result's text, once it has the words."""
    stop = time.monotonic() + 20
    while time.monotonic() < stop:
        text = browser.find_element("id", "result").text
        if words in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"no {words!r} in {text!r}")


def test_paste_and_score(browser, address):
    browser.get(address)
    browser.get_log("performance")
    browser.find_element("id", "text").send_keys("3 * 12 = 36.\n36 + 1 = 38. <img src=x onerror=alert(1)>\n")
    button = browser.find_element("css selector", "button[type=submit]")
    button.click()
    wait_for(browser, "401")
    browser.find_element("id", "token").send_keys("secret")
    button.click()
    text = wait_for(browser, "first wrong step")
    assert "aggregate: 0" in text
    assert "<img src=x" in text  # as it was written
    assert browser.execute_script("return document.querySelectorAll('#result img').length") == 0
    assert axe_violations(browser) == []
    sent = [e["message"] for e in browser.get_log("performance") if "Network.requestWillBeSent" in e["message"]]
    assert sent
    assert [message for message in sent if address not in message] == []
