"""Guards on rewards: clip, length normalisation, a cap on the number of steps, groups without signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["cap_steps", "clip_rewards", "drop_flat_groups", "group_advantages", "normalize_length"]

Array = npt.NDArray[np.float64]


def cap_steps(spans: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """At most ``limit`` spans; what is past the limit joins the last one, so that splitting finer earns nothing.

    Raises ValueError for a limit below 1.

    Example:
        >>> cap_steps([(0, 2), (3, 5), (6, 8)], 2)
        [(0, 2), (3, 8)]
    """
    if limit < 1:
        raise ValueError(f"cap_steps(limit) must be >= 1, got {limit}")
    if len(spans) <= limit:
        return list(spans)
    return [*spans[: limit - 1], (spans[limit - 1][0], spans[-1][1])]


def clip_rewards(rewards: npt.ArrayLike, low: float, high: float) -> Array:
    """Rewards in [low, high], any shape; NaN raises rather than passes.

    Raises ValueError for NaN rewards or low > high.

    Example:
        >>> clip_rewards([-3.0, 0.5], -1.0, 1.0).tolist()
        [-1.0, 0.5]
    """
    values = np.asarray(rewards, dtype=np.float64)
    if not low <= high or np.isnan(values).any():
        raise ValueError(f"clip_rewards needs low <= high and no NaN, got [{low}, {high}] and {rewards!r:.60}")
    return np.clip(values, low, high)


def normalize_length(step_rewards: npt.ArrayLike) -> Array:
    """r_s / S: (S,) step rewards whose sum is their mean, so that more steps do not earn more.

    Example:
        >>> normalize_length([1.0, 0.0]).tolist()
        [0.5, 0.0]
    """
    values = np.asarray(step_rewards, dtype=np.float64)
    return values / max(1, values.size)


def group_advantages(rewards: Sequence[float | None], *, eps: float = 1e-8) -> list[float | None]:
    """(r - mean) / std within one group, over the rewards that exist; a group without spread gives 0.

    None (abstained) stays None and takes no part in mean or std. Raises ValueError for a reward that is not finite.

    Example:
        >>> group_advantages([1.0, 0.0, None]), group_advantages([0.3, 0.3])
        ([1.0, -1.0, None], [0.0, 0.0])
    """
    values = np.array([reward for reward in rewards if reward is not None], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"group_advantages(rewards) must be finite or None, got {list(rewards)!r}")
    if values.size == 0:
        return [None] * len(rewards)
    mean, spread = values.mean(), values.std()
    flat = spread <= eps * max(1.0, float(abs(mean)))
    return [None if r is None else 0.0 if flat else float((r - mean) / spread) for r in rewards]


def drop_flat_groups(rewards: npt.ArrayLike, *, eps: float = 1e-8) -> npt.NDArray[np.bool_]:
    """(G,) mask of the groups (G, K) whose rewards differ: the others give no gradient. NaN = abstained.

    Example:
        >>> drop_flat_groups([[1.0, 1.0], [0.0, 1.0]]).tolist()
        [False, True]
    """
    values = np.asarray(rewards, dtype=np.float64)
    low = np.where(np.isnan(values), np.inf, values).min(axis=1)
    high = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.asarray(high - low > eps)
