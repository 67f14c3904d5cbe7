"""Hard, soft and entropy-regularized targets."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from stepgauge.prm import implicit_value
from stepgauge.prm.targets import (
    binomial_interval,
    er_label,
    er_label_of_rate,
    expected_er_label,
    hard_label,
    log_mean_exp,
    mc_label,
    rate_of_er_label,
)

REWARDS = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


def _exact(rewards, eta, digits=60):
    """f(η) by mpmath, from the definition."""
    import mpmath

    with mpmath.workdps(digits):
        total = sum(mpmath.e ** (mpmath.mpf(eta) * mpmath.mpf(r)) for r in rewards) / len(rewards)
        return float(mpmath.log(total) / mpmath.mpf(eta))


@given(REWARDS, st.floats(1e-12, 200), st.sampled_from([-1, 1]))
def test_the_label_is_its_definition_in_60_digits(rewards, size, sign):
    got = float(er_label(rewards, sign * size))
    assert got == pytest.approx(_exact(rewards, sign * size), rel=1e-12, abs=1e-13)


@given(REWARDS, st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_between_min_and_max_and_rising_with_eta_for_every_eta(rewards, one, other):
    low, high = sorted((one, other))
    a, b = float(er_label(rewards, low)), float(er_label(rewards, high))
    assert min(rewards) <= a <= max(rewards)
    assert a <= b + 1e-12


@given(REWARDS, st.floats(-50, 50), st.floats(-3, 3))
def test_a_shift_of_the_rewards_shifts_the_label(rewards, eta, shift):
    moved = float(er_label([r + shift for r in rewards], eta))
    assert moved == pytest.approx(float(er_label(rewards, eta)) + shift, abs=1e-12)


@pytest.mark.parametrize("eta", [5e-324, -5e-324, 1e-300, 1e-20, 1e-9, 1e-6])
def test_small_eta_is_the_mean_and_half_the_variance(eta):
    rewards = np.array([1.0, 0, 0, 1, 0, 0, 0, 0])
    assert float(er_label(rewards, eta)) == pytest.approx(0.25 + eta * 0.1875 / 2, abs=1e-13)


def test_limits_and_equal_rewards_are_exact():
    rewards = [0.2, 0.9, 0.4]
    assert float(er_label(rewards, math.inf)) == 0.9
    assert float(er_label(rewards, -math.inf)) == 0.2
    assert float(er_label(rewards, 0)) == pytest.approx(0.5, abs=1e-16)
    for value in (0.0, 1.0, 0.1):
        for eta in (-math.inf, -1e308, -3, 0, 1e-9, 7, 1e308, math.inf):
            assert float(er_label([value] * 7, eta)) == value
    assert float(er_label([1, 0], 1e308)) == 1.0
    assert float(er_label([1e-30, 1], -800, [1, 1e-30])) == pytest.approx(1e-30)


def test_weights_renormalise_mask_and_are_those_of_copies():
    rewards, copies = [0.2, 0.5, 0.9], [0.2] * 5 + [0.5] * 3 + [0.9] * 2
    weighted = float(er_label(rewards, 3, [5, 3, 2]))
    assert weighted == pytest.approx(float(er_label(copies, 3)), rel=1e-14)
    assert float(er_label(rewards, 3, [0.5e300, 0.3e300, 0.2e300])) == pytest.approx(weighted, rel=1e-14)
    assert float(er_label([0.2, np.inf, 0.9], 3, [True, False, True])) == float(er_label([0.2, 0.9], 3))
    batch = er_label([[0, 1], [1, 1]], 2.0)
    assert batch.tolist() == [float(er_label([0, 1], 2.0)), 1.0]


def test_a_maximum_of_tiny_weight_is_not_lost():
    assert float(log_mean_exp([0.0, -900.0], [1e-20, 1.0])) == pytest.approx(math.log(1e-20), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: er_label([], 1), "at least one"),
        (lambda: er_label([1, 0], math.nan), "eta"),
        (lambda: er_label([1, math.nan], 1), "NaN"),
        (lambda: er_label([1, -math.inf], 1), "finite"),
        (lambda: er_label([1, 0], 1, [0, 0]), "all 0"),
        (lambda: er_label([1, 0], 1, [1, -1]), "weights"),
        (lambda: er_label([1, 0], 1, [1, 1, 1]), "one entry"),
        (lambda: er_label_of_rate(1.5, 1), "p"),
        (lambda: rate_of_er_label(0.5, math.inf), "finite"),
        (lambda: mc_label(0, 0), "no label"),
        (lambda: mc_label(9, 8), "correct"),
        (lambda: mc_label(1.5, 8), "whole"),
        (lambda: binomial_interval(1, 2, method="wald"), "wilson"),
        (lambda: binomial_interval(1, 2, level=1), "level"),
    ],
)
def test_undefined_input_raises_and_says_why(call, names):
    with pytest.raises(ValueError, match=names):
        call()


@given(st.floats(0, 1), st.floats(-600, 600))
def test_a_rate_comes_back_from_its_label(p, eta):
    label = float(er_label_of_rate(p, eta))
    back = float(rate_of_er_label(label, eta))
    assert back == pytest.approx(p, abs=1e-15 * max(1.0, abs(eta)) * math.exp(min(abs(eta), 30)) + 1e-12)


def test_the_label_is_increasing_but_not_convex_in_eta():
    values = [float(er_label_of_rate(0.25, eta)) for eta in (1, 5, 9)]
    assert values == sorted(values)
    assert np.diff(values, 2)[0] < -0.2


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(0.01, 1)), min_size=1, max_size=6),
    st.floats(0.01, 50),
)
def test_the_implicit_value_is_the_label_at_one_over_beta(pairs, beta):
    total = sum(weight for _, weight in pairs)
    rewards, p = [r for r, _ in pairs], [weight / total for _, weight in pairs]
    found = implicit_value(rewards, p, beta=beta)
    top = max(rewards)
    direct = top + beta * math.log(sum(q * math.exp((r - top) / beta) for r, q in zip(rewards, p, strict=True)))
    assert found.value == pytest.approx(float(er_label(rewards, 1 / beta, p)), rel=1e-12, abs=1e-12)
    assert found.value == pytest.approx(direct, rel=1e-9, abs=1e-9)
    assert found.soft - 1e-12 <= found.value <= found.hard


def test_few_completions_bias_the_label_down():
    assert expected_er_label(0.1, 8, 10.0) < float(er_label_of_rate(0.1, 10.0)) - 0.3
    drawn = np.random.default_rng(0).binomial(8, 0.1, 200_000) / 8
    assert expected_er_label(0.1, 8, 10.0) == pytest.approx(float(er_label_of_rate(drawn, 10.0).mean()), abs=0.005)


def test_hard_labels_are_strict_at_the_threshold():
    grid = [[hard_label(c, 8, threshold=t) for c in (0, 1, 3, 8)] for t in (0, 0.125, 0.875)]
    assert grid == [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]


@pytest.mark.parametrize("n", [1, 2, 8, 16])
def test_clopper_pearson_inverts_the_binomial_tails_and_covers(n):
    for c in range(n + 1):
        low, high = binomial_interval(c, n, method="clopper_pearson")
        if c > 0:
            assert binom.sf(c - 1, n, low) == pytest.approx(0.025, rel=1e-9)
        if c < n:
            assert binom.cdf(c, n, high) == pytest.approx(0.025, rel=1e-9)
    for p in np.linspace(0.01, 0.99, 50):
        inside = [
            c for c in range(n + 1) if (b := binomial_interval(c, n, method="clopper_pearson")) and b[0] <= p <= b[1]
        ]
        assert binom.pmf(inside, n, p).sum() >= 0.95


@given(st.integers(1, 300), st.data(), st.sampled_from(["wilson", "clopper_pearson", "jeffreys"]))
def test_intervals_hold_the_rate_and_mirror(n, data, method):
    c = data.draw(st.integers(0, n))
    low, high = binomial_interval(c, n, method=method)
    assert 0 <= low <= Fraction(c, n) <= high <= 1
    mirrored = binomial_interval(n - c, n, method=method)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_wilson_solves_the_score_equation():
    from scipy.stats import norm

    low, high = binomial_interval(3, 8)
    for bound in (low, high):
        assert abs(3 / 8 - bound) / math.sqrt(bound * (1 - bound) / 8) == pytest.approx(norm.isf(0.025), rel=1e-9)
