from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import fuse

SCORE = st.one_of(st.none(), st.floats(0, 1))
TABLE = st.integers(1, 6).flatmap(
    lambda n: st.fixed_dictionaries({name: st.lists(SCORE, min_size=n, max_size=n) for name in ("a", "b", "c")})
)


@given(TABLE, st.sampled_from(["mean", "rank"]))
def test_contributions_add_up_and_scores_lie_in_0_1(table, how):
    for at, fused in enumerate(fuse(table, dict.fromkeys(table, "value"), how=how)):
        given_any = any(values[at] is not None for values in table.values())
        assert (fused.score is not None) == given_any
        if given_any:
            assert fused.score == pytest.approx(sum(part.contribution for part in fused.parts.values()))
            assert -1e-12 <= fused.score <= 1 + 1e-12


@given(TABLE)
def test_ranks_ignore_any_rising_change_of_a_scorer(table):
    kinds = {"a": "value", "b": "value", "c": "confidence"}
    bent = {**table, "c": [None if v is None else 3 * v - 7 for v in table["c"]]}
    # equal floats stay equal, others may become so: compare where the map is exact
    if len(set(table["c"])) == len(set(bent["c"])):
        assert [f.score for f in fuse(table, kinds)] == [f.score for f in fuse(bent, kinds)]


@given(TABLE)
def test_a_scorer_of_weight_0_says_nothing(table):
    weights = {"a": 1.0, "b": 2.0, "c": 0.0}
    kinds = dict.fromkeys(table, "value")
    two = {name: table[name] for name in ("a", "b")}
    for how in ("mean", "rank"):
        left = fuse(table, kinds, how=how, weights=weights)
        right = fuse(two, kinds, how=how, weights=weights)
        assert [f.score for f in left] == pytest.approx([f.score for f in right])


def test_kinds_are_never_mixed_without_a_calibration():
    scores = {"prm": [0.9, 0.1], "math": [0.0, 1.0]}
    with pytest.raises(ValueError, match="probabilities of one kind, got kinds correctness, value"):
        fuse(scores, {"prm": "value", "math": "correctness"}, how="mean")
    by_rank = fuse(scores, {"prm": "value", "math": "correctness"})
    assert [f.score for f in by_rank] == [0.5, 0.5]
    assert "by rank" in by_rank[0].explanation
    calibrated = fuse(scores, {"prm": "probability", "math": "probability"})
    assert [f.score for f in calibrated] == [0.45, 0.55]
    with pytest.raises(ValueError, match="probabilities of one kind, got kinds log_ratio"):
        fuse({"a": [0.1]}, {"a": "log_ratio"}, how="mean")


def test_a_missing_score_is_left_out_of_a_mean_and_last_in_a_rank():
    scores = {"a": [None, 0.6], "b": [0.9, 0.5]}
    kinds = dict.fromkeys(scores, "value")
    assert [f.score for f in fuse(scores, kinds)] == [0.9, 0.55]
    assert [f.score for f in fuse(scores, kinds, how="rank")] == [0.5, 0.5]
    assert fuse({"a": [None]}, kinds)[0].score is None
    assert fuse({"a": [None]}, kinds)[0].explanation == "not scored by any scorer"


def test_the_explanation_names_every_scorer():
    fused = fuse({"a": [0.5, 0.5, None], "b": [-1.0, -2.0, -3.0]}, {"a": "value", "b": "confidence"})
    assert fused[0].explanation == "0.875 by rank: a rank 1.5 of 3 (0.5), b 1st of 3 (-1)"
    assert fused[2].explanation == "0 by rank: a gave no score, b 3rd of 3 (-3)"


@pytest.mark.parametrize(
    ("scores", "kinds", "weights", "message"),
    [
        ({}, {}, None, "at least one scorer"),
        ({"a": [0.1], "b": []}, {"a": "value", "b": "value"}, None, "one score a candidate"),
        ({"a": [0.1]}, {}, None, r"kinds\['a'\]"),
        ({"a": [0.1]}, {"a": "nonsense"}, None, "got 'nonsense'"),
        ({"a": [math.nan]}, {"a": "value"}, None, "is NaN"),
        ({"a": [1.2]}, {"a": "value"}, None, "no probability"),
        ({"a": [0.2]}, {"a": "value"}, {}, "must name every scorer"),
        ({"a": [0.2]}, {"a": "value"}, {"a": -1.0}, ">= 0"),
        ({"a": [0.2]}, {"a": "value"}, {"a": 0.0}, "not all 0"),
    ],
)
def test_bad_input_is_named(scores, kinds, weights, message):
    with pytest.raises(ValueError, match=message):
        fuse(scores, kinds, weights=weights)
