"""ProcessBench's measure: what counts, what does not, and its edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.evaluate.processbench import first_below, processbench_f1

SCORES = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=6)


@given(st.lists(SCORES, min_size=1, max_size=10), st.floats(0, 1), st.data())
def test_against_counting(step_scores, threshold, data):
    labels = [data.draw(st.integers(-1, len(scores) - 1)) for scores in step_scores]
    found = processbench_f1(step_scores, labels, threshold=threshold)
    right = [p == label for p, label in zip(found.predictions, labels, strict=True)]
    wrong_ones = [hit for hit, label in zip(right, labels, strict=True) if label >= 0]
    clean_ones = [hit for hit, label in zip(right, labels, strict=True) if label < 0]
    assert found.acc_error == (sum(wrong_ones) / len(wrong_ones) if wrong_ones else None)
    assert found.acc_correct == (sum(clean_ones) / len(clean_ones) if clean_ones else None)
    assert (found.f1 is None) == (not wrong_ones or not clean_ones)
    if found.f1 is not None:
        assert min(found.acc_error, found.acc_correct) <= found.f1 + 1e-12
        assert found.f1 <= max(found.acc_error, found.acc_correct) + 1e-12


def test_an_oracle_gets_one_and_a_flatterer_nothing():
    labels = [0, 2, -1, -1]
    oracle = [[0.0, 1.0], [1.0, 1.0, 0.0], [1.0], [1.0, 1.0]]
    assert processbench_f1(oracle, labels, threshold=0.5).f1 == 1.0
    flatterer = [[1.0] * len(scores) for scores in oracle]
    found = processbench_f1(flatterer, labels, threshold=0.5)
    assert (found.acc_error, found.acc_correct, found.f1) == (0.0, 1.0, 0.0)
    silent = [[None] * len(scores) for scores in oracle]
    assert processbench_f1(silent, labels, threshold=0.5) == found
    assert processbench_f1([[1.0]], [0], threshold=0.5).f1 is None
    assert processbench_f1([[1.0], [0.0]], [0, -1], threshold=0.5).f1 == 0.0


@given(SCORES, st.floats(0, 1), st.floats(0, 1))
def test_a_stricter_threshold_accuses_no_later(scores, one, other):
    loose, strict = (first_below(scores, t) for t in sorted((one, other)))
    assert loose == -1 or 0 <= strict <= loose


@pytest.mark.parametrize(("scores", "labels"), [([[1.0]], []), ([[1.0]], [1]), ([[1.0]], [-2]), ([[]], [0])])
def test_bad_input(scores, labels):
    with pytest.raises(ValueError, match="processbench_f1"):
        processbench_f1(scores, labels, threshold=0.5)
