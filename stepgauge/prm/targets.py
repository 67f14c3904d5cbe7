"""Training targets of a step from its rollouts: hard, soft and entropy-regularized, with intervals.

Keep the counts (c right of n rollouts) and make labels late: every target here is a function of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "beta_mean",
    "clopper_pearson_interval",
    "entropy_regularized",
    "entropy_regularized_binary",
    "expected_plugin",
    "first_error_of",
    "hard_label",
    "jeffreys_interval",
    "missed_step_probability",
    "scaled_log_mean_exp",
    "soft_label",
    "success_rate_of",
    "wilson_interval",
]

SMALL_ETA = 1e-6  # below, the closed form loses digits and two terms of the series are exact


def soft_label(c: int, n: int) -> float:
    """Share of the step's rollouts that reach the right answer, c / n: a probability.

    Raises:
        ValueError: unless n >= 1 and 0 <= c <= n.

    Example:
        >>> soft_label(3, 8)
        0.375

    References:
        Wang et al. 2023, Math-Shepherd, equation 4.
    """
    _check_counts(c, n)
    return c / n


def hard_label(c: int, n: int, threshold: float = 0.0) -> int:
    """1 where the share of right rollouts exceeds ``threshold``, else 0; 0 is the published best.

    Raises:
        ValueError: unless n >= 1, 0 <= c <= n and 0 <= threshold < 1.

    Example:
        >>> hard_label(1, 8), hard_label(0, 8), hard_label(1, 8, threshold=0.125)
        (1, 0, 0)

    References:
        Wang et al. 2023, Math-Shepherd, equation 3; Zhang et al. 2025, The Lessons of Developing PRMs, section 3.
    """
    _check_counts(c, n)
    if not 0 <= threshold < 1:
        raise ValueError(f"hard_label(threshold) must be in [0, 1), got {threshold}")
    return int(c > threshold * n)


def missed_step_probability(p: float, n: int) -> float:
    """Chance that a step with success rate p is labelled 0 by n rollouts: (1 - p)^n.

    Raises:
        ValueError: p outside [0, 1] or n below 1.

    Example:
        >>> round(missed_step_probability(0.1, 8), 4)
        0.4305
    """
    _check_rate(p)
    _check_counts(0, n)
    return (1.0 - p) ** n


def scaled_log_mean_exp(values: ArrayLike, weights: ArrayLike | None, eta: float) -> NDArray[np.float64] | float:
    """(1/eta) ln sum_i w_i exp(eta v_i) over the last axis: soft maximum (eta > 0), mean (0), soft minimum (eta < 0).

    The one function behind the entropy-regularized target and, with eta = 1/beta, the value of an implicit PRM.

    Args:
        values: (..., n) finite numbers.
        weights: (..., n) at least 0, not all 0, made to sum to 1; None = equal.
        eta: any real number, or infinite: then the maximum (or minimum) of what has weight.

    Returns:
        (...,) in the unit of ``values``; a float for one row. Exactly v where all values are v.

    Raises:
        ValueError: no values, a value that is not finite, bad weights, eta NaN.

    Example:
        >>> round(scaled_log_mean_exp([1, 0, 0, 1, 0, 0, 0, 0], None, 2.0), 4)
        0.4772
        >>> scaled_log_mean_exp([0.2, 0.9], None, float("inf")), scaled_log_mean_exp([1.0, 2.0], None, 0.0)
        (0.9, 1.5)
    """
    v = np.asarray(values, dtype=np.float64)
    if v.ndim == 0 or v.shape[-1] == 0:
        raise ValueError("scaled_log_mean_exp(values) needs at least one value in the last axis, got none")
    if not np.isfinite(v).all():
        raise ValueError("scaled_log_mean_exp(values) must be finite")
    if math.isnan(eta):
        raise ValueError("scaled_log_mean_exp(eta) must be a number, got NaN")
    w = np.ones_like(v) if weights is None else np.broadcast_to(np.asarray(weights, dtype=np.float64), v.shape)
    if not np.isfinite(w).all() or (w < 0).any() or (w.sum(-1) <= 0).any():
        raise ValueError("scaled_log_mean_exp(weights) must be finite, at least 0 and not all 0")
    w = w / w.sum(-1, keepdims=True)
    top = np.where(w > 0, v, -np.inf).max(-1) if eta >= 0 else np.where(w > 0, v, np.inf).min(-1)
    gap = np.where(w > 0, v - top[..., None], 0.0)  # at most 0 where eta > 0, at least 0 where eta < 0
    if math.isinf(eta):
        found = top
    elif abs(eta) < SMALL_ETA:
        mean = (w * gap).sum(-1)
        found = top + mean + eta / 2 * (w * (gap - mean[..., None]) ** 2).sum(-1)
    else:
        spread = eta * gap  # at most 0; near 0 the first form keeps the digits, far from it the second
        near = np.log1p((w * np.expm1(np.maximum(spread, -1.0))).sum(-1))
        far = np.log((w * np.exp(spread)).sum(-1))
        found = top + np.where(spread.min(-1) > -1.0, near, far) / eta
    return float(found) if found.ndim == 0 else found


def entropy_regularized(
    rewards: ArrayLike, eta: float, weights: ArrayLike | None = None
) -> NDArray[np.float64] | float:
    """ER-PRM's target of a step: f(eta) = (1/eta) ln sum_i w_i exp(eta r_i) over the rewards of its rollouts.

    Args:
        rewards: (..., n) reward of each rollout, 0/1 or graded.
        eta: 1/temperature; 0 = soft label, infinite = best rollout, negative = soft minimum.
        weights: (..., n) of the rollouts; None = equal, as for samples of the policy.

    Raises:
        ValueError: as ``scaled_log_mean_exp``.

    Example:
        >>> round(entropy_regularized([1, 0, 0, 1, 0, 0, 0, 0], eta=10.0), 3)
        0.861

    References:
        Zhang et al. 2024, Entropy-Regularized Process Reward Model, equation 5.
    """
    return scaled_log_mean_exp(rewards, weights, eta)


def entropy_regularized_binary(p: float, eta: float) -> float:
    """The same for 0/1 rewards of which a share p is 1: ln(1 - p + p e^eta) / eta.

    Raises:
        ValueError: p outside [0, 1], eta NaN.

    Example:
        >>> round(entropy_regularized_binary(0.25, 2.0), 4)
        0.4772
    """
    _check_rate(p)
    return float(scaled_log_mean_exp([0.0, 1.0], [1.0 - p, p], eta))


def success_rate_of(label: float, eta: float) -> float:
    """The share p of right rollouts behind an entropy-regularized label: (e^(eta f) - 1) / (e^eta - 1).

    Raises:
        ValueError: a label outside [0, 1], or an infinite or NaN eta (then the label does not tell).

    Example:
        >>> round(success_rate_of(0.47722929639662026, 2.0), 6)
        0.25
    """
    if not 0 <= label <= 1:
        raise ValueError(f"success_rate_of(label) must be in [0, 1], got {label}")
    if not math.isfinite(eta):
        raise ValueError(f"success_rate_of(eta) must be finite, got {eta}")
    if abs(eta) < 1e-12:
        return label
    if eta > 1:  # both divided by e^eta, so that nothing overflows
        return float((math.exp(eta * (label - 1)) - math.exp(-eta)) / -math.expm1(-eta))
    return math.expm1(eta * label) / math.expm1(eta)


def expected_plugin(p: float, n: int, eta: float) -> float:
    """What the entropy-regularized label of n rollouts is on average, where each is right with probability p.

    Below the label of p itself for eta > 0, since the function is concave in p: large eta needs many rollouts.

    Raises:
        ValueError: p outside [0, 1], n below 1, eta NaN.

    Example:
        >>> round(expected_plugin(0.1, 8, 10.0), 3), round(entropy_regularized_binary(0.1, 10.0), 3)
        (0.466, 0.77)
    """
    _check_rate(p)
    _check_counts(0, n)
    chances = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    return math.fsum(chance * entropy_regularized_binary(c / n, eta) for c, chance in enumerate(chances))


def beta_mean(c: int, n: int) -> float:
    """Posterior mean of the success rate under a uniform prior: (c + 1) / (n + 2).

    Example:
        >>> beta_mean(3, 8)
        0.4
    """
    _check_counts(c, n)
    return (c + 1) / (n + 2)


def wilson_interval(c: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of the success rate.

    Raises:
        ValueError: bad counts, or a level outside (0, 1).

    Example:
        >>> [round(bound, 4) for bound in wilson_interval(3, 8)]
        [0.1368, 0.6943]

    References:
        Wilson 1927, Probable inference, the law of succession, and statistical inference.
    """
    from scipy.special import ndtri

    _check_interval(c, n, level)
    z = float(ndtri(0.5 + level / 2))
    p, scale = c / n, 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return (0.0 if c == 0 else max(0.0, centre - half), 1.0 if c == n else min(1.0, centre + half))


def clopper_pearson_interval(c: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson: covers at least ``level``, and more where n is small.

    Example:
        >>> [round(bound, 4) for bound in clopper_pearson_interval(3, 8)]
        [0.0852, 0.7551]
    """
    from scipy.special import betaincinv

    _check_interval(c, n, level)
    tail = (1 - level) / 2
    low = 0.0 if c == 0 else float(betaincinv(c, n - c + 1, tail))
    return low, 1.0 if c == n else float(betaincinv(c + 1, n - c, 1 - tail))


def jeffreys_interval(c: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The equal-tailed interval under Jeffreys' prior; 0 and 1 are its ends where c is 0 or n.

    Example:
        >>> [round(bound, 4) for bound in jeffreys_interval(3, 8)]
        [0.119, 0.7052]
    """
    from scipy.special import betaincinv

    _check_interval(c, n, level)
    tail = (1 - level) / 2
    low = 0.0 if c == 0 else float(betaincinv(c + 0.5, n - c + 0.5, tail))
    return low, 1.0 if c == n else float(betaincinv(c + 0.5, n - c + 0.5, 1 - tail))


def first_error_of(labels: Sequence[int]) -> int:
    """Index of the first step labelled 0, -1 if none.

    Example:
        >>> first_error_of([1, 1, 0, 1]), first_error_of([1])
        (2, -1)
    """
    return next((index for index, label in enumerate(labels) if not label), -1)


def _check_counts(c: int, n: int) -> None:
    if n < 1:
        raise ValueError(f"a label needs at least one rollout, got n={n}; a step without rollouts has no label")
    if not 0 <= c <= n:
        raise ValueError(f"counts must have 0 <= c <= n, got c={c}, n={n}")


def _check_interval(c: int, n: int, level: float) -> None:
    _check_counts(c, n)
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval must be in (0, 1), got {level}")


def _check_rate(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"a success rate must be in [0, 1], got {p}")
