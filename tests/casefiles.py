"""Where tests find their cases: files beside the tests, and public data that lives outside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = HERE / "cases"


def method_cases(method: str) -> list:
    """The worked cases of one method, as pytest parameters."""
    cases = json.loads((CASES / "method_cases.json").read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in cases if case["method"] == method]


def shared_dir() -> Path | None:
    """The folder with public data sets, which are not part of the repository: $STEPGAUGE_SHARED, else ../shared."""
    for path in (os.environ.get("STEPGAUGE_SHARED"), HERE.parent.parent / "shared"):
        if path and Path(path).is_dir():
            return Path(path)
    return None
