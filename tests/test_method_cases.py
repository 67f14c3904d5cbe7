"""Every worked case of every method goes through the public functions.

The cases are those of ``$STEPGAUGE_METHOD_CASES``, else the copy beside the tests. A module of
``tests/method_adapters`` maps the names of a case onto a public function
(``ADAPTERS[method](inputs, expected) -> {name: value}``) and does no maths. An expected null means undefined: the
function raises ValueError, or gives None.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
from pathlib import Path

import pytest

from tests import method_adapters
from tests.casefiles import CASES

ADAPTERS = {
    method: adapter
    for module in pkgutil.iter_modules(method_adapters.__path__)
    for method, adapter in importlib.import_module(f"tests.method_adapters.{module.name}").ADAPTERS.items()
}
FILE = Path(os.environ.get("STEPGAUGE_METHOD_CASES", CASES / "method_cases.json"))


def _plain(value):
    """Tensors, arrays and tuples as lists and floats, so that two values can be held side by side."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _check(got, expected, tol, where):
    if isinstance(expected, dict):
        assert isinstance(got, dict), f"{where}: expected {expected}, got {got!r}"
        assert set(got) >= set(expected), f"{where}: no value for {sorted(set(expected) - set(got))}"
        for key, value in expected.items():
            _check(got[key], value, tol, f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(got, list), f"{where}: expected {expected}, got {got!r}"
        assert len(got) == len(expected), f"{where}: expected {expected}, got {got}"
        for index, pair in enumerate(zip(got, expected, strict=True)):
            _check(*pair, tol, f"{where}[{index}]")
    elif isinstance(expected, bool) or not isinstance(expected, (int, float)):
        assert got == expected, f"{where}: expected {expected!r}, got {got!r}"
    else:
        assert isinstance(got, (int, float)), f"{where}: expected {expected}, got {got!r}"
        assert math.isclose(got, expected, rel_tol=tol, abs_tol=tol), f"{where}: expected {expected}, got {got}"


@pytest.mark.parametrize("case", json.loads(FILE.read_text(encoding="utf-8"))["cases"], ids=lambda case: case["id"])
def test_case(case):
    adapter = ADAPTERS.get(case["method"])
    if adapter is None:
        pytest.skip(f"no public function for {case['method']} yet")
    try:
        got = adapter(case["inputs"], case["expected"])
    except ValueError:
        assert case["expected"] is None, f"{case['id']} raised"
        return
    _check(_plain(got), case["expected"], case["tol"], case["id"])


def test_a_wrong_number_is_found():
    """The comparison itself can fail: wrong values, missing keys, wrong lengths and a value for an undefined case."""
    wrong = [(1.1, 1.0), ({"a": 1}, {"a": 1, "b": 2}), ([1], [1, 2]), (True, False), (0.0, None), ("a", "b")]
    for got, expected in wrong:
        with pytest.raises(AssertionError):
            _check(got, expected, 1e-9, "case")
