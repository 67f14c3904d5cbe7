from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge import aggregate_steps
from stepgauge.aggregation import AGGREGATES
from tests.casefiles import method_cases

PROBABILITIES = st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=30)


@pytest.mark.parametrize("case", method_cases("aggregate_steps"))
def test_worked_cases(case):
    for how, expected in case["expected"].items():
        got = aggregate_steps(case["inputs"]["step_scores"], "softmin" if how == "pure_T0_1" else how)
        assert got is None if expected is None else got == pytest.approx(expected, abs=case["tol"])


@pytest.mark.parametrize("how", AGGREGATES)
def test_nothing_scored_has_no_aggregate(how):
    assert aggregate_steps([], how) is None
    assert aggregate_steps([None, None], how) is None


@pytest.mark.parametrize("how", AGGREGATES)
@given(values=PROBABILITIES)
def test_unscored_steps_are_skipped(how, values):
    holes = [None, *(x for value in values for x in (value, None))]
    assert aggregate_steps(holes, how) == aggregate_steps(values, how)


@pytest.mark.parametrize("how", [how for how in AGGREGATES if how != "last"])
@given(values=PROBABILITIES)
def test_order_does_not_matter_but_for_last(how, values):
    assert aggregate_steps(values[::-1], how) == pytest.approx(aggregate_steps(values, how), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("how", AGGREGATES)
@given(values=PROBABILITIES, index=st.integers(0, 29), up=st.floats(0, 1))
def test_a_better_step_never_lowers_the_aggregate(how, values, index, up):
    if how == "softmin":
        return  # soft-min is not monotone: raising a high step can shift weight
    index %= len(values)
    better = list(values)
    better[index] += up * (1 - 1e-6 - better[index])
    before, after = aggregate_steps(values, how), aggregate_steps(better, how)
    assert after >= before - 1e-9 * max(1, abs(before))


@given(values=PROBABILITIES)
def test_bounds(values):
    low, high = min(values), max(values)
    for how in ("mean", "geomean", "softmin", "last"):
        assert low - 1e-12 <= aggregate_steps(values, how) <= high + 1e-12
    assert aggregate_steps(values, "prod") <= low + 1e-12


def test_product_is_taken_in_log_space():
    assert aggregate_steps([1e-200, 1e200, 0.5], "prod") == pytest.approx(0.5)


def test_softmin_tends_to_min_and_to_mean():
    values = [0.9, 0.4, 0.95]
    assert aggregate_steps(values, "softmin", temperature=1e-4) == pytest.approx(0.4)
    assert aggregate_steps(values, "softmin", temperature=1e6) == pytest.approx(0.75, abs=1e-5)
    assert math.isfinite(aggregate_steps([1e5, -1e5], "softmin"))


def test_sum_logit_at_the_ends():
    assert aggregate_steps([1.0, 0.5], "sum_logit") == math.inf
    assert aggregate_steps([0.0, 0.5], "sum_logit") == -math.inf


@pytest.mark.parametrize(
    ("values", "how", "says"),
    [
        ([0.5], "product", "must be one of min"),
        ([math.nan], "min", "NaN"),
        ([-0.1, 0.5], "prod", ">= 0, got -0.1"),
        ([-0.1, 0.5], "geomean", ">= 0"),
        ([1.5], "sum_logit", "[0, 1], got 1.5"),
    ],
)
def test_bad_input_is_named(values, how, says):
    with pytest.raises(ValueError, match=says.replace("[", r"\[").replace("]", r"\]")):
        aggregate_steps(values, how)


def test_softmin_needs_a_positive_temperature():
    with pytest.raises(ValueError, match="temperature > 0"):
        aggregate_steps([0.5], "softmin", temperature=0.0)
