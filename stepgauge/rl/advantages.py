"""Advantages and process bonuses of published methods. Pure functions on numpy arrays; K rollouts a group, S steps."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "Progress",
    "Provers",
    "SelfReward",
    "egae",
    "grpo_rank",
    "information_gain",
    "mrt_progress",
    "pav",
    "prime_rloo",
    "rank_penalty",
    "roirl",
]

Array = npt.NDArray[np.float64]


def _finite(value: npt.ArrayLike, owner: str, name: str, *, empty: bool = True) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array.size == 0 and not empty):
        raise ValueError(f"{owner}({name}) must be a list of {'' if empty else 'at least one '}finite numbers")
    return array


def _probabilities(value: npt.ArrayLike, owner: str, name: str, *, empty: bool = True) -> Array:
    array = _finite(value, owner, name, empty=empty)
    if ((array < 0) | (array > 1)).any():
        raise ValueError(f"{owner}({name}) must be probabilities in [0, 1], got {array.tolist()}")
    return array


def prime_rloo(
    token_rewards: Sequence[npt.ArrayLike],
    outcome: npt.ArrayLike,
    gamma: float = 1.0,
    *,
    variant: Literal["paper", "repo"] = "paper",
) -> list[Array]:
    """PRIME: leave-one-out process and outcome advantage of each token, before whitening.

    With m_i the mean token reward of rollout i: "paper" centres r_t - mean_{j != i} m_j; "repo", what the published
    code computes, K r_t / (K - 1) - sum_j m_j / (K - 1). Then A_t = sum_{s >= t} gamma^(s-t) centred_s + (o_i - mean_{j
    != i} o_j).

    Args:
        token_rewards: K rows of (T_i,) rewards in nats, beta log pi/pi_ref.
        outcome: (K,) outcome rewards.
        gamma: discount a token.

    Raises:
        ValueError: K < 2, a rollout without tokens, lengths that differ, numbers that are not finite.

    Example:
        >>> [row.round(2).tolist() for row in prime_rloo([[0.1, 0.1], [0.3]], [0.0, 1.0])]
        [[-1.4, -1.2], [1.2]]

    References:
        Cui et al. 2025, PRIME (2502.01456), equation 5.
    """
    rows = [_finite(row, "prime_rloo", "token_rewards", empty=False) for row in token_rewards]
    results = _finite(outcome, "prime_rloo", "outcome")
    count = len(rows)
    if count < 2 or results.size != count:
        raise ValueError(f"prime_rloo needs K >= 2 rollouts with an outcome each, got {count} and {results.size}")
    if variant not in ("paper", "repo"):
        raise ValueError(f"prime_rloo(variant) must be paper or repo, got {variant!r}")
    means = np.array([row.mean() for row in rows])
    final = results - (results.sum() - results) / (count - 1)
    advantages = []
    for index, row in enumerate(rows):
        if variant == "paper":
            centred = row - (means.sum() - means[index]) / (count - 1)
        else:
            centred = (count * row - means.sum()) / (count - 1)
        advantages.append(_discounted(centred, gamma) + final[index])
    return advantages


def _discounted(rewards: Array, gamma: float) -> Array:
    returns, total = np.zeros_like(rewards), 0.0
    for t in range(rewards.size - 1, -1, -1):
        total = rewards[t] + gamma * total
        returns[t] = total
    return returns


@dataclass(frozen=True, slots=True)
class Provers:
    """(S,) value of the best-of-K prover after each step, its advantage, and Q + alpha A."""

    prover_q: Array
    advantage: Array
    effective: Array


def pav(q: npt.ArrayLike, v0: float, k: int = 4, alpha: float = 0.5) -> Provers:
    """PAV: effective reward Q_s + alpha (Qmu_s - Qmu_{s-1}) under the best-of-k prover, Qmu = 1 - (1 - Q)^k.

    Args:
        q: (S,) probability of success after each step, under the policy.
        v0: that probability before the first step.
        k: attempts of the prover. alpha: weight of its advantage.

    Raises:
        ValueError: probabilities outside [0, 1], or k < 1.

    Example:
        >>> pav([0.5], v0=0.0, k=2).advantage.tolist()
        [0.75]

    References:
        Setlur et al. 2024, Rewarding Progress (2410.08146), section 3.
    """
    values = _probabilities(np.concatenate([[v0], np.asarray(q, dtype=np.float64)]), "pav", "q and v0")
    if k < 1:
        raise ValueError(f"pav(k) must be >= 1, got {k}")
    prover = 1.0 - (1.0 - values) ** k
    advantage = np.diff(prover)
    return Provers(prover[1:], advantage, values[1:] + alpha * advantage)


@dataclass(frozen=True, slots=True)
class Progress:
    """(S,) progress of each episode, their sum, the shaped reward, and the regret (None without an oracle)."""

    progress: Array
    bonus: float
    reward: float
    regret: float | None


def mrt_progress(
    success: npt.ArrayLike, outcome: float, alpha: float = 1.0, oracle: npt.ArrayLike | None = None
) -> Progress:
    """MRT: outcome + alpha sum_j (J_j - J_{j-1}); regret sum_j (J*_j - J_j).

    Args:
        success: (S + 1,) chance of a right answer when it is forced after each episode; entry 0 before the first.
        oracle: (S + 1,) the best policy's chance at the same places.

    Raises:
        ValueError: no entry 0, probabilities outside [0, 1], lengths that differ.

    Example:
        >>> mrt_progress([0.25, 0.75], 1.0).reward
        1.5

    References:
        Qu et al. 2025, Meta Reinforcement Fine-Tuning (2503.07572).
    """
    values = _probabilities(success, "mrt_progress", "success", empty=False)
    regret = None
    if oracle is not None:
        best = _probabilities(oracle, "mrt_progress", "oracle")
        if best.size != values.size:
            raise ValueError(f"mrt_progress(oracle) needs {values.size} entries, got {best.size}")
        regret = math.fsum(best - values)
    progress = np.diff(values)
    bonus = math.fsum(progress)
    return Progress(progress, bonus, outcome + alpha * bonus, regret)


def information_gain(answer_logprob: npt.ArrayLike) -> Array:
    """(..., S) nats each step adds to log p(gold answer | question, steps so far).

    Divide by ln 2 for bits. A sample may be negative; the expectation under the true conditionals is not.

    Args:
        answer_logprob: (..., S + 1) summed log-probability of the answer's tokens; entry 0 after the question alone.

    Raises:
        ValueError: no entry 0, NaN, a log-probability above 0, or -inf followed by -inf.

    Example:
        >>> information_gain([-2.0, -0.5, -1.0]).tolist()
        [1.5, -0.5]

    References:
        Ton et al. 2025, Understanding Chain-of-Thought in LLMs through Information Theory (2411.11984).
    """
    values = np.asarray(answer_logprob, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0 or np.isnan(values).any() or (values > 1e-9).any():
        raise ValueError("information_gain(answer_logprob) needs S + 1 log-probabilities <= 0, the question's first")
    if (np.isneginf(values[..., 1:]) & np.isneginf(values[..., :-1])).any():
        raise ValueError("information_gain(answer_logprob): -inf minus -inf is undefined; the answer stays impossible")
    return np.diff(values, axis=-1)


def egae(
    rewards: npt.ArrayLike, values: npt.ArrayLike, finished: bool, gamma: float = 1.0, lam: float = 0.95
) -> tuple[Array, Array]:
    """Extended GAE on a response that may be cut: (T,) delta and (T,) advantage.

    delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lam A_{t+1}; after the last token V = 0 where it
    is finished, and V_{T-1} where it was cut. A finished response gives plain GAE.

    Raises:
        ValueError: lengths that differ, or numbers that are not finite.

    Example:
        >>> egae([0.0, 0.0], [0.25, 0.5], finished=False, lam=1.0)[1].tolist()
        [0.25, 0.0]

    References:
        Fan et al. 2025, T-PPO (2506.15050); Schulman et al. 2016, GAE.
    """
    r, v = _finite(rewards, "egae", "rewards"), _finite(values, "egae", "values")
    if r.size != v.size:
        raise ValueError(f"egae needs one value a reward, got {r.size} rewards and {v.size} values")
    if r.size == 0:
        return r, v
    following = np.append(v[1:], 0.0 if finished else v[-1])
    delta = r + gamma * following - v
    return delta, _discounted(delta, gamma * lam)


def rank_penalty(ranks: npt.ArrayLike) -> Array:
    """(K,) delta = 1 - 1 / ((1 + r) log2(2 + r)) of 0-based ranks, 0 the best. See ``grpo_rank``.

    Raises ValueError for a negative rank.

    Example:
        >>> rank_penalty([0, 2]).round(4).tolist()
        [0.0, 0.8333]
    """
    values = _finite(ranks, "rank_penalty", "ranks")
    if (values < 0).any():
        raise ValueError(f"rank_penalty(ranks) counts from 0, got {values.tolist()}")
    return np.asarray(1.0 - 1.0 / ((1.0 + values) * np.log2(2.0 + values)))


def grpo_rank(ranks: npt.ArrayLike) -> Array:
    """(K,) advantage mean(delta) - delta_i from ranks, 0 the best; sums to 0. Give ties their average rank.

    UNVERIFIED: the paper's penalty compares a predicted with an oracle rank; this is the one of an unofficial
    re-implementation.

    Raises ValueError for an empty group or a negative rank.

    Example:
        >>> grpo_rank([0, 0, 0]).tolist()
        [0.0, 0.0, 0.0]
    """
    penalty = rank_penalty(ranks)
    if penalty.size == 0:
        raise ValueError("grpo_rank(ranks) needs at least one rank")
    return np.asarray(penalty.mean() - penalty)


@dataclass(frozen=True, slots=True)
class SelfReward:
    """Majority answer, (K,) agreement with it, and the (K,) weights of the weighted likelihood."""

    majority: Hashable | None
    reward: Array
    weights: Array


def roirl(answers: Sequence[Hashable | None], beta: float | None = None, *, normalize: bool = False) -> SelfReward:
    """RoiRL: r = 1 where the answer is the majority's; weight r, or e^(r / beta) where ``beta`` is given.

    Ties go to the answer seen first; None is no answer. Unless normalised, e^(0 / beta) = 1 imitates wrong answers.

    Raises:
        ValueError: beta that is not positive, or weights to normalise that are all 0.

    Example:
        >>> roirl(["7", None, "3", "7"]).weights.tolist()
        [1.0, 0.0, 0.0, 1.0]

    References:
        RoiRL 2025 (2510.02892).
    """
    if beta is not None and not beta > 0:
        raise ValueError(f"roirl(beta) must be > 0, got {beta}")
    given = [answer for answer in answers if answer is not None]
    majority = max(dict.fromkeys(given), key=given.count) if given else None
    reward = np.array([float(answer is not None and answer == majority) for answer in answers])
    if beta is None:
        weights = reward.copy()
    else:
        weights = np.exp((reward - reward.max()) / beta) if normalize and reward.size else np.exp(reward / beta)
    if normalize and weights.size:
        if weights.sum() == 0:
            raise ValueError("roirl(normalize): every weight is 0; drop a group without answers")
        weights = weights / weights.sum()
    return SelfReward(majority, reward, weights)
