"""Shared by all tests: the method cases, and the public data that lives outside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def method_cases(method: str) -> list:
    """The worked cases of one method, as pytest parameters."""
    cases = json.loads((HERE / "cases" / "method_cases.json").read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in cases if case["method"] == method]


def shared_dir() -> Path | None:
    """The folder with public data sets, which are not part of the repository: $STEPGAUGE_SHARED, else ../shared."""
    for path in (os.environ.get("STEPGAUGE_SHARED"), HERE.parent.parent / "shared"):
        if path and Path(path).is_dir():
            return Path(path)
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    """``shared_dir()``; skips the test where there is none."""
    path = shared_dir()
    if path is None:
        pytest.skip("needs the public data sets: set STEPGAUGE_SHARED or put them in ../shared")
    return path
