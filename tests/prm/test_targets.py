"""Targets from counts: limits, monotonicity, inverses, the identity with the implicit value, coverage of intervals."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.prm import implicit_value
from stepgauge.prm.targets import (
    clopper_pearson_interval,
    entropy_regularized,
    entropy_regularized_binary,
    expected_plugin,
    hard_label,
    jeffreys_interval,
    missed_step_probability,
    scaled_log_mean_exp,
    soft_label,
    success_rate_of,
    wilson_interval,
)

ETAS = st.floats(-1e6, 1e6)
REWARDS = st.lists(st.floats(0, 1), min_size=1, max_size=20)
INTERVALS = [wilson_interval, clopper_pearson_interval, jeffreys_interval]


def exact(values, weights, eta):
    """The definition, in sixty digits."""
    with mpmath.workdps(60):
        total = mpmath.fsum(weights)
        mean = mpmath.fsum(w * mpmath.exp(mpmath.mpf(eta) * v) for v, w in zip(values, weights, strict=True)) / total
        return float(mpmath.log(mean) / eta)


@given(REWARDS, st.floats(-500, 500).filter(lambda eta: abs(eta) > 1e-12))
def test_against_sixty_digits(rewards, eta):
    assert entropy_regularized(rewards, eta) == pytest.approx(exact(rewards, [1] * len(rewards), eta), abs=1e-12)


@pytest.mark.parametrize("eta", [1e-9, -1e-9, 9.99e-7, 1.01e-6, 1e-300, 5e-324])
def test_no_seam_near_zero(eta):
    rewards = [1, 0, 0, 1, 0.25]
    with mpmath.workdps(60):
        mean = sum(rewards) / 5
        variance = sum((r - mean) ** 2 for r in rewards) / 5
    assert entropy_regularized(rewards, eta) == pytest.approx(mean + eta * variance / 2, abs=1e-12)


@given(REWARDS)
def test_limits(rewards):
    assert entropy_regularized(rewards, math.inf) == max(rewards)
    assert entropy_regularized(rewards, -math.inf) == min(rewards)
    assert entropy_regularized(rewards, 0.0) == pytest.approx(np.mean(rewards), abs=1e-12)
    assert entropy_regularized(rewards, 1e300) == pytest.approx(max(rewards), abs=1e-12)


@given(REWARDS, ETAS, ETAS)
def test_monotone_in_eta_and_bounded(rewards, one, other):
    low, high = (entropy_regularized(rewards, eta) for eta in sorted((one, other)))
    assert min(rewards) - 1e-12 <= low <= high + 1e-12 <= max(rewards) + 2e-12


@given(REWARDS, ETAS, st.floats(-5, 5))
def test_a_constant_is_added_through(rewards, eta, constant):
    shifted = entropy_regularized([reward + constant for reward in rewards], eta)
    assert shifted == pytest.approx(entropy_regularized(rewards, eta) + constant, abs=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3])
@given(eta=st.one_of(ETAS, st.sampled_from([math.inf, -math.inf])), n=st.integers(1, 30))
def test_all_equal_is_exactly_that(value, eta, n):
    assert entropy_regularized([value] * n, eta) == value


def test_what_has_no_weight_does_not_count():
    assert scaled_log_mean_exp([0.1, 0.9], [1, 0], math.inf) == 0.1
    assert scaled_log_mean_exp([0.1, -900.0], [1, 0], -700.0) == 0.1
    assert scaled_log_mean_exp([0.1, 0.9], [2, 2], 3.0) == scaled_log_mean_exp([0.1, 0.9], None, 3.0)


def test_many_rows_at_once():
    rows = np.random.default_rng(0).random((4, 3, 7))
    together = entropy_regularized(rows, 2.5)
    assert together.shape == (4, 3)
    assert together[2, 1] == entropy_regularized(rows[2, 1], 2.5)


@given(st.floats(0, 1), st.floats(-30, 30))
def test_label_and_rate_are_inverse(p, eta):
    assert success_rate_of(min(1.0, max(0.0, entropy_regularized_binary(p, eta))), eta) == pytest.approx(p, abs=1e-6)


def test_no_overflow():
    assert success_rate_of(1.0, 1e6) == 1.0
    assert success_rate_of(0.5, 1e6) == 0.0
    assert success_rate_of(0.0, -1e6) == 0.0


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 1)), min_size=1, max_size=8), st.floats(0.01, 50))
def test_the_value_of_an_implicit_prm_is_the_same_function(pairs, beta):
    """Entropy regularization with eta = 1/beta; soft <= value <= hard."""
    rewards, weights = zip(*pairs, strict=True)
    probabilities = [weight / sum(weights) for weight in weights]
    found = implicit_value(rewards, probabilities, beta=beta)
    assert found.value == pytest.approx(entropy_regularized(rewards, 1 / beta, probabilities), abs=1e-12)
    assert found.soft - 1e-9 <= found.value <= found.hard + 1e-9


@given(st.floats(0, 1), st.integers(1, 20), st.floats(0, 50))
def test_few_rollouts_understate(p, n, eta):
    assert expected_plugin(p, n, eta) <= entropy_regularized_binary(p, eta) + 1e-9


@given(st.integers(0, 40), st.integers(1, 40))
def test_hard_and_soft(c, n):
    if c > n:
        with pytest.raises(ValueError, match="0 <= c <= n"):
            soft_label(c, n)
        return
    assert hard_label(c, n) == int(c > 0)
    assert soft_label(c, n) == c / n
    for interval in INTERVALS:
        low, high = interval(c, n)
        assert 0 <= low <= c / n <= high <= 1
        assert interval(n - c, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)
        assert (low == 0) == (c == 0) or interval is not clopper_pearson_interval


@pytest.mark.parametrize("n", [1, 4, 8, 16])
def test_coverage(n):
    """Clopper-Pearson covers at least 95 % at every rate; the others do so on average."""
    rates = np.linspace(0.01, 0.99, 99)
    chances = np.array([[math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)] for p in rates])
    for interval in INTERVALS:
        bounds = [interval(c, n) for c in range(n + 1)]
        inside = np.array([[low <= p <= high for low, high in bounds] for p in rates])
        covered = (chances * inside).sum(1)
        assert covered.mean() > 0.93
        if interval is clopper_pearson_interval:
            assert covered.min() >= 0.95 - 1e-12


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: soft_label(0, 0), "at least one rollout"),
        (lambda: hard_label(1, 2, 1.0), "threshold"),
        (lambda: entropy_regularized([], 1.0), "at least one value"),
        (lambda: entropy_regularized([math.nan], 1.0), "finite"),
        (lambda: entropy_regularized([1.0], math.nan), "NaN"),
        (lambda: entropy_regularized([1.0, 0.0], 1.0, [0, 0]), "not all 0"),
        (lambda: entropy_regularized([1.0, 0.0], 1.0, [-1, 2]), "at least 0"),
        (lambda: success_rate_of(1.5, 1.0), "label"),
        (lambda: success_rate_of(0.5, math.inf), "finite"),
        (lambda: missed_step_probability(-0.1, 2), "success rate"),
        (lambda: wilson_interval(1, 2, 1.0), "level"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call()
