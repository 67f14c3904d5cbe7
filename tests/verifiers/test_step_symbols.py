"""Equalities whose symbols an earlier step defines."""

from __future__ import annotations

import pytest

from stepgauge import load

TRACES = [
    (["Let x = 5.", "Then 2x = 10."], (None, 1.0), None),
    (["Let x = 5.", "Then 2x = 12."], (None, 0.0), 1),
    (["Let $r = 3$ and $h = 4$.", "The area is $r h = 12$.", "$r^2 h = 35$"], (None, 1.0, 0.0), 2),
    (["Suppose n = 1/2.", "4n = 2"], (None, 1.0), None),
    (["x = 5 or x = -3", "2x = 12"], (None, None), None),  # not given in words
    (["Let x = 5.", "Now x = 7.", "2x = 14"], (None, None, None), None),  # a second value ends it
    (["Let x be the number of apples.", "2x = 10"], (None, None), None),
    (["Let x = 5.", "2y = 12"], (None, None), None),
    (["Let x = 5.", "f(x) = 12"], (None, None), None),
    (["Let x = 3.", "x/9 = 0.333"], (None, 1.0), None),
]


@pytest.mark.parametrize(("steps", "values", "error_step"), TRACES)
def test_traces(steps, values, error_step):
    scores = load("arithmetic").score(steps)
    assert scores.values == values
    assert scores.error_step == error_step


def test_the_failed_claim_is_named():
    scores = load("arithmetic").score(["Let x = 5.", "So 2x = 10 and 3x = 16."])
    assert [claim["text"] for claim in scores.details[1]["claims"] if not claim["holds"]] == ["3x = 16"]
