"""Step scores to rewards of the policy's own tokens. Pure functions on numpy arrays; T tokens, S steps, B rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = ["combine", "min_form", "pad_tokens", "soft_min_form", "token_rewards"]

Array = npt.NDArray[np.float64]
Span = tuple[int, int]
Place = Literal["last", "spread", "every"]


def token_rewards(
    step_scores: Sequence[float | None], token_ranges: Sequence[Span], n_tokens: int, place: Place = "last"
) -> Array:
    """(T,) token rewards from (S,) step scores and the (S,) token ranges that ``data.align`` gives.

    "last": the score on the step's last token. "spread": score / n on each of its n tokens. Both sum to the sum of the
    scores. "every": the whole score on each token, for advantages. A step without a score or without a token gives
    nothing; tokens between steps get 0.

    Raises:
        ValueError: lengths that differ, a range outside the tokens, a score that is not finite, an unknown place.

    Example:
        >>> token_rewards([1.0, -1.0], [(0, 2), (3, 4)], 4).tolist()
        [0.0, 1.0, 0.0, -1.0]
    """
    if len(step_scores) != len(token_ranges):
        raise ValueError(
            f"token_rewards needs one token range a step: {len(step_scores)} scores, {len(token_ranges)} ranges"
        )
    if place not in ("last", "spread", "every"):
        raise ValueError(f"token_rewards(place) must be last, spread or every; got {place!r}")
    rewards = np.zeros(n_tokens)
    for step, (score, (first, last)) in enumerate(zip(step_scores, token_ranges, strict=True)):
        if not 0 <= first <= last <= n_tokens:
            raise ValueError(f"token_rewards(token_ranges[{step}]) = {(first, last)} is not within {n_tokens} tokens")
        if score is None or first == last:
            continue
        if not math.isfinite(score):
            raise ValueError(f"token_rewards(step_scores[{step}]) must be finite or None, got {score}")
        if place == "last":
            rewards[last - 1] += score
        else:
            rewards[first:last] += score / (last - first) if place == "spread" else score
    return rewards


def pad_tokens(
    rows: Sequence[npt.ArrayLike], length: int | None = None, side: Literal["left", "right"] = "right"
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """(B, T) rewards padded with 0, and the mask, True on real tokens, from B rows of various lengths.

    Raises ValueError for a row longer than ``length``.

    Example:
        >>> rewards, mask = pad_tokens([[1.0], [2.0, 3.0]])
        >>> rewards.tolist(), mask.tolist()
        ([[1.0, 0.0], [2.0, 3.0]], [[True, False], [True, True]])
    """
    arrays = [np.asarray(row, dtype=np.float64) for row in rows]
    longest = max((array.size for array in arrays), default=0)
    width = longest if length is None else length
    if longest > width:
        raise ValueError(f"pad_tokens(length) = {length} is shorter than the longest row, {longest}")
    padded, mask = np.zeros((len(arrays), width)), np.zeros((len(arrays), width), dtype=bool)
    for index, array in enumerate(arrays):
        where = slice(0, array.size) if side == "right" else slice(width - array.size, width)
        padded[index, where], mask[index, where] = array, True
    return padded, mask


def combine(outcome: float, step_scores: npt.ArrayLike, alpha: float) -> Array:
    """(S,) rewards alpha * r_s, plus the outcome on the last step.

    Raises ValueError without steps, or for numbers that are not finite.

    Example:
        >>> combine(1.0, [0.5, 0.25], alpha=2.0).tolist()
        [1.0, 1.5]
    """
    values = alpha * np.asarray(step_scores, dtype=np.float64)
    if values.size == 0 or not math.isfinite(outcome) or not np.isfinite(values).all():
        raise ValueError(f"combine needs at least one step and finite numbers, got {outcome} and {step_scores!r:.60}")
    values[-1] += outcome
    return values


def min_form(step_scores: npt.ArrayLike) -> Array:
    """(S,) credit under which the return is min_s r_s: the first smallest score, 0 elsewhere.

    Raises ValueError without steps or for scores that are not finite.

    Example:
        >>> min_form([0.9, 0.4, 0.95]).tolist()
        [0.0, 0.4, 0.0]
    """
    values = _steps(step_scores, "min_form")
    credit = np.zeros_like(values)
    credit[values.argmin()] = values.min()
    return credit


def soft_min_form(step_scores: npt.ArrayLike, temperature: float = 0.1) -> Array:
    """(S,) credit r_s softmax(-r / T)_s; its sum tends to min_s r_s for T to 0.

    Raises ValueError without steps, for scores that are not finite or T <= 0.

    Example:
        >>> round(float(soft_min_form([0.9, 0.4, 0.95]).sum()), 4)
        0.4056

    References:
        Cheng et al. 2025, PURE (2504.15275): min-form credit assignment.
    """
    values = _steps(step_scores, "soft_min_form")
    if not temperature > 0:
        raise ValueError(f"soft_min_form(temperature) must be > 0, got {temperature}; min_form is the limit 0")
    weights = np.exp((values.min() - values) / temperature)
    return np.asarray(values * weights / weights.sum())


def _steps(step_scores: npt.ArrayLike, owner: str) -> Array:
    values = np.asarray(step_scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"{owner}(step_scores) must be at least one finite number, got {step_scores!r:.60}")
    return values
