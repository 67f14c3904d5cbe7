"""How good a selection is: pass@k and intervals over problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Interval", "bootstrap_interval", "pass_at_k", "plugin_pass_at_k"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval, in the unit of the values."""

    mean: float
    low: float
    high: float


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k draws without replacement is right: 1 - C(n-c, k) / C(n, k), unbiased.

    Args:
        n: candidates drawn. c: right ones among them. k: draws.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.

    Example:
        >>> round(pass_at_k(16, 3, 4), 4)
        0.6071

    References:
        Chen et al. 2021, Evaluating Large Language Models Trained on Code, equation 1.
    """
    if not 0 <= c <= n:
        raise ValueError(f"pass_at_k needs 0 <= c <= n, got n={n}, c={c}")
    if not 1 <= k <= n:
        raise ValueError(f"pass_at_k needs 1 <= k <= n, got n={n}, k={k}; draw more candidates or lower k")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def plugin_pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that one of k draws with replacement is right, the success rate taken as c/n: 1 - (1 - c/n)^k.

    Too low on average (the function is concave in the rate); ``pass_at_k`` is unbiased. Kept for comparison with
    work that reports it.

    Args:
        n: candidates drawn. c: right ones among them. k: draws; may exceed n.

    Raises:
        ValueError: unless 0 <= c <= n, n >= 1 and k >= 1.

    Example:
        >>> round(plugin_pass_at_k(16, 3, 4), 4)
        0.5642

    References:
        Chen et al. 2021, Evaluating Large Language Models Trained on Code, section 2.1 and appendix A.
    """
    if not 0 <= c <= n or n < 1 or k < 1:
        raise ValueError(f"plugin_pass_at_k needs 0 <= c <= n, n >= 1 and k >= 1, got n={n}, c={c}, k={k}")
    return 1.0 - (1.0 - c / n) ** k


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Mean of the values with its percentile bootstrap interval, the values (one a problem) resampled together.

    Args:
        values: (P,) one number a problem, for example 1.0 = solved.
        level: coverage of the interval.
        resamples, seed: how many resamples, and the seed that makes the interval repeatable.

    Raises:
        ValueError: no values, or a level outside (0, 1).

    Example:
        >>> bootstrap_interval([1.0, 1.0, 1.0])
        Interval(mean=1.0, low=1.0, high=1.0)

    References:
        Efron 1979.
    """
    if not values:
        raise ValueError("bootstrap_interval needs at least one value, got none")
    if not 0 < level < 1:
        raise ValueError(f"bootstrap_interval level must lie in (0, 1), got {level}")
    data = np.asarray(values, dtype=np.float64)  # (P,)
    rng = np.random.default_rng(seed)
    chunk = max(1, 4_000_000 // len(data))  # resamples at a time: memory stays flat in P
    means = np.concatenate(
        [
            data[rng.integers(len(data), size=(min(chunk, resamples - at), len(data)))].mean(axis=1)  # (R, P) -> (R,)
            for at in range(0, resamples, chunk)
        ]
    )
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(data.mean()), float(low), float(high))
