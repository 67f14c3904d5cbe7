"""Training targets of a step from its completions: hard, soft and entropy-regularized labels, with intervals.

What is stored of a prefix is (c, n): of n judged completions c reached the gold answer. Labels follow from it, late.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "IntervalMethod",
    "MCLabel",
    "binomial_interval",
    "er_label",
    "er_label_of_rate",
    "expected_er_label",
    "hard_label",
    "hard_miss_rate",
    "log_mean_exp",
    "mc_label",
    "rate_of_er_label",
]

IntervalMethod = Literal["wilson", "clopper_pearson", "jeffreys"]
_FLAT = 1e-17  # |eta| (max - min) below which the label is the mean in float64

Array = NDArray[np.float64]


def log_mean_exp(x: ArrayLike, weights: ArrayLike | None = None) -> Array:
    r"""ln Σ_i p_i e^{x_i} over the last axis, p = weights / Σ weights; no overflow, and no cancellation near x = 0.

    Args:
        x: (..., n) exponents, nats; −inf is allowed.
        weights: broadcasts to x, ≥ 0 (a mask will do); None = equal. Entries of weight 0 are left out.

    Raises:
        ValueError: n = 0, NaN or +inf, a negative or non-finite weight, a row without weight.

    Example:
        >>> float(log_mean_exp([1000.0, 1000.0])), float(log_mean_exp([0.0, -np.inf]))
        (1000.0, -0.6931471805599453)
    """
    values, p = _weighted(x, weights, "log_mean_exp(x)")
    top = np.where(p > 0, values, -np.inf).max(axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    gap = np.where(p > 0, values - safe, 0.0)  # ≤ 0
    below = (p * np.expm1(gap)).sum(axis=-1)  # Σ p e^gap − 1
    whole = (p * np.exp(gap)).sum(axis=-1)
    with np.errstate(divide="ignore"):
        log = np.where(below > -0.5, np.log1p(np.maximum(below, -0.5)), np.log(whole))
    return np.asarray(safe[..., 0] + log)


def _weighted(x: ArrayLike, weights: ArrayLike | None, what: str) -> tuple[Array, Array]:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError(f"{what} needs at least one completion on the last axis, got shape {values.shape}; drop it")
    raw = np.ones(values.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if raw.ndim == 0 or raw.shape[-1] != values.shape[-1]:
        raise ValueError(f"weights must have one entry a completion: {values.shape[-1]}, got shape {raw.shape}")
    if not np.isfinite(raw).all() or (raw < 0).any():
        raise ValueError("weights must be finite and 0 or more")
    values, raw = np.broadcast_arrays(values, raw)
    counted = raw > 0
    if not counted.any(axis=-1).all():
        raise ValueError("weights are all 0 in a row; drop a prefix without judged completions")
    if np.isnan(values[counted]).any() or (values[counted] == np.inf).any():
        raise ValueError(f"{what} must be numbers below infinity, got NaN or inf")
    raw = raw / raw.max(axis=-1, keepdims=True)  # so that huge weights do not overflow their sum
    return values, raw / raw.sum(axis=-1, keepdims=True)


def er_label(rewards: ArrayLike, eta: float, weights: ArrayLike | None = None) -> Array:
    r"""Entropy-regularized label f(η) = (1/η) ln Σ_i p_i e^{η r_i}, in [min r, max r].

    Increases with η: −∞ min, 0 mean, +∞ max. With η = 1/β it is the implicit value β ln E[e^{r/β}]
    (``implicit_value``).

    Args:
        rewards: (..., n) of the completions of a prefix, 0/1 or graded.
        eta: any real number or ±inf; dimension 1/reward.
        weights: (..., n) ≥ 0, renormalised; a mask will do. None = equal.

    Raises:
        ValueError: no completion, no weight, a reward that is not finite, eta NaN.

    Example:
        >>> [round(float(er_label([1, 0, 0, 1, 0, 0, 0, 0], eta)), 4) for eta in (-np.inf, 0, 2, 1000, np.inf)]
        [0.0, 0.25, 0.4772, 0.9986, 1.0]

    References: Zhang et al. 2024, ER-PRM, https://arxiv.org/abs/2412.11006.
    """
    if math.isnan(eta):
        raise ValueError("er_label(eta) must be a number, got NaN")
    values, p = _weighted(rewards, weights, "er_label(rewards)")
    if not np.isfinite(values[p > 0]).all():
        raise ValueError("er_label(rewards) must be finite")
    high = np.where(p > 0, values, -np.inf).max(axis=-1)
    low = np.where(p > 0, values, np.inf).min(axis=-1)
    if math.isinf(eta):
        return np.asarray(high if eta > 0 else low)
    base = (high if eta > 0 else low)[..., None]
    gap = np.where(p > 0, values - base, 0.0)
    with np.errstate(over="ignore"):
        flat = abs(eta) * (high - low) < _FLAT
    mean = base[..., 0] + (p * gap).sum(axis=-1)
    with np.errstate(over="ignore"):
        regular = base[..., 0] + log_mean_exp(eta * gap, p) / (eta or 1.0)
    return np.clip(np.where(flat, mean, regular), low, high)


def _check_rates(p: ArrayLike, name: str) -> Array:
    rate = np.asarray(p, dtype=np.float64)
    if not ((rate >= 0) & (rate <= 1)).all():
        raise ValueError(f"{name} must lie in [0, 1], got {p!r:.80}")
    return rate


def er_label_of_rate(p: ArrayLike, eta: float) -> Array:
    """Entropy-regularized label of a success rate p with 0/1 rewards: ln(1 − p + p e^η)/η, an increasing map of p.

    Example:
        >>> float(er_label_of_rate(0.25, 2.0))
        0.477229296396620...
    """
    rate = _check_rates(p, "er_label_of_rate(p)")
    rewards = np.broadcast_to(np.array([0.0, 1.0]), (*rate.shape, 2))
    return er_label(rewards, eta, np.stack([1 - rate, rate], axis=-1))


def rate_of_er_label(label: ArrayLike, eta: float) -> Array:
    """Success rate p behind an entropy-regularized label of 0/1 rewards: p = (e^{ηf} − 1)/(e^η − 1).

    Raises ValueError for a label outside [0, 1] and for infinite eta, whose label says only whether p is 0 or 1.

    Example:
        >>> round(float(rate_of_er_label(0.4772292963966203, 2.0)), 12)
        0.25
    """
    f = _check_rates(label, "rate_of_er_label(label)")
    if not math.isfinite(eta):
        raise ValueError(f"rate_of_er_label(eta) must be finite, got {eta}; an infinite eta keeps no rate")
    if abs(eta) < _FLAT:
        return f
    if eta < 0:
        return np.asarray(np.expm1(eta * f) / np.expm1(eta))
    return np.asarray(np.exp(eta * (f - 1)) * np.expm1(-eta * f) / np.expm1(-eta))  # no e^η


def expected_er_label(p: float, n: int, eta: float) -> float:
    """Mean of the label f(c/n) over c ~ Binomial(n, p); below f(p) for η > 0: with few completions it is biased.

    Example:
        >>> round(expected_er_label(0.1, 8, 10.0), 3), round(float(er_label_of_rate(0.1, 10.0)), 3)
        (0.466, 0.77)
    """
    from scipy.stats import binom

    _check_rates(p, "expected_er_label(p)")
    if n < 1:
        raise ValueError(f"expected_er_label(n) must be 1 or more, got {n}")
    counts = np.arange(n + 1)
    return float(binom.pmf(counts, n, p) @ er_label_of_rate(counts / n, eta))


def binomial_interval(
    correct: int, total: int, *, method: IntervalMethod = "wilson", level: float = 0.95
) -> tuple[float, float]:
    """Interval of a success rate from ``correct`` of ``total``; 0 of n has the lower bound 0, n of n the upper bound 1.

    "wilson" inverts the score test; "clopper_pearson" covers at least ``level`` whatever the rate; "jeffreys" is the
    credible interval under Beta(1/2, 1/2).

    Raises:
        ValueError: total < 1, correct outside 0..total, an unknown method, level outside (0, 1).

    Example:
        >>> [round(bound, 3) for bound in binomial_interval(3, 8)]
        [0.137, 0.694]

    References: Brown, Cai, DasGupta 2001, Interval estimation for a binomial proportion.
    """
    from scipy.stats import beta, norm

    c, n = _check_counts(correct, total)
    if method not in get_args(IntervalMethod):
        raise ValueError(f"interval must be one of {', '.join(get_args(IntervalMethod))}; got {method!r}")
    if not 0 < level < 1:
        raise ValueError(f"binomial_interval(level) must lie in (0, 1), got {level}")
    tail = (1 - level) / 2
    if method == "wilson":
        z = float(norm.isf(tail))
        middle = (c + z * z / 2) / (n + z * z)
        half = z * math.sqrt(c * (n - c) / n + z * z / 4) / (n + z * z)
        low, high = middle - half, middle + half
    else:
        a, b = ((c, n - c + 1), (c + 1, n - c)) if method == "clopper_pearson" else ((c + 0.5, n - c + 0.5),) * 2
        low = float(beta.ppf(tail, *a)) if c > 0 else 0.0
        high = float(beta.isf(tail, *b)) if c < n else 1.0
    return (0.0 if c == 0 else low), (1.0 if c == n else high)


def _check_counts(correct: Any, total: Any) -> tuple[int, int]:
    c, n = int(correct), int(total)
    if c != correct or n != total or n < 1 or not 0 <= c <= n:
        raise ValueError(
            f"counts must be whole with 0 <= correct <= total and total >= 1, got {correct} of {total}; "
            "a prefix without judged completions has no label"
        )
    return c, n


def hard_label(correct: int, total: int, *, threshold: float = 0.0) -> int:
    """1 where c/n > threshold, else 0. The default, any right completion, is the one that trains best.

    Example:
        >>> hard_label(1, 8), hard_label(0, 8), hard_label(1, 8, threshold=0.125)
        (1, 0, 0)

    References: Zhang et al. 2025, Lessons of developing PRMs, https://arxiv.org/abs/2501.07301 (threshold 0).
    """
    c, n = _check_counts(correct, total)
    return int(c / n > threshold)


@dataclass(frozen=True, slots=True)
class MCLabel:
    """The labels of a prefix: of ``total`` completions ``correct`` were right; ``soft`` = c/n with [low, high]."""

    correct: int
    total: int
    soft: float
    hard: int
    low: float
    high: float

    @property
    def posterior_mean(self) -> float:
        """(c + 1)/(n + 2), the mean under a uniform prior: what to put into a large η instead of c/n."""
        return (self.correct + 1) / (self.total + 2)


def mc_label(
    correct: int,
    total: int,
    *,
    threshold: float = 0.0,
    interval: IntervalMethod = "wilson",
    level: float = 0.95,
) -> MCLabel:
    """Monte-Carlo labels of a prefix from its counts.

    Raises ValueError where there are no completions: such a prefix has no label.

    Example:
        >>> label = mc_label(3, 8)
        >>> label.soft, label.hard, label.posterior_mean
        (0.375, 1, 0.4)

    References: Wang et al. 2023, Math-Shepherd, https://arxiv.org/abs/2312.08935.
    """
    low, high = binomial_interval(correct, total, method=interval, level=level)
    hard = hard_label(correct, total, threshold=threshold)
    return MCLabel(int(correct), int(total), correct / total, hard, low, high)


def hard_miss_rate(p: float | Sequence[float], n: int) -> Array:
    """Chance (1 − p)^n that a prefix with success rate p gets the hard label 0 from n completions.

    Example:
        >>> round(float(hard_miss_rate(0.1, 8)), 3)
        0.43
    """
    if n < 1:
        raise ValueError(f"hard_miss_rate(n) must be 1 or more, got {n}")
    return np.asarray((1 - _check_rates(p, "hard_miss_rate(p)")) ** n)
