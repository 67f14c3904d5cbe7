from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge import Rollout, Scorer, Session, StepScores, load
from stepgauge.scoring import score_each
from stepgauge.selection import NextStep, beam_search, beam_select, best_of_n, dvts, dvts_select

RIGHT, LENGTH = 0.4, 5  # each step is right with this chance; a solution is right if all its steps are
START = Rollout("five steps", ())


class TrueValue(Scorer):
    """The chance of a right end from each prefix, exactly."""

    name = "true value"
    kind = "value"

    def __init__(self):
        self.opened = 0
        self.closed = 0

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        return score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        if not rollout.steps:
            return StepScores.abstain(0, "value", "no_claim")
        values, alive = [], True
        for at, step in enumerate(rollout.steps, 1):
            alive = alive and step == "right"
            values.append(RIGHT ** (LENGTH - at) if alive else 0.0)
        return StepScores(tuple(values), "value")

    def open(self, prefix):
        return Counted(self, prefix)


class Counted(Session):
    """A session that must be closed exactly once."""

    def __init__(self, scorer, prefix):
        super().__init__(scorer, prefix)
        scorer.opened += 1
        self.is_closed = False

    def close(self):
        assert not self.is_closed
        self.is_closed = True
        self.scorer.closed += 1


def policy(prefixes, n, seed):
    rng = random.Random(seed)
    return [
        [
            NextStep("right" if rng.random() < RIGHT else "wrong", tokens=10, done=len(prefix.steps) == LENGTH - 1)
            for _ in range(n)
        ]
        for prefix in prefixes
    ]


def _solved(search, runs, **options):
    """How often the best solution is right, and the mean tokens."""
    found = [search(START, policy, TrueValue(), seed=seed, **options) for seed in range(runs)]
    solved = [result.best.rollout.steps == ("right",) * LENGTH for result in found]
    return sum(solved) / runs, sum(result.tokens for result in found) / runs


def _close(share, chance, runs):
    return abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / runs)


def test_dvts_of_width_1_is_best_of_n():
    share, tokens = _solved(dvts, 600, n=16, width=1)
    assert _close(share, 1 - (1 - RIGHT**LENGTH) ** 16, 600)
    assert tokens == 16 * LENGTH * 10
    result = dvts(START, policy, TrueValue(), n=4, width=1)
    assert [beam.tokens for beam in result.beams] == [LENGTH * 10] * 4


def test_dvts_solves_as_often_as_its_closed_form():
    tree = (1 - (1 - RIGHT) ** 4) ** LENGTH  # each step of a tree needs one right child among 4
    share, tokens = _solved(dvts, 400, n=16, width=4)
    assert _close(share, 1 - (1 - tree) ** 4, 400)
    assert tokens == 16 * LENGTH * 10


def test_beam_search_with_the_true_value_beats_best_of_n_at_the_same_price():
    share, tokens = _solved(beam_search, 200, n=16, width=4)
    assert share > 0.97  # against 0.15
    assert tokens == 16 * LENGTH * 10


def test_searches_repeat_with_their_seed_and_differ_without():
    for search in (beam_search, dvts):
        first, again = (search(START, policy, TrueValue(), n=8, width=2, seed=3) for _ in range(2))
        assert first == again
    found = [dvts(START, policy, TrueValue(), n=4, width=1, seed=seed) for seed in range(5)]
    assert len({tuple(beam.rollout.steps for beam in result.beams) for result in found}) == 5


def test_every_session_is_closed():
    for search in (beam_search, dvts):
        for options in ({}, {"depth": 2}, {"max_tokens": 1}, {"stop": lambda finished: True}):
            scorer = TrueValue()
            search(START, policy, scorer, n=8, width=2, **options)
            assert scorer.opened == scorer.closed > 0


def test_sessions_are_closed_where_the_generator_fails():
    calls = []

    def propose(prefixes, n, seed):
        calls.append(n)
        if len(calls) == 3:
            raise ConnectionError("gone")
        return policy(prefixes, n, seed)

    scorer = TrueValue()
    with pytest.raises(ConnectionError, match="gone"):
        beam_search(START, propose, scorer, n=8, width=2)
    assert scorer.opened == scorer.closed > 8


def test_where_a_search_stops():
    def run(**options):
        return beam_search(START, policy, TrueValue(), n=8, width=2, **options)

    whole = run()
    assert (whole.stopped, whole.rounds, len(whole.beams)) == ("finished", 5, 8)
    cut = run(depth=2)
    assert (cut.stopped, cut.rounds, cut.tokens) == ("depth", 2, 2 * 8 * 10)
    assert [beam.done for beam in cut.beams] == [False] * 4
    assert cut.best.score == max(beam.score for beam in cut.beams)
    assert run(max_tokens=100).rounds == 2
    assert run(max_tokens=100).stopped == "tokens"
    assert run(stop=lambda finished: True).stopped == "early"
    empty = beam_search(START, lambda prefixes, n, seed: [[] for _ in prefixes], TrueValue())
    assert (empty.stopped, empty.beams, empty.best) == ("stuck", (), None)


def test_early_stop_sees_finished_solutions():
    def propose(prefixes, n, seed):
        return [[NextStep("right", 1, done=i == 0) for i in range(n)] for _ in prefixes]

    seen = []
    result = beam_search(
        START, propose, TrueValue(), n=8, width=2, stop=lambda finished: seen.append(len(finished)) or len(finished) > 2
    )
    assert seen == [1, 5]
    assert result.stopped == "early"
    assert sum(beam.done for beam in result.beams) == 5


def test_a_beam_that_cannot_go_on_is_kept_as_unfinished():
    def propose(prefixes, n, seed):
        return [[] if prefix.steps else [NextStep("right", 1) for _ in range(n)] for prefix in prefixes]

    result = beam_search(START, propose, TrueValue(), n=4, width=2)
    assert [beam.rollout.steps for beam in result.beams] == [("right",)] * 2
    assert not any(beam.done for beam in result.beams)


def test_a_step_that_was_not_scored_loses_against_every_score():
    def propose(prefixes, n, seed):
        return [[NextStep("no sum here", done=True), NextStep("1 + 1 = 3", done=True)] for _ in prefixes]

    result = dvts(Rollout("", ()), propose, load("arithmetic"), n=2, width=2)
    assert result.best.rollout.steps == ("1 + 1 = 3",)


def test_the_prefix_is_part_of_the_solution():
    start = Rollout("five steps", ("right", "right"), gold="7")
    result = dvts(start, policy, TrueValue(), n=2, width=1)
    assert all(beam.rollout.steps[:2] == start.steps and beam.rollout.gold == "7" for beam in result.beams)
    assert result.rounds == LENGTH - 2


def test_a_finished_search_goes_into_a_vote():
    result = dvts(START, policy, TrueValue(), n=16, width=4)
    vote = best_of_n([beam.rollout.steps for beam in result.beams], [beam.score for beam in result.beams])
    assert vote.winner == result.best.rollout.steps


SCORES = st.lists(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=5), max_size=5)


def _number(score):
    return -math.inf if score is None else score


@given(SCORES, st.integers(1, 6))
def test_beam_select_keeps_the_best(scores, keep):
    kept = beam_select(scores, keep)
    everything = [(beam, child) for beam, row in enumerate(scores) for child in range(len(row))]
    assert len(kept) == min(keep, len(everything)) == len(set(kept))
    values = [_number(scores[beam][child]) for beam, child in kept]
    assert values == sorted(values, reverse=True)
    dropped = [_number(scores[b][c]) for b, c in everything if (b, c) not in kept]
    assert not values or not dropped or min(values) >= max(dropped)


@given(SCORES)
def test_dvts_select_keeps_one_child_of_each_beam(scores):
    kept = dvts_select(scores)
    assert [beam for beam, _ in kept] == [at for at, row in enumerate(scores) if row]
    for beam, child in kept:
        assert _number(scores[beam][child]) == max(map(_number, scores[beam]))


def test_ties_go_by_beam_then_child():
    assert beam_select([[0.5, 0.5], [0.5]], 2) == [(0, 0), (0, 1)]
    assert dvts_select([[0.5, 0.5], [None, None]]) == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: beam_select([[0.5]], 0), "keep must be at least 1"),
        (lambda: beam_select([[0.5, math.nan]], 1), r"\[0\]\[1\] is NaN"),
        (lambda: dvts_select([[0.5], [math.nan]]), r"\[1\]\[0\] is NaN"),
        (lambda: dvts(START, policy, TrueValue(), n=0), "n must be at least 1"),
        (lambda: beam_search(START, policy, TrueValue(), width=0), "width must be at least 1"),
        (lambda: beam_search(START, policy, TrueValue(), depth=0), "depth must be at least 1"),
        (lambda: beam_search(START, policy, TrueValue(), n=10, width=4), "multiple of width, got n=10, width=4"),
        (lambda: dvts(START, lambda p, n, s: [[]], TrueValue(), n=4, width=2), "given 2 prefixes"),
        (lambda: dvts(START, lambda p, n, s: [[NextStep("a")] * 3], TrueValue(), n=2, width=2), "asked for 2 steps"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
