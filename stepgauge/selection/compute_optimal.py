"""Which strategy for which difficulty: best-of-n, beam search, DVTS …, chosen on problems with known answers."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stepgauge.selection.metrics import Interval, bootstrap_interval

__all__ = ["Choice", "Trial", "choose_strategies", "difficulty_bin", "difficulty_edges"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One problem tried with one strategy: its difficulty bin, the tokens spent, and whether it was solved."""

    difficulty: int
    strategy: str
    tokens: float
    solved: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a difficulty bin, its accuracy with an interval over problems, and its mean tokens."""

    strategy: str
    accuracy: Interval
    tokens: float
    trials: int


def difficulty_edges(ease: Sequence[float], bins: int = 5) -> list[float]:
    """The quantiles that cut problems into bins of equal size; (bins - 1,) edges, rising.

    Args:
        ease: (P,) how easy each problem is: the share of the policy's samples that are right, or, without gold answers,
            the mean score a verifier gives them. bins: how many, the paper uses 5.

    Raises:
        ValueError: fewer problems than bins, bins < 1, or a value that is not finite.

    Example:
        >>> difficulty_edges([0.0, 0.1, 0.5, 0.9], bins=2)
        [0.3]

    References:
        Snell et al. 2024, arXiv:2408.03314, section 3.2 (oracle and predicted difficulty).
    """
    values = np.asarray(ease, dtype=np.float64)
    if bins < 1 or values.size < bins:
        raise ValueError(
            f"difficulty_edges needs bins >= 1 and a problem a bin, got {values.size} problems, {bins} bins"
        )
    if not np.isfinite(values).all():
        raise ValueError("difficulty_edges ease must be finite; leave out problems that were not scored")
    return [float(edge) for edge in np.quantile(values, np.arange(1, bins) / bins)]


def difficulty_bin(ease: float, edges: Sequence[float]) -> int:
    """The bin of a problem: 0 the easiest, len(edges) the hardest. A value on an edge counts as easier.

    Example:
        >>> difficulty_bin(0.9, [0.3]), difficulty_bin(0.1, [0.3])
        (0, 1)
    """
    return len(edges) - bisect.bisect_right(edges, ease)


def choose_strategies(trials: Iterable[Trial], *, max_tokens: float | None = None) -> dict[int, Choice]:
    """The most accurate strategy of each difficulty bin, the cheaper one of equals.

    Choose on one half of the problems and report the accuracy on the other: the accuracies here are those of the
    winner, and too high.

    Args:
        trials: of any number of problems, strategies and bins.
        max_tokens: only strategies that spend at most this on average, in that bin, take part; a bin without one has no
            choice.

    Raises:
        ValueError: no trials.

    Example:
        >>> runs = [Trial(0, "best-of-n", 100, True), Trial(0, "beam", 400, True), Trial(1, "beam", 400, True),
        ...         Trial(1, "best-of-n", 100, False)]
        >>> {bin: choice.strategy for bin, choice in choose_strategies(runs).items()}
        {0: 'best-of-n', 1: 'beam'}

    References:
        Snell et al. 2024, arXiv:2408.03314, equation 1; Liu et al. 2025, arXiv:2502.06703.
    """
    groups: dict[int, dict[str, list[Trial]]] = {}
    for trial in trials:
        groups.setdefault(trial.difficulty, {}).setdefault(trial.strategy, []).append(trial)
    if not groups:
        raise ValueError("choose_strategies needs at least one trial, got none")
    chosen = {}
    for difficulty in sorted(groups):
        choices = [_choice(name, runs) for name, runs in groups[difficulty].items()]
        within = [choice for choice in choices if max_tokens is None or choice.tokens <= max_tokens]
        if within:
            chosen[difficulty] = max(within, key=lambda choice: (choice.accuracy.mean, -choice.tokens))
    return chosen


def _choice(strategy: str, runs: Sequence[Trial]) -> Choice:
    accuracy = bootstrap_interval([float(run.solved) for run in runs])
    return Choice(strategy, accuracy, sum(run.tokens for run in runs) / len(runs), len(runs))
