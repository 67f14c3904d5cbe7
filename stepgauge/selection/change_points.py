"""Where a series of scores breaks: one exact change point, drift and forks of outcome distributions.

For offline diagnosis. A fork needs the outcome distributions of many continuations from every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["ChangePoint", "change_point", "drift", "forking_steps", "hazard", "survival"]

MIN_POINTS = 4
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Posterior over one change of level in a series.

    ``p_none`` is the chance of no change, ``p_tau[i]`` that of a new level from index i + 1 on (they sum to 1),
    ``map_tau`` the likeliest such index, and ``log_bf`` the log Bayes factor of a change against none, in nats.
    """

    p_none: float
    p_tau: tuple[float, ...]
    map_tau: int
    log_bf: float


def change_point(
    y: Sequence[float],
    *,
    noise_sd: float,
    prior_mean: float = 0.5,
    prior_strength: float = 1.0,
    p_change: float = 0.5,
) -> ChangePoint | None:
    """Exact posterior of a single change point in a piecewise constant series with Gaussian noise.

    Each level has the prior N(prior_mean, noise_sd^2 / prior_strength), a change has the prior chance p_change and all
    T - 1 places are equally likely. The marginal likelihood of a segment of n points is closed:
    -(n/2) ln(2 pi s^2) + (1/2) ln(k / (k + n)) - (S + k n (mean - m)^2 / (k + n)) / (2 s^2), S the sum of squares
    about the segment's mean. Light stand-in for a sampler over several change points.

    Args:
        y: (T,) scores, one a step, any unit. noise_sd: deviation of a score about its level, same unit.
        prior_mean, prior_strength: of a level; the strength is in observations.
        p_change: prior chance of a change.

    Returns:
        The posterior; None (no verdict) for fewer than 4 points.

    Raises:
        ValueError: a score that is not finite, a noise_sd or prior_strength <= 0, or p_change outside (0, 1).

    Example:
        >>> found = change_point([0.1, 0.12, 0.08, 0.11, 0.82, 0.79, 0.8, 0.81], noise_sd=0.1)
        >>> found.map_tau, found.p_none < 1e-10
        (4, True)

    References:
        Bigelow et al. 2024, Forking Paths in Neural Text Generation, arXiv:2412.07961 (there with BEAST).
    """
    for name, value in (("noise_sd", noise_sd), ("prior_strength", prior_strength)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"change_point {name} must be positive, got {value!r}")
    if not 0 < p_change < 1:
        raise ValueError(f"change_point p_change must lie in (0, 1), got {p_change!r}")
    if not math.isfinite(prior_mean):
        raise ValueError(f"change_point prior_mean must be finite, got {prior_mean!r}")
    series = np.asarray(y, dtype=np.float64)
    if series.ndim != 1 or not np.isfinite(series).all():
        raise ValueError(f"change_point y must be a list of finite scores, got {list(y)!r:.80}")
    if series.size < MIN_POINTS:
        return None
    z = (series - prior_mean) / noise_sd
    prefix = _log_evidence(z, prior_strength)  # (T,) of z[:n + 1]
    suffix = _log_evidence(z[::-1], prior_strength)[::-1]  # (T,) of z[n:]
    both = prefix[:-1] + suffix[1:]  # (T - 1,) change at index 1..T-1
    top = both.max()
    weights = np.exp(both - top)
    log_bf = float(top + math.log(weights.sum()) - math.log(both.size) - prefix[-1])
    log_odds = log_bf + math.log(p_change) - math.log1p(-p_change)
    p_none = math.exp(-np.logaddexp(0.0, log_odds))
    p_tau = math.exp(-np.logaddexp(0.0, -log_odds)) * weights / weights.sum()
    return ChangePoint(p_none, tuple(float(p) for p in p_tau), int(np.argmax(both)) + 1, log_bf)


def _log_evidence(z: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """(T,) log marginal likelihood of each prefix of standardised scores, up to n ln(noise_sd), which cancels."""
    n = np.arange(1, z.size + 1)
    mean = np.cumsum(z) / n
    before = np.concatenate([[0.0], mean[:-1]])
    within = np.cumsum((z - before) * (z - mean))  # Welford: sums of squares about the mean, without cancellation
    shrunk = strength * n / (strength + n) * mean**2
    evidence: NDArray[np.float64] = (
        -0.5 * n * math.log(2 * math.pi) + 0.5 * np.log(strength / (strength + n)) - 0.5 * (within + shrunk)
    )
    return evidence


def drift(outcome_dists: Sequence[Sequence[float]], how: Literal["l1", "l2"] = "l1") -> list[float]:
    """How far the distribution over outcomes has moved from where it started: d(o_0, o_t) for every t.

    Args:
        outcome_dists: (T, K) the share of each of K outcomes among the continuations from step t.
        how: "l1" (0 to 2) or "l2" (0 to sqrt 2).

    Raises:
        ValueError: rows of different length, or a row that is no distribution.

    Example:
        >>> [round(d, 6) for d in drift([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])]
        [0.0, 0.0, 1.4]

    References:
        Bigelow et al. 2024, arXiv:2412.07961.
    """
    dists = _distributions(outcome_dists)
    return _distances(dists - dists[:1], how)


def forking_steps(
    outcome_dists: Sequence[Sequence[float]], *, threshold: float = 0.5, how: Literal["l1", "l2"] = "l1"
) -> list[int]:
    """Steps t >= 1 at which the outcome distribution jumps: d(o_{t-1}, o_t) > threshold.

    Args:
        outcome_dists: as in ``drift``. threshold: in the unit of the distance.

    Raises:
        ValueError: as in ``drift``, or a threshold that is not >= 0.

    Example:
        >>> forking_steps([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
        [2]
    """
    if not threshold >= 0:
        raise ValueError(f"forking_steps threshold must be >= 0, got {threshold!r}")
    jumps = _distances(np.diff(_distributions(outcome_dists), axis=0), how)
    return [step for step, jump in enumerate(jumps, 1) if jump > threshold]


def hazard(
    branch_probabilities: Sequence[Sequence[float]],
    branch_distances: Sequence[Sequence[float]],
    *,
    threshold: float = 0.5,
) -> list[float]:
    """Chance that the branch drawn at each step changes the outcome: h_t = sum_w p(w) [d(o_t, o_{t,w}) > threshold].

    Args:
        branch_probabilities: per step, the chance of each next step w (at most 1 in sum).
        branch_distances: per step, the distance between the outcome distributions before and after w.

    Raises:
        ValueError: shapes that differ, or probabilities that are none.

    Example:
        >>> hazard([[0.7, 0.3], [1.0]], [[0.1, 1.2], [0.0]])
        [0.3, 0.0]

    References:
        Bigelow et al. 2024, arXiv:2412.07961 (survival analysis).
    """
    if [len(row) for row in branch_probabilities] != [len(row) for row in branch_distances]:
        raise ValueError(
            "hazard needs one distance a branch: branch_probabilities and branch_distances differ in shape"
        )
    out = []
    for step, (chances, distances) in enumerate(zip(branch_probabilities, branch_distances, strict=True)):
        if any(not chance >= 0 for chance in chances) or math.fsum(chances) > 1 + SUM_TOLERANCE:
            raise ValueError(f"branch_probabilities[{step}] must be >= 0 with a sum of at most 1, got {list(chances)}")
        if any(not distance >= 0 for distance in distances):
            raise ValueError(f"branch_distances[{step}] must be >= 0, got {list(distances)}")
        out.append(math.fsum(p for p, d in zip(chances, distances, strict=True) if d > threshold))
    return out


def survival(hazards: Sequence[float]) -> list[float]:
    """Chance that the outcome has not changed up to and including each step: S_t = prod_{s <= t} (1 - h_s).

    Args:
        hazards: (T,) chances in [0, 1].

    Raises:
        ValueError: a hazard outside [0, 1].

    Example:
        >>> survival([0.0, 0.5, 0.5])
        [1.0, 0.5, 0.25]
    """
    outside = next((h for h in hazards if not 0 <= h <= 1), None)
    if outside is not None:
        raise ValueError(f"survival needs hazards in [0, 1], got {outside!r}")
    return [float(value) for value in np.cumprod([1.0 - h for h in hazards])]


def _distributions(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError("outcome_dists must be a list of at least one row, all rows of one length")
    dists = np.asarray(rows, dtype=np.float64)  # (T, K)
    if not ((dists >= 0).all() and (np.abs(dists.sum(axis=1) - 1) <= SUM_TOLERANCE).all()):
        raise ValueError("each row of outcome_dists must be >= 0 and sum to 1; divide counts by their total")
    return dists


def _distances(differences: NDArray[np.float64], how: str) -> list[float]:
    """(T, K) -> (T,)"""
    if how not in ("l1", "l2"):
        raise ValueError(f"distance must be 'l1' or 'l2', got {how!r}")
    size = np.abs(differences).sum(axis=1) if how == "l1" else np.sqrt((differences**2).sum(axis=1))
    return [float(value) for value in size]
