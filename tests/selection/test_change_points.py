from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import change_point, drift, forking_steps, hazard, survival

SERIES = st.lists(st.floats(-2, 2), min_size=4, max_size=12)


def _log_normal(y, mean, noise, strength):
    """Marginal likelihood with the full covariance matrix: slow, and another way to the same number."""
    n = len(y)
    cov = noise**2 * (np.eye(n) + np.ones((n, n)) / strength)
    apart = np.asarray(y) - mean
    return -0.5 * (apart @ np.linalg.solve(cov, apart) + np.linalg.slogdet(cov)[1] + n * math.log(2 * math.pi))


@given(SERIES, st.floats(0.1, 1), st.floats(0.2, 5), st.floats(0.01, 0.99))
def test_posterior_is_that_of_the_full_covariance(y, noise, strength, p_change):
    found = change_point(y, noise_sd=noise, prior_mean=0.2, prior_strength=strength, p_change=p_change)
    none = _log_normal(y, 0.2, noise, strength)
    both = np.array(
        [_log_normal(y[:t], 0.2, noise, strength) + _log_normal(y[t:], 0.2, noise, strength) for t in range(1, len(y))]
    )
    log_bf = np.logaddexp.reduce(both) - math.log(len(both)) - none
    assert found.log_bf == pytest.approx(log_bf, rel=1e-9, abs=1e-6)
    assert found.p_none + sum(found.p_tau) == pytest.approx(1)
    shares = np.exp(both - np.logaddexp.reduce(both)) * (1 - found.p_none)
    np.testing.assert_allclose(found.p_tau, shares, atol=1e-8)


@given(SERIES)
def test_backwards_is_the_mirror_image(y):
    forward, backward = change_point(y, noise_sd=0.3), change_point(y[::-1], noise_sd=0.3)
    assert forward.p_none == pytest.approx(backward.p_none, abs=1e-9)
    np.testing.assert_allclose(forward.p_tau, backward.p_tau[::-1], atol=1e-9)


def test_a_flat_series_has_no_change_and_a_step_has_one():
    assert change_point([0.5] * 8, noise_sd=0.1).p_none > 0.5
    for at in range(1, 8):
        found = change_point([0.2] * at + [0.8] * (8 - at), noise_sd=0.05)
        assert found.map_tau == at
        assert found.p_none < 0.01


def test_false_alarms_and_finds_over_many_series():
    rng = np.random.default_rng(0)
    alarms = sum(change_point(rng.normal(0.5, 0.1, 10), noise_sd=0.1).p_none < 0.05 for _ in range(300))
    finds = sum(
        change_point(np.r_[rng.normal(0.8, 0.1, 5), rng.normal(0.3, 0.1, 5)], noise_sd=0.1).map_tau == 5
        for _ in range(300)
    )
    assert alarms <= 6
    assert finds >= 285


@pytest.mark.parametrize("y", [[], [0.1], [0.1, 0.2, 0.9]])
def test_few_points_give_no_verdict(y):
    assert change_point(y, noise_sd=0.1) is None


def test_an_overwhelming_change_stays_finite():
    found = change_point([0.0] * 50 + [1e4] * 50, noise_sd=0.01)
    assert found.p_none == 0.0
    assert found.map_tau == 50
    assert math.isfinite(found.log_bf)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_sd": 0.0}, "noise_sd must be positive"),
        ({"noise_sd": math.nan}, "noise_sd must be positive"),
        ({"noise_sd": 0.1, "prior_strength": -1.0}, "prior_strength must be positive"),
        ({"noise_sd": 0.1, "p_change": 1.0}, "p_change must lie"),
        ({"noise_sd": 0.1, "prior_mean": math.inf}, "prior_mean must be finite"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        change_point([0.1] * 5, **options)


def test_a_series_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite scores"):
        change_point([0.1, math.nan, 0.2, 0.3], noise_sd=0.1)


DISTS = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=8).map(
    lambda rows: [[count / sum(row) for count in row] for row in rows]
)


@given(DISTS)
def test_drift_is_a_distance_from_the_start(dists):
    l1, l2 = drift(dists), drift(dists, "l2")
    assert l1[0] == l2[0] == 0
    assert all(
        0 <= b <= a + 1e-12 and a <= 2 + 1e-12 and b <= math.sqrt(2) + 1e-12 for a, b in zip(l1, l2, strict=True)
    )


def test_forks_are_jumps_between_neighbours_not_distance_from_the_start():
    slow = [[1 - t / 10, t / 10] for t in range(11)]
    assert drift(slow)[-1] == pytest.approx(2.0)
    assert forking_steps(slow) == []
    assert forking_steps([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]) == [1, 3]


def test_hazard_and_survival():
    h = hazard([[0.5, 0.3, 0.2], [0.9], []], [[0.0, 0.6, 2.0], [0.1], []])
    assert h == pytest.approx([0.5, 0.0, 0.0])
    assert survival(h) == pytest.approx([0.5, 0.5, 0.5])
    assert survival([]) == []
    assert survival([0.1, 1.0, 0.3]) == pytest.approx([0.9, 0.0, 0.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: drift([]), "at least one row"),
        (lambda: drift([[1.0], [0.5, 0.5]]), "all rows of one length"),
        (lambda: drift([[0.5, 0.4]]), "sum to 1"),
        (lambda: drift([[1.5, -0.5]]), "sum to 1"),
        (lambda: drift([[math.nan, 1.0]]), "sum to 1"),
        (lambda: drift([[1.0]], "l3"), "'l1' or 'l2'"),
        (lambda: forking_steps([[1.0]], threshold=-0.1), "threshold must be >= 0"),
        (lambda: hazard([[0.5]], [[0.5, 0.5]]), "differ in shape"),
        (lambda: hazard([[0.9, 0.9]], [[0.5, 0.5]]), "sum of at most 1"),
        (lambda: hazard([[0.9]], [[math.nan]]), "must be >= 0"),
        (lambda: survival([1.2]), "hazards in"),
        (lambda: survival([math.nan]), "hazards in"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
