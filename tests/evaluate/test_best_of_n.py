from __future__ import annotations

import itertools

import pytest

from stepgauge import load
from stepgauge.data import bundled
from stepgauge.evaluate.best_of_n import Candidates, best_of_n_curves, candidates_of_pick, powers_of_two
from stepgauge.selection import best_of_n, majority_vote, pass_at_k, rerank

EASY = Candidates((0, 1, 0, None), (True, False, True, False), {"s": (0.9, 0.2, 0.8, 0.1)})
HARD = Candidates((0, 1, 1, 1), (True, False, False, False), {"s": (0.9, 0.2, None, 0.1)})


def curve(curves, rule):
    return next(c for c in curves if c.rule == rule)


def test_at_n_and_one_it_is_exact():
    curves = best_of_n_curves([EASY, HARD])
    assert curve(curves, "pass@n").ns == (1, 2, 4)
    for c in curves:
        assert c.solved[0].mean == pytest.approx((0.5 + 0.25) / 2)  # one candidate: every rule picks it
    ends = {c.rule: c.solved[-1].mean for c in curves}
    assert ends == {"majority": 0.5, "best-of-n": 1.0, "weighted vote": 1.0, "Borda": 0.5, "pass@n": 1.0}


def test_in_between_it_nears_the_mean_over_all_subsets():
    curves = best_of_n_curves([EASY, HARD], [2], draws=4000)
    for rule, vote in (("best-of-n", best_of_n), ("majority", lambda classes, scores: majority_vote(classes))):
        means = []
        for p in (EASY, HARD):
            hits = []
            for subset in itertools.combinations(range(4), 2):
                index = vote([p.classes[i] for i in subset], [p.scores["s"][i] for i in subset]).index
                hits.append(index is not None and p.correct[subset[index]])
            means.append(sum(hits) / len(hits))
        assert curve(curves, rule).solved[0].mean == pytest.approx(sum(means) / 2, abs=0.02)
    exact = (pass_at_k(4, 2, 2) + pass_at_k(4, 1, 2)) / 2
    assert curve(curves, "pass@n").solved[0].mean == pytest.approx(exact)


def test_the_same_seed_gives_the_same_curve():
    assert best_of_n_curves([EASY, HARD], seed=3) == best_of_n_curves([EASY, HARD], seed=3)


def test_no_weighted_vote_outside_zero_and_one():
    nats = Candidates((0, 1), (True, False), {"s": (-0.5, -0.1)})
    assert {c.rule for c in best_of_n_curves([nats])} == {"majority", "best-of-n", "Borda", "pass@n"}


def test_problems_with_fewer_candidates_are_left_out_above():
    few = Candidates((0,), (True,), {"s": (0.5,)})
    curves = best_of_n_curves([EASY, few], [1, 4])
    assert curve(curves, "majority").problems == (2, 1)
    assert curve(best_of_n_curves([EASY, few]), "majority").ns == (1,)


def test_bundled_rollouts_agree_with_rerank():
    result = rerank(bundled("dev_1.5b"), {"embedded": load("embedded")})
    problems = [candidates_of_pick(pick.to_row()) for pick in result.picks]
    ends = {(c.rule, c.scorer): c.solved[-1] for c in best_of_n_curves(problems)}
    for rule in result.rules:
        if (rule.name, rule.scorer) in ends:
            assert ends[rule.name, rule.scorer] == rule.accuracy
    assert ends["pass@n", ""] == result.rules[-1].accuracy


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"candidates": []},
        {"candidates": ["a"]},
        {"candidates": [{"correct": None, "answer_class": 0, "scores": {}}]},
        {"candidates": [{"correct": True, "scores": {}}]},
    ],
)
def test_rows_of_another_layout(row):
    with pytest.raises((ValueError, TypeError), match="candidate"):
        candidates_of_pick(row)


def test_bad_input():
    for arguments in (([], None), ([EASY], [5]), ([EASY], [0])):
        with pytest.raises(ValueError, match="best_of_n_curves"):
            best_of_n_curves(*arguments)
    with pytest.raises(ValueError, match="same scorers"):
        best_of_n_curves([EASY, Candidates((0,), (True,), {"other": (0.5,)})])
    with pytest.raises(ValueError, match="Candidates"):
        Candidates((0,), (True, False), {})
    assert powers_of_two(1) == [1]
    assert powers_of_two(8) == [1, 2, 4, 8]
