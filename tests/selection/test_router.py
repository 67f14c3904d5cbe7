from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.selection import LinearPosterior, Router, quantile_reward

NUMBERS = st.floats(-3, 3, allow_nan=False)
SEEN = st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0, 1)), max_size=8)


def _learn(posterior, seen):
    for *context, reward in seen:
        posterior = posterior.update(context, reward)
    return posterior


@given(SEEN, st.randoms())
def test_order_does_not_matter_and_the_batch_solution_is_the_ridge_one(seen, random):
    posterior = _learn(LinearPosterior.prior([0.3, -0.2], lambda0=2.0, sigma2=0.5), seen)
    shuffled = list(seen)
    random.shuffle(shuffled)
    other = _learn(LinearPosterior.prior([0.3, -0.2], lambda0=2.0, sigma2=0.5), shuffled)
    np.testing.assert_allclose(posterior.precision, other.precision, atol=1e-9)
    contexts = np.array([row[:2] for row in seen]).reshape(-1, 2)
    rewards = np.array([row[2] for row in seen])
    precision = 2.0 * np.eye(2) + contexts.T @ contexts / 0.5
    mean = np.linalg.solve(precision, 2.0 * np.array([0.3, -0.2]) + contexts.T @ rewards / 0.5)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance, np.linalg.inv(precision), atol=1e-9)


def test_the_kalman_filter_gives_the_same_posterior():
    rng = np.random.default_rng(3)
    mean, cov, posterior = np.zeros(3), np.eye(3), LinearPosterior.prior(np.zeros(3), sigma2=0.25)
    for _ in range(20):
        h, reward = rng.standard_normal(3), rng.uniform()
        gain = cov @ h / (h @ cov @ h + 0.25)
        mean, cov = mean + gain * (reward - h @ mean), cov - np.outer(gain, h @ cov)
        posterior = posterior.update(h, reward)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance, cov, atol=1e-10)


def test_draws_have_the_moments_of_the_posterior():
    posterior = LinearPosterior.prior([0.5, -0.5]).update([1.0, 2.0], 1.0).update([-1.0, 0.5], 0.2)
    rng = np.random.default_rng(0)
    draws = [posterior.sample_score([1.0, 1.0], rng.standard_normal(2)) for _ in range(20_000)]
    mean, std = posterior.score([1.0, 1.0])
    assert np.mean(draws) == pytest.approx(mean, abs=4 * std / math.sqrt(20_000))
    assert np.std(draws) == pytest.approx(std, rel=0.03)


def test_huge_contexts_of_one_direction_still_give_a_draw():
    posterior = LinearPosterior.prior([0.0, 0.0])
    for _ in range(5):
        posterior = posterior.update([1e9, 1e9], 1.0)
    assert math.isfinite(posterior.sample_score([1.0, 1.0], [0.1, 0.2]))


def _environment(seed):
    """Three scorers: one good where the first feature is 1, one where the second is, one bad everywhere."""
    rng = np.random.default_rng(seed)
    truth = {"algebra": np.array([0.9, 0.2]), "geometry": np.array([0.2, 0.9]), "bad": np.array([0.1, 0.1])}
    return rng, truth


def _run(router, rng, truth, rounds):
    chosen = []
    for _ in range(rounds):
        context = np.eye(2)[rng.integers(2)]
        name = router.choose(context)
        router.update(name, context, float(rng.uniform() < truth[name] @ context))
        chosen.append((name, int(context[1])))
    return chosen


def test_the_router_learns_who_is_good_where():
    rng, truth = _environment(1)
    router = Router({name: LinearPosterior.prior([0.0, 0.0], sigma2=0.25) for name in truth}, seed=2)
    late = _run(router, rng, truth, 600)[300:]
    right = sum(name == ("algebra", "geometry")[feature] for name, feature in late)
    assert right / len(late) > 0.95  # the best single scorer is right for half of the contexts


def test_a_restored_router_makes_the_same_choices():
    rng, truth = _environment(4)
    router = Router({name: LinearPosterior.prior([0.0, 0.0]) for name in truth}, seed=5)
    _run(router, rng, truth, 30)
    restored = Router.from_json(json.loads(json.dumps(router.to_json())))
    first, second = np.random.default_rng(6), np.random.default_rng(6)
    assert _run(router, first, truth, 50) == _run(restored, second, truth, 50)
    assert restored.to_json() == router.to_json()


@given(st.lists(NUMBERS, min_size=1, max_size=9), st.lists(NUMBERS, max_size=9))
def test_quantile_rewards_lie_in_0_1_and_keep_the_order(history, rewards):
    scaled = quantile_reward(rewards, history)
    assert all(0 <= value <= 1 for value in scaled)
    order = sorted(range(len(rewards)), key=lambda at: rewards[at])
    assert all(scaled[a] <= scaled[b] for a, b in itertools.pairwise(order))


def test_a_constant_history_gives_0_or_1():
    assert quantile_reward([0.4, 0.5, 0.6], [0.5, 0.5]) == [0.0, 0.0, 1.0]
    assert quantile_reward([], [0.5]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearPosterior.prior([]), r"mu0 must have shape \(d,\), got \(0,\)"),
        (lambda: LinearPosterior.prior([0.0], lambda0=0.0), "lambda0 must be positive"),
        (lambda: LinearPosterior.prior([0.0], sigma2=math.nan), "sigma2 must be positive"),
        (lambda: LinearPosterior.prior([0.0]).update([1.0, 2.0], 1.0), r"context must have shape \(1,\)"),
        (lambda: LinearPosterior.prior([0.0]).update([math.inf], 1.0), "context must be finite"),
        (lambda: LinearPosterior.prior([0.0]).update([1.0], math.nan), "reward must be finite"),
        (lambda: Router({}), "at least one scorer"),
        (lambda: Router({"a": LinearPosterior.prior([0.0]), "b": LinearPosterior.prior([0.0, 1.0])}), "one dimension"),
        (lambda: Router({"a": LinearPosterior.prior([0.0])}).update("b", [1.0], 1.0), "knows a; got 'b'"),
        (lambda: Router.from_json({"scorers": {}}), "at least one scorer"),
        (lambda: Router.from_json({"scorers": {"a": {"shift": [0.0]}}}), "malformed .*precision"),
        (lambda: Router.from_json([]), "malformed"),
        (lambda: quantile_reward([1.0], []), "history"),
        (lambda: quantile_reward([math.nan], [1.0]), "rewards must be finite"),
        (lambda: quantile_reward([1.0], [1.0], low=0.8, high=0.2), "low < high"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
