"""The consensus filter, OmegaPRM's priority, and labels from stored counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.prm.labelling import Counts, consensus_filter, omegaprm_priority, step_labels
from stepgauge.prm.targets import er_label

LABELS = st.lists(st.integers(0, 1), min_size=1, max_size=8)


@given(LABELS, st.data())
def test_kept_exactly_where_both_find_the_same_first_error(mc, data):
    judge = data.draw(st.lists(st.integers(0, 1), min_size=len(mc), max_size=len(mc)))
    found = consensus_filter(mc, judge)
    same = "".join(map(str, mc)).find("0") == "".join(map(str, judge)).find("0")
    assert found.keep == same
    assert (found.reason is None) == same
    if same:
        assert list(found.labels) == (mc if 0 not in mc else mc[: mc.index(0) + 1])
        assert consensus_filter(mc, found.judge_first) == found


@pytest.mark.parametrize("judge", [None, [], [1], [1, 1, 1], 2, -2, True])
def test_a_judge_without_usable_labels_drops_the_solution_and_says_so(judge):
    found = consensus_filter([1, 0], judge)
    assert (found.keep, found.reason, found.labels) == (False, "no_judge", None)


def test_soft_labels_are_refused():
    with pytest.raises(ValueError, match="0 and 1"):
        consensus_filter([0.5, 1], [1, 1])
    with pytest.raises(ValueError, match="no steps"):
        consensus_filter([], [])


@given(st.floats(0, 1), st.integers(0, 2000), st.integers(0, 50), st.integers(0, 500))
def test_the_priority_prefers_promising_short_and_seldom_visited(mc, words, visits, total):
    score = omegaprm_priority(mc, words, visits, total).score
    assert omegaprm_priority(min(1, mc + 0.1), words, visits, total).score >= score
    assert omegaprm_priority(mc, words + 100, visits, total).score < score
    assert omegaprm_priority(mc, words, visits + 1, total).score < score
    assert omegaprm_priority(mc, words, 0, 0) == omegaprm_priority(mc, words, 0, 1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((1.1, 1, 1, 1), "mc"), ((0.5, -1, 1, 1), "words"), ((0.5, 1, -1, 1), "visits"), ((0.5, 1, 1, -1), "total")],
)
def test_priorities_out_of_range(arguments, name):
    with pytest.raises(ValueError, match=name):
        omegaprm_priority(*arguments)


@given(st.integers(0, 20), st.integers(0, 20), st.floats(-20, 20))
def test_labels_are_derived_late_from_counts(correct, wrong, eta):
    count = Counts(correct, wrong, truncated=3, undecided=1)
    hard, soft, er = (step_labels([count], target=t, eta=eta)[0] for t in ("hard", "soft", "er"))
    if correct + wrong == 0:
        assert (hard, soft, er) == (None, None, None)
        return
    rewards = [1] * correct + [0] * wrong
    assert hard == float(correct > 0)
    assert soft == pytest.approx(sum(rewards) / len(rewards))
    assert er == pytest.approx(float(er_label(rewards, eta)), abs=1e-12)
    assert Counts.from_json(count.to_json()) == count


def test_labels_implied_by_a_search():
    counts = [Counts(), Counts(2, 1), Counts(0, 8), Counts(1, 7)]
    assert step_labels(counts, first_error=2) == [1.0, 1.0, 0.0, None]
    assert step_labels(counts, first_error=-1) == [1.0] * 4
    assert step_labels(counts) == [None, 1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="first_error"):
        step_labels(counts, first_error=4)
    with pytest.raises(ValueError, match="target"):
        step_labels(counts, target="harder")
    with pytest.raises(ValueError, match="counts"):
        Counts.from_json({"correct": -1})
