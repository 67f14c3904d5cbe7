"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import start_browser
from tests.casefiles import shared_dir

# No deadline: the first example of a test pays for imports. In CI the examples are the same each time.
settings.register_profile("stepgauge", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("stepgauge")


@pytest.fixture(scope="module")
def frozen_collector():
    """For tests of time: a full collection over all the libraries loaded here takes half a second, and is not ours."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with public data sets; skips the test where there is none."""
    path = shared_dir()
    if path is None:
        pytest.skip("needs the public data sets: set STEPGAUGE_SHARED or put them in ../shared")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for one module, so that no process of it is there when others look for what was left behind."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
