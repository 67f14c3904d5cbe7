from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import Trial, choose_strategies, difficulty_bin, difficulty_edges, semantic_clusters


@given(st.lists(st.floats(0, 1), min_size=5, max_size=40, unique=True), st.integers(1, 5))
def test_bins_are_of_about_equal_size_and_run_from_easy_to_hard(ease, bins):
    edges = difficulty_edges(ease, bins)
    counts = [0] * bins
    for value in ease:
        counts[difficulty_bin(value, edges)] += 1
    assert difficulty_bin(max(ease), edges) == 0
    assert difficulty_bin(min(ease), edges) == bins - 1
    assert max(counts) - min(counts) <= 2


def _world(seed, count=400):
    """Best-of-n is better on easy problems, beam search on hard ones; the strong strategy costs too much."""
    rng = random.Random(seed)
    chance = {("bon", 0): 0.9, ("bon", 1): 0.2, ("beam", 0): 0.7, ("beam", 1): 0.5, ("all", 0): 0.99, ("all", 1): 0.9}
    tokens = {"bon": 100, "beam": 120, "all": 1000}
    return [
        Trial(difficulty, strategy, tokens[strategy], rng.random() < right)
        for (strategy, difficulty), right in chance.items()
        for _ in range(count)
    ]


def test_the_known_optimum_is_chosen_in_each_bin():
    chosen = choose_strategies(_world(0), max_tokens=150)
    assert {difficulty: choice.strategy for difficulty, choice in chosen.items()} == {0: "bon", 1: "beam"}
    assert chosen[1].accuracy.low < 0.5 < chosen[1].accuracy.high
    assert chosen[1].tokens == 120
    assert {choice.strategy for choice in choose_strategies(_world(0)).values()} == {"all"}
    assert choose_strategies(_world(0), max_tokens=50) == {}


def test_the_choice_on_one_half_beats_every_single_strategy_on_the_other():
    chosen = choose_strategies(_world(1), max_tokens=150)
    held_out = _world(2)

    def accuracy(pick):
        solved = [t.solved for t in held_out if t.strategy == pick(t.difficulty)]
        return sum(solved) / len(solved)

    best_single = max(accuracy(lambda _, name=name: name) for name in ("bon", "beam"))
    assert accuracy(lambda difficulty: chosen[difficulty].strategy) > best_single + 0.03


def test_the_cheaper_of_equals():
    trials = [Trial(0, "dear", 20, True), Trial(0, "cheap", 10, True)]
    assert choose_strategies(trials)[0].strategy == "cheap"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_strategies([]), "at least one trial"),
        (lambda: difficulty_edges([0.1], bins=2), "1 problems, 2 bins"),
        (lambda: difficulty_edges([0.1], bins=0), "bins >= 1"),
        (lambda: difficulty_edges([0.1, math.nan], bins=2), "must be finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=20))
def test_clusters_of_an_equivalence_are_its_classes(numbers):
    answers = [None if number is None else str(number) for number in numbers]
    clusters = semantic_clusters(answers, lambda a, b: int(a) % 3 == int(b) % 3)
    for left, one in zip(numbers, clusters, strict=True):
        assert (one is None) == (left is None)
        for right, other in zip(numbers, clusters, strict=True):
            if left is not None and right is not None:
                assert (one == other) == (left % 3 == right % 3)
    seen = [cluster for cluster in dict.fromkeys(clusters) if cluster is not None]
    assert seen == list(range(len(seen)))


def test_entailment_in_one_direction_is_not_enough_and_equal_texts_are_not_asked_about():
    assert semantic_clusters(["a dog", "a dog in the park"], lambda a, b: a in b) == [0, 1]
    assert semantic_clusters(["x"] * 5, lambda a, b: pytest.fail("asked")) == [0] * 5
