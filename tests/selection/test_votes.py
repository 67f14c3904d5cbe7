from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import best_of_n, bootstrap_interval, borda_vote, majority_vote, pass_at_k, weighted_vote
from tests.casefiles import method_cases

ANSWERS = st.lists(st.tuples(st.sampled_from(["A", "B", "C", None]), st.floats(0, 1)), min_size=1, max_size=20)


@pytest.mark.parametrize("case", method_cases("best_of_n"))
def test_worked_cases_of_best_of_n(case):
    answers, scores = case["inputs"]["answers"], case["inputs"]["scores"]
    expected = case["expected"]
    assert best_of_n(answers, scores).winner == expected["vanilla"]
    assert majority_vote(answers).winner == expected["majority"]
    weighted = weighted_vote(answers, scores)
    assert weighted.winner == expected["weighted"]
    assert weighted.votes == pytest.approx(expected.get("weights", {}), abs=case["tol"])


@pytest.mark.parametrize("case", method_cases("borda_vote"))
def test_worked_cases_of_borda(case):
    inputs = case["inputs"]
    vote = borda_vote(inputs["answers"], inputs["confidence"], inputs["p"])
    assert vote.votes == pytest.approx(case["expected"]["votes"], abs=case["tol"])
    assert vote.winner == case["expected"]["winner"]


@pytest.mark.parametrize("case", method_cases("pass_at_k"))
def test_worked_cases_of_pass_at_k(case):
    n, c, k = (case["inputs"][name] for name in "nck")
    assert pass_at_k(n, c, k) == pytest.approx(case["expected"]["unbiased"], abs=case["tol"])
    assert 1 - (1 - c / n) ** k == pytest.approx(case["expected"]["plugin"], abs=case["tol"])
    assert pass_at_k(n, c, k) > 1 - (1 - c / n) ** k


@given(ANSWERS)
def test_borda_with_p_0_is_majority(pairs):
    answers, scores = zip(*pairs, strict=True)
    assert borda_vote(answers, scores, 0.0).votes == majority_vote(answers).votes
    assert borda_vote(answers, scores, 0.0).winner == majority_vote(answers).winner


@given(ANSWERS)
def test_borda_with_a_large_p_is_best_of_n(pairs):
    answers, scores = zip(*pairs, strict=True)
    assert borda_vote(answers, scores, 200.0).winner == best_of_n(answers, scores).winner


@given(ANSWERS, st.sampled_from([0.5, 2.0, 4.0]))
def test_weighted_vote_ignores_a_positive_factor(pairs, factor):
    answers, scores = zip(*pairs, strict=True)
    scaled = [score * factor for score in scores]
    assert weighted_vote(answers, scaled).winner == weighted_vote(answers, scores).winner


@given(ANSWERS)
def test_the_index_stands_for_the_winner(pairs):
    answers, scores = zip(*pairs, strict=True)
    for vote in (majority_vote(answers), best_of_n(answers, scores), weighted_vote(answers, scores)):
        assert vote.winner == (None if vote.index is None else answers[vote.index])
        assert (vote.winner is None) == all(answer is None for answer in answers)


def test_weighted_vote_is_not_invariant_to_a_shift():
    answers, scores = ["a", "b", "b"], [0.9, 0.1, 0.1]
    assert weighted_vote(answers, scores).winner == "a"
    assert weighted_vote(answers, [score + 1 for score in scores]).winner == "b"


def test_a_candidate_that_was_not_scored_ranks_below_every_number():
    assert best_of_n(["a", "b"], [None, -1e9]).winner == "b"
    assert best_of_n(["a", "b"], [None, None]).winner == "a"
    assert borda_vote(["a", "b"], [None, -1e9], 1.0).votes == {"a": 1.0, "b": 2.0}
    assert weighted_vote(["a", "b", "b"], [0.1, None, None]).winner == "a"


def test_a_missing_answer_never_wins():
    assert best_of_n([None, "b"], [5.0, 0.1]).winner == "b"
    assert majority_vote([None, None, "b"]).winner == "b"
    assert best_of_n([], []) == majority_vote([]) == borda_vote([], [])


def test_ties_go_to_the_first_seen():
    assert majority_vote(["b", "a", "a", "b"]).winner == "b"
    assert best_of_n(["b", "a"], [0.5, 0.5]).index == 0
    assert borda_vote(["b", "a"], [0.5, 0.5], 1.0).winner == "b"


@pytest.mark.parametrize("rule", [best_of_n, weighted_vote, borda_vote])
def test_bad_scores_are_named(rule):
    with pytest.raises(ValueError, match=r"\[1\] is NaN"):
        rule(["a", "b"], [0.1, math.nan])
    with pytest.raises(ValueError, match="2 answers, 1"):
        rule(["a", "b"], [0.1])


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match="scores >= 0, got -0.1"):
        weighted_vote(["u", "v", "v"], [-0.1, -0.2, -0.2])


@given(st.integers(1, 60), st.data())
def test_pass_at_k_properties(n, data):
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)
    assert pass_at_k(n, c, k) >= pass_at_k(n, c, 1) - 1e-12
    assert pass_at_k(n, c, n) == float(c > 0)


@pytest.mark.parametrize("args", [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_pass_at_k_rejects(args):
    with pytest.raises(ValueError, match="pass_at_k needs"):
        pass_at_k(*args)


def test_bootstrap_interval_matches_the_normal_one_on_a_large_sample():
    values = [1.0] * 300 + [0.0] * 700
    interval = bootstrap_interval(values)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert interval.mean == pytest.approx(0.3)
    assert interval.low == pytest.approx(0.3 - half, abs=0.004)
    assert interval.high == pytest.approx(0.3 + half, abs=0.004)
    assert interval == bootstrap_interval(values)
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap_interval([])
    with pytest.raises(ValueError, match="level"):
        bootstrap_interval([1.0], level=1.0)
