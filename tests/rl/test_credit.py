"""Rewards per token and advantages: closed forms, invariants as properties, what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.aggregation import aggregate_steps
from stepgauge.rl.advantages import egae, grpo_rank, information_gain, mrt_progress, pav, prime_rloo, roirl
from stepgauge.rl.credit import combine, min_form, pad_tokens, soft_min_form, token_rewards
from stepgauge.rl.entropy import (
    cluster_loglik,
    cov_token_selection,
    em_reward,
    entropy_gradient,
    entropy_temperature,
    entropy_value,
    minimize_entropy,
    seed_scale,
    self_certainty_reward,
    semantic_entropy,
)
from stepgauge.rl.guards import cap_steps, clip_rewards, drop_flat_groups, group_advantages
from stepgauge.rl.lp_reg import lp_reg_mask, lp_reg_penalty, min_p_proxy

number = st.floats(-5, 5)
chance = st.floats(0, 1)
numbers = st.lists(number, min_size=1, max_size=8)


@given(st.lists(st.tuples(st.one_of(st.none(), number), st.integers(0, 4), st.integers(0, 2)), max_size=6))
def test_placing_keeps_the_sum_and_stays_on_the_steps(steps):
    scores, ranges, at = [], [], 0
    for score, length, gap in steps:
        scores.append(score)
        ranges.append((at, at + length))
        at += length + gap
    total = sum(s for s, (a, b) in zip(scores, ranges, strict=True) if s is not None and b > a)
    covered = {t for a, b in ranges for t in range(a, b)}
    for place in ("last", "spread"):
        rewards = token_rewards(scores, ranges, at, place)
        assert rewards.shape == (at,)
        assert math.isclose(rewards.sum(), total, abs_tol=1e-9)
        assert set(np.flatnonzero(rewards)) <= covered


@pytest.mark.parametrize(
    ("scores", "ranges", "n", "place"),
    [
        ([1.0], [], 1, "last"),
        ([1.0], [(0, 3)], 2, "last"),
        ([1.0], [(2, 1)], 3, "spread"),
        ([math.nan], [(0, 1)], 1, "last"),
        ([1.0], [(0, 1)], 1, "first"),
    ],
)
def test_what_cannot_be_placed_is_refused(scores, ranges, n, place):
    with pytest.raises(ValueError):
        token_rewards(scores, ranges, n, place)


@pytest.mark.parametrize(("side", "where"), [("right", slice(0, 2)), ("left", slice(2, 4))])
def test_padding_is_masked(side, where):
    rewards, mask = pad_tokens([[1.0, 2.0], []], 4, side)
    assert rewards[0, where].tolist() == [1.0, 2.0]
    assert mask.sum() == 2
    assert mask[0, where].all()
    assert not rewards[~mask].any()
    with pytest.raises(ValueError, match="shorter"):
        pad_tokens([[1.0, 2.0]], 1, side)


@given(numbers)
def test_the_min_form_returns_the_minimum(scores):
    assert min_form(scores).sum() == min(scores)
    assert np.count_nonzero(min_form(scores)) <= 1
    assert math.isclose(soft_min_form(scores, 0.1).sum(), aggregate_steps(scores, "softmin"), abs_tol=1e-12)


def test_the_soft_min_form_tends_to_the_minimum():
    assert math.isclose(soft_min_form([0.9, 0.4, 0.95], 1e-3).sum(), 0.4)
    for scores in ([], [math.inf]):
        with pytest.raises(ValueError):
            soft_min_form(scores)


@given(number, numbers, number)
def test_outcome_and_process_add_up(outcome, scores, alpha):
    assert math.isclose(combine(outcome, scores, alpha).sum(), outcome + alpha * sum(scores), abs_tol=1e-9)


@given(st.lists(chance, min_size=1, max_size=8), chance, st.integers(1, 8))
def test_prover_advantages_telescope(q, v0, k):
    found = pav(q, v0, k)
    assert math.isclose(found.advantage.sum(), (1 - v0) ** k - (1 - q[-1]) ** k, abs_tol=1e-9)
    progress = mrt_progress([v0, *q], 1.0, alpha=2.0)
    assert math.isclose(progress.reward, 1.0 + 2.0 * (q[-1] - v0), abs_tol=1e-9)
    assert math.isclose(information_gain([-v0, *(-x for x in q)]).sum(), v0 - q[-1], abs_tol=1e-9)


@given(st.lists(number, min_size=2, max_size=8))
def test_leave_one_out_sums_to_zero_for_scalar_rewards(outcome):
    zero = [[0.0]] * len(outcome)
    for variant in ("paper", "repo"):
        assert math.isclose(sum(row[0] for row in prime_rloo(zero, outcome, variant=variant)), 0.0, abs_tol=1e-9)
        one = prime_rloo([[x] for x in outcome], [0.0] * len(outcome), variant=variant)
        assert math.isclose(sum(row[0] for row in one), 0.0, abs_tol=1e-9)


@given(st.lists(numbers, min_size=2, max_size=5))
def test_the_two_prime_variants_differ_by_the_tokens_own_deviation(rows):
    zeros = [0.0] * len(rows)
    paper, repo = prime_rloo(rows, zeros, 0.0), prime_rloo(rows, zeros, 0.0, variant="repo")
    for row, a, b in zip(rows, paper, repo, strict=True):
        assert np.allclose(b - a, (np.array(row) - np.mean(row)) / (len(rows) - 1))


@given(st.lists(st.tuples(number, number), max_size=8), chance, chance)
def test_a_finished_response_gets_plain_gae(pairs, gamma, lam):
    rewards, values = [r for r, _ in pairs], [v for _, v in pairs]
    want, following, total = [0.0] * len(pairs), 0.0, 0.0
    for t in reversed(range(len(pairs))):
        total = rewards[t] + gamma * following - values[t] + gamma * lam * total
        want[t], following = total, values[t]
    assert np.allclose(egae(rewards, values, True, gamma, lam)[1], want)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_rank_advantages_sum_to_zero_and_fall_with_rank(ranks):
    advantages = grpo_rank(ranks)
    assert math.isclose(advantages.sum(), 0.0, abs_tol=1e-9)
    order = np.argsort(ranks, kind="stable")
    assert (np.diff(advantages[order]) <= 1e-12).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), chance)
def test_semantic_entropy_is_between_zero_and_the_maximum(counts, alpha):
    found = semantic_entropy(counts)
    for entropy in (found.kuhn, found.shannon):
        assert -1e-12 <= entropy <= found.maximum + 1e-9
        scaled = seed_scale([1.0], entropy, found.maximum, alpha)[0]
        assert 0.0 <= scaled <= 1.0
    ids = [index for index, count in enumerate(counts) for _ in range(count)]
    assert math.isclose(cluster_loglik(ids, [-3.0] * len(ids))[1], found.shannon, abs_tol=1e-9)


@given(st.lists(number, min_size=1, max_size=8), number)
def test_token_statistics(logits, shift):
    entropy, gradient = entropy_gradient(logits)
    moved = np.asarray(logits) + shift
    assert -1e-12 <= entropy <= math.log(len(logits)) + 1e-9
    assert math.isclose(self_certainty_reward([logits]), self_certainty_reward([moved]), abs_tol=1e-9)
    assert self_certainty_reward([logits]) >= -1e-12
    for index in range(len(logits)):
        up, down = np.array(logits), np.array(logits)
        up[index] += 1e-5
        down[index] -= 1e-5
        slope = (entropy_gradient(up)[0] - entropy_gradient(down)[0]) / 2e-5
        assert math.isclose(gradient[index], slope, abs_tol=1e-6)
    after = minimize_entropy(logits, 0.1, 5, 0.0)
    assert entropy_gradient(after)[0] <= entropy + 1e-12
    assert after[int(np.argmax(logits))] == after.max()
    assert math.isclose(em_reward([logits], [0]).token, -entropy, abs_tol=1e-12)


@given(st.floats(0.2, 1.0))
def test_the_temperature_gives_the_entropy_asked_for(ratio):
    logits = np.array([2.0, 1.0, 0.0])
    temperature = entropy_temperature(logits, ratio)
    assert 0 < temperature <= 1
    assert math.isclose(entropy_gradient(logits / temperature)[0], ratio * entropy_gradient(logits)[0], rel_tol=1e-9)


@given(numbers, st.floats(-50, 50), st.floats(0, 20), number)
def test_the_regularized_value_is_bounded_monotone_and_shifts(rewards, eta, more, shift):
    value = entropy_value(rewards, eta)
    assert min(rewards) - 1e-9 <= value <= max(rewards) + 1e-9
    assert entropy_value(rewards, eta + more) >= value - 1e-6
    assert math.isclose(entropy_value([r + shift for r in rewards], eta), value + shift, abs_tol=1e-5)


def test_the_regularized_value_of_equal_rewards_is_exact():
    assert [entropy_value([r] * 3, 900.0) for r in (0.0, 1.0)] == [0.0, 1.0]


@given(st.lists(st.tuples(number, number), min_size=1, max_size=20), chance)
def test_covariances(pairs, fraction):
    logp, advantages = [x for x, _ in pairs], [a for _, a in pairs]
    found = cov_token_selection(logp, advantages, kl_fraction=fraction)
    assert math.isclose(found.cov.mean(), np.cov(logp, advantages, bias=True)[0, 1], abs_tol=1e-9)
    assert len(found.kl_tokens) == max(1, int(fraction * len(pairs)))
    drawn = found.sample_clip(0.5, np.random.default_rng(0))
    assert set(drawn) <= set(found.candidates)
    flat = cov_token_selection(logp, [1.0] * len(logp))
    assert not len(flat.candidates)
    assert len(flat.kl_tokens) == 1


def test_lp_reg_regularizes_only_what_the_proxy_protects():
    proxy = min_p_proxy([0.6, 0.394, 0.006])
    assert math.isclose(proxy.forward_kl, -math.log(0.994))
    low, kept = [-6.0, -6.0, -6.0, -0.1], [-5.0, -5.0, -math.inf, 0.0]
    assert lp_reg_mask(low, kept, [-1.0, 1.0, -1.0, -1.0], 0.75).tolist() == [True, False, False, False]
    penalty = lp_reg_penalty(low, kept, [-1.0, 1.0, -1.0, -1.0], 0.75)
    assert math.isclose(penalty[0], math.e - 2)
    assert not penalty[1:].any()
    assert lp_reg_penalty([-100.0], [-1.0], [-1.0], 1.0).tolist() == [10.0]


@given(st.lists(st.one_of(st.none(), st.sampled_from("ab")), max_size=8), st.floats(0.1, 2))
def test_roirl_weights(answers, beta):
    found = roirl(answers, beta)
    assert (found.weights > 0).all()
    if answers:
        assert math.isclose(roirl(answers, beta, normalize=True).weights.sum(), 1.0)
    if not any(answers):
        assert found.majority is None
        assert not found.reward.any()


@given(st.lists(st.one_of(st.none(), number), min_size=1, max_size=8))
def test_group_advantages_leave_abstentions_out(rewards):
    advantages = group_advantages(rewards)
    assert [a is None for a in advantages] == [r is None for r in rewards]
    known = [a for a in advantages if a is not None]
    assert math.isclose(sum(known), 0.0, abs_tol=1e-6)
    without = group_advantages([r for r in rewards if r is not None])
    assert known == without


def test_guards():
    assert clip_rewards([-9, 9], -1, 1).tolist() == [-1.0, 1.0]
    with pytest.raises(ValueError, match="NaN"):
        clip_rewards([math.nan], 0, 1)
    assert drop_flat_groups([[1, math.nan, 1], [0, 1, math.nan]]).tolist() == [False, True]
    assert cap_steps([(i, i + 1) for i in range(100)], 3) == [(0, 1), (1, 2), (2, 100)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: prime_rloo([[1.0]], [1.0]),
        lambda: prime_rloo([[1.0], []], [1.0, 0.0]),
        lambda: pav([1.2], 0.5),
        lambda: mrt_progress([], 1.0),
        lambda: information_gain([-math.inf, -math.inf]),
        lambda: semantic_entropy([0, 1]),
        lambda: self_certainty_reward([[0.0, -math.inf]]),
        lambda: em_reward([[0.0]], [1]),
        lambda: egae([1.0], [], True),
        lambda: cov_token_selection([], []),
        lambda: min_p_proxy([0.5, 0.2]),
        lambda: entropy_value([], 1.0),
        lambda: entropy_temperature([1.0, 1.0, 0.0], 0.01),
        lambda: em_reward([[0.0, 0.0]], []).per_token(),
    ],
)
def test_what_is_undefined_raises(call):
    with pytest.raises(ValueError):
        call()
