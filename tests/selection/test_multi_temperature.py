from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import majority_vote, multi_temperature_rounds, multi_temperature_vote

GRID = st.dictionaries(
    st.sampled_from([0.3, 0.7, 1.0, 1.5]), st.lists(st.sampled_from(["a", "b", None]), max_size=6), min_size=1
)


@given(GRID)
def test_pooling_is_the_majority_of_everything(grid):
    vote = multi_temperature_vote(grid)
    assert vote.pooled == majority_vote([answer for answers in grid.values() for answer in answers])
    if vote.agree:
        assert {winner for winner, _ in vote.per_temperature.values()} == {vote.pooled.winner}
    if vote.min_share > 0.5:
        assert vote.agree


def test_an_empty_temperature_never_agrees():
    assert not multi_temperature_vote({0.3: ["1"], 1.0: []}).agree
    assert not multi_temperature_vote({0.3: ["1"], 1.0: [None]}).agree
    assert multi_temperature_vote({0.3: ["1"], 1.0: ["1"]}).agree
    assert multi_temperature_vote({0.3: [None]}).pooled.winner is None


def test_samples_without_an_answer_count_against_the_early_exit():
    vote = multi_temperature_vote({0.3: ["1", None, None, None]})
    assert vote.per_temperature == {0.3: ("1", 1.0)}
    assert vote.min_share == 0.25


def test_easy_problems_stop_early_and_hard_ones_use_all_rounds():
    def policy(right):
        def draw(temperature, n, seed):
            rng = random.Random(f"{temperature} {seed}")
            return ["7" if rng.random() < right else rng.choice(["1", "2", None]) for _ in range(n)]

        return draw

    easy, rounds = multi_temperature_rounds(policy(1.0), [0.3, 1.0])
    assert (easy.pooled.winner, rounds) == ("7", 1)
    _, rounds = multi_temperature_rounds(policy(0.3), [0.3, 1.0], max_rounds=5)
    assert rounds == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperatures": []}, "distinct numbers"),
        ({"temperatures": [0.3, 0.3]}, "distinct numbers"),
        ({"temperatures": [0.3], "per_round": 0}, "per_round >= 1"),
        ({"temperatures": [0.3], "min_share": 1.5}, "min_share"),
        ({"temperatures": [0.3], "per_round": 3}, "must give 3 answers, got 2"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        multi_temperature_rounds(lambda temperature, n, seed: ["7"] * 2, **{"per_round": 2, **options})


def test_no_temperature_is_refused():
    with pytest.raises(ValueError, match="at least one temperature"):
        multi_temperature_vote({})
