from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.evaluate.processbench import processbench_f1
from stepgauge.evaluate.thresholds import best_threshold

VALUES = st.one_of(st.none(), st.sampled_from([-2.5, -1.0, 0.0, 0.25, 0.5, 1.0]), st.floats(-3, 3))
SOLUTIONS = st.lists(st.lists(VALUES, min_size=1, max_size=5), min_size=2, max_size=8)


@given(SOLUTIONS, st.data())
def test_no_threshold_does_better(step_scores, data):
    labels = [data.draw(st.integers(-1, len(scores) - 1)) for scores in step_scores]
    found = best_threshold(step_scores, labels)
    known = {score for scores in step_scores for score in scores if score is not None}
    if found is None:
        assert not known or len({label < 0 for label in labels}) == 1
        return
    threshold, f1 = found
    assert math.isfinite(threshold)
    assert processbench_f1(step_scores, labels, threshold=threshold).f1 == pytest.approx(f1, abs=1e-12)
    tried = {*known, *(math.nextafter(score, math.inf) for score in known - {max(known)}), min(known) - 1}
    best = max(processbench_f1(step_scores, labels, threshold=t).f1 for t in tried)
    assert f1 == pytest.approx(best, abs=1e-12)


def test_the_middle_of_the_gap():
    assert best_threshold([[0.9, 0.2], [0.8, 0.6]], [1, -1]) == (0.4, 1.0)
    assert best_threshold([[1.0, 0.0], [1.0, 1.0]], [1, -1]) == (0.5, 1.0)


@pytest.mark.parametrize(("scores", "labels"), [([[0.1]], [0]), ([[0.1]], [-1]), ([[None], [None]], [0, -1]), ([], [])])
def test_nothing_to_fit(scores, labels):
    assert best_threshold(scores, labels) is None


def test_a_threshold_that_looks_at_no_score_is_no_threshold():
    """Above every score each solution is wrong at its first scored step, whatever the scores: not offered."""
    assert best_threshold([[1.0, 1.0], [1.0, 1.0], [None, None]], [0, 0, -1])[1] == 0.0


def test_a_difference_of_one_ulp_is_kept_apart():
    a = 0.5
    b = math.nextafter(a, 1)
    threshold, f1 = best_threshold([[a], [b]], [0, -1])
    assert f1 == 1.0
    assert a < threshold <= b
