"""The threshold that does best on given solutions, found exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["best_threshold"]

Floats = npt.NDArray[np.float64]


def best_threshold(step_scores: Sequence[Sequence[float | None]], labels: Sequence[int]) -> tuple[float, float] | None:
    """(threshold, F1): the best F1 of ``processbench_f1`` up to the highest score, in O(R log R) for R solutions.

    A solution is judged rightly for thresholds in one interval (lo, hi]: above the score of its wrong step, not above
    any score before it; for a right solution, not above its lowest score. So only the ends of these intervals matter.
    Of equally good thresholds the middle of the lowest plateau is taken. Thresholds above every score are not tried:
    they call each scored step wrong, whatever its score.

    Args:
        step_scores: (R, S_r) of each solution's steps; None = not scored.
        labels: (R,) index of the first wrong step, -1 for a right solution.

    Returns:
        None where either group of solutions is empty, or no step was scored.

    Example:
        >>> best_threshold([[0.9, 0.2], [0.8, 0.6]], [1, -1])
        (0.4, 1.0)
    """
    wrong: list[tuple[float, float]] = []
    right: list[tuple[float, float]] = []
    counts = [0, 0]
    ends: set[float] = set()
    for scores, label in zip(step_scores, labels, strict=True):
        counts[label < 0] += 1
        ends.update(score for score in scores if score is not None)
        lo, hi = _interval(scores, label)
        if lo < hi:
            (right if label < 0 else wrong).append((lo, hi))
    if not ends or not all(counts):
        return None
    grid = np.array(sorted(ends))  # the outcome is constant on each (grid[i-1], grid[i]]
    found, kept = _active(wrong, grid) / counts[0], _active(right, grid) / counts[1]
    total = found + kept
    f1 = np.divide(2 * found * kept, total, out=np.zeros_like(total), where=total > 0)
    at = int(np.argmax(f1))
    last = at
    while last + 1 < len(grid) and f1[last + 1] == f1[at]:
        last += 1
    low, high = (grid[at - 1] if at else None), float(grid[last])
    if low is None:
        return high, float(f1[at])
    middle = (float(low) + high) / 2
    return (middle if low < middle else high), float(f1[at])


def _interval(scores: Sequence[float | None], label: int) -> tuple[float, float]:
    """(lo, hi] of the thresholds that judge this solution rightly; empty where lo >= hi."""
    if label < 0:
        return -math.inf, min((score for score in scores if score is not None), default=math.inf)
    at = scores[label]
    if at is None:
        return math.inf, math.inf
    return at, min((score for score in scores[:label] if score is not None), default=math.inf)


def _active(intervals: Sequence[tuple[float, float]], grid: Floats) -> Floats:
    """How many intervals (lo, hi] hold each point of the grid."""
    if not intervals:
        return np.zeros(len(grid))
    lows, highs = np.sort([lo for lo, _ in intervals]), np.sort([hi for _, hi in intervals])
    begun = np.searchsorted(lows, grid, side="left")  # lo < t
    ended = np.searchsorted(highs, grid, side="left")  # hi < t
    return (begun - ended).astype(np.float64)
