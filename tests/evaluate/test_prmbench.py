from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.evaluate.prmbench import CATEGORIES, evaluate_prmbench, prm_score

STEP = st.tuples(st.one_of(st.none(), st.floats(0, 1)), st.sampled_from([0.0, 1.0]))
SOLUTION = st.tuples(st.lists(STEP, min_size=1, max_size=5), st.sampled_from(sorted(CATEGORIES)))


def _columns(solutions):
    scores = [[score for score, _ in steps] for steps, _ in solutions]
    labels = [[label for _, label in steps] for steps, _ in solutions]
    return scores, labels, [name for _, name in solutions]


def _f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _by_hand(pairs):
    """Precision and recall of right steps and of wrong steps, from (called right, is right)."""
    halves = []
    for positive in (True, False):
        hit = sum(called == truth == positive for called, truth in pairs)
        called = sum(c == positive for c, _ in pairs)
        there = sum(t == positive for _, t in pairs)
        if not called and not there:
            return None
        halves.append(_f1(hit / called if called else 0.0, hit / there if there else 0.0))
    return sum(halves) / 2


@given(st.lists(SOLUTION, min_size=1, max_size=8), st.floats(0, 1))
def test_against_precision_and_recall(solutions, threshold):
    report = evaluate_prmbench(*_columns(solutions), threshold=threshold)
    pairs = [(s is None or s >= threshold, y == 1) for steps, _ in solutions for s, y in steps]
    wanted = _by_hand(pairs)
    found = report.row("overall")
    assert (found.score is None) == (wanted is None)
    if wanted is not None:
        assert found.score == pytest.approx(wanted, abs=1e-12)
    assert found.steps == len(pairs)
    for name in {name for _, name in solutions} - {"multi_solutions"}:
        own = [(s is None or s >= threshold, y == 1) for steps, n in solutions if n == name for s, y in steps]
        assert report.row(name).score == pytest.approx(_by_hand(own))


@given(st.lists(SOLUTION, min_size=1, max_size=6))
def test_no_threshold_beats_the_oracle(solutions):
    columns = _columns(solutions)
    known = {s for steps, _ in solutions for s, _ in steps if s is not None}
    if not known:
        with pytest.raises(ValueError, match="scored step"):
            evaluate_prmbench(*columns, threshold="oracle")
        return
    if len({label for labels in columns[1] for label in labels}) < 2:
        return  # with steps of one kind only, the score is undefined for some thresholds
    best = evaluate_prmbench(*columns, threshold="oracle").row("overall").score
    for t in {*known, *(math.nextafter(s, 2) for s in known - {max(known)})}:
        assert evaluate_prmbench(*columns, threshold=t).row("overall").score <= best + 1e-12


def test_groups_are_means_of_their_classes_and_overall_pools():
    scores = [[0.9, 0.1], [0.9, 0.9], [0.9, 0.9, 0.9]]
    labels = [[1, 0], [1, 0], [1, 1, 1]]
    report = evaluate_prmbench(scores, labels, ["redundency", "circular", "multi_solutions"])
    assert report.row("redundency").score == 1.0
    assert report.row("circular").score == pytest.approx((2 / 3 + 0) / 2)
    assert report.row("simplicity").score == pytest.approx((1 + 1 / 3) / 2)
    assert report.row("multi_solutions").score == 1.0  # right steps only: F1 of right steps
    assert report.row("overall").score == pytest.approx((10 / 11 + 2 / 3) / 2)
    assert [row.name for row in report.rows[:3]] == ["overall", "simplicity", "sensitivity"]


def test_undefined_parts():
    assert prm_score(0, 0, 0, 0) == (None, None, None)
    assert prm_score(3, 0, 0, 0) == (1.0, None, None)
    assert prm_score(0, 2, 0, 3) == (0.0, 0.0, 0.0)


def test_kinds():
    arguments = ([[0.1, -0.1]], [[1, 0]], ["deception"])
    assert evaluate_prmbench(*arguments, kind="log_ratio").row("overall").score == 1.0
    with pytest.raises(ValueError, match="no natural threshold"):
        evaluate_prmbench(*arguments, kind="confidence")
    assert evaluate_prmbench(*arguments, kind="confidence", threshold="oracle").fitted


@pytest.mark.parametrize(
    ("scores", "labels", "classes"),
    [([], [], []), ([[1.0]], [[1]], []), ([[1.0]], [[1, 0]], ["circular"]), ([[1.0]], [[1]], ["nonsense"])],
)
def test_bad_input(scores, labels, classes):
    with pytest.raises(ValueError, match="evaluate_prmbench"):
        evaluate_prmbench(scores, labels, classes)
