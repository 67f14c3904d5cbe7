"""Completions where the first error is uncertain, until it is decided: a sequential test of S + 1 hypotheses."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from stepgauge.prm.labelling.counts import Counts, Draw, SolutionLabels
from stepgauge.prm.labelling.strategies import contradicting

__all__ = ["MAX_STEPS", "adaptive", "first_error_posterior"]

Array = NDArray[np.float64]

# What is believed before a completion is drawn. A solution has a difficulty: a mean success rate while it is still
# right, every value of the grid as likely; its prefixes scatter around it. Past the first error the rate is near 0.
_MEANS = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])
_SCATTER = 6.0  # prior completions' worth of agreement of a prefix with its solution
_REPAIRED = (0.15, 7.35)  # Beta of the success rate past the error: mean 0.02
MAX_STEPS = 1000  # the test looks at every pair of an error and a prefix
_NO_ERROR = 0.4  # prior chance that no step is wrong; the rest is spread evenly over the steps


@cache
def _tables(most: int) -> tuple[Array, Array]:
    """ln Beta-binomial likelihoods of c right and w wrong in a row: (G, c, w) before the error, (c, w) past it."""
    from scipy.special import betaln

    c, w = np.meshgrid(np.arange(most + 1.0), np.arange(most + 1.0), indexing="ij")
    a, b = _MEANS[:, None, None] * _SCATTER, (1 - _MEANS)[:, None, None] * _SCATTER
    good = betaln(a + c, b + w) - betaln(a, b)
    bad = betaln(_REPAIRED[0] + c, _REPAIRED[1] + w) - betaln(*_REPAIRED)
    return good, bad


def _joint(correct: NDArray[np.int64], wrong: NDArray[np.int64], tables: tuple[Array, Array]) -> Array:
    """(S + 1, G) ln P(first error = e, mean = g, counts), up to a constant; e = S: no error."""
    n_steps = len(correct)
    good = tables[0][:, correct, wrong]  # (G, S)
    bad = tables[1][correct, wrong]  # (S,)
    before = np.concatenate([np.zeros((len(_MEANS), 1)), np.cumsum(good, axis=1)], axis=1)  # (G, S + 1)
    after = np.concatenate([np.cumsum(bad[::-1])[::-1], [0.0]])  # (S + 1,)
    prior = np.full(n_steps + 1, (1 - _NO_ERROR) / max(n_steps, 1))
    prior[n_steps] = _NO_ERROR
    return np.asarray((before + after).T + np.log(prior)[:, None])


def _normalised(log: Array) -> Array:
    p = np.exp(log - log.max())
    return np.asarray(p / p.sum())


def first_error_posterior(correct: list[int], wrong: list[int]) -> Array:
    """(S + 1,) probability that the first error is step 0, …, S − 1, or (last entry) that there is none.

    Steps before the error share a success rate, which is learned from all of them; those from it on succeed with a rate
    near 0. So each completion says something about every step, as an error is not undone by later steps.

    Example:
        >>> p = first_error_posterior([3, 0, 0], [1, 0, 6])
        >>> [round(float(x), 2) for x in p]
        [0.0, 0.47, 0.47, 0.06]
    """
    most = max([1, *correct, *wrong])
    joint = _joint(np.array(correct, dtype=np.int64), np.array(wrong, dtype=np.int64), _tables(most))
    return np.asarray(_normalised(joint).sum(axis=1))


def _entropy(p: Array) -> Array:
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1))


def _gains(correct: NDArray[np.int64], wrong: NDArray[np.int64], tables: tuple[Array, Array]) -> Array:
    """(S,) expected nats that one more judged completion of each prefix tells about where the error is."""
    joint = _normalised(_joint(correct, wrong, tables))  # (E, G)
    n_steps = len(correct)
    steps = np.arange(n_steps)
    more = (correct + 1, wrong)
    good = np.exp(tables[0][:, more[0], more[1]] - tables[0][:, correct, wrong])  # (G, S) chance of a right one
    bad = np.exp(tables[1][more[0], more[1]] - tables[1][correct, wrong])  # (S,)
    still_right = np.arange(n_steps + 1)[:, None] > steps  # (E, S)
    right = np.where(still_right, joint @ good, joint.sum(axis=1)[:, None] * bad).T  # (S, E) P(e, right)
    wrong_ = joint.sum(axis=1) - right
    after = np.zeros(n_steps)
    for part in (right, wrong_):
        chance = part.sum(axis=1)
        after += chance * _entropy(part / np.maximum(chance, 1e-300)[:, None])
    return np.asarray(_entropy(joint.sum(axis=1)) - after)


def adaptive(
    draw: Draw, n_steps: int, *, error_rate: float = 0.05, rollouts: int = 16, wave: int = 1, worth: float = 0.01
) -> SolutionLabels:
    """Draw where a completion is expected to tell most about the first error; stop when its posterior decides it.

    The test ends as soon as one of the S + 1 hypotheses has posterior probability ≥ 1 − ``error_rate``: averaged over
    the prior, at most that share of the decided solutions is labelled wrong. (Against a fixed pair of hypotheses this
    is Wald's sequential probability ratio test; against several, that of Baum and Veeravalli.) The rate is stated under
    the model of ``first_error_posterior``; ``contradictions`` lists prefixes that do not fit it.

    It also ends, undecided, where no prefix has completions left that are expected to tell as much as ``worth``: then
    ``first_error`` is the likeliest, and ``confidence`` below 1 − ``error_rate`` says so. (Failures alone, from the
    first step on, leave open whether that step is wrong or the problem too hard for the model.) Where no completion at
    all could be judged, ``first_error`` is None.

    Args:
        draw: ``draw(step, n)``: the counts of at least n completions of the steps 0..step.
        error_rate: stated share of wrong decisions, in (0, 1).
        rollouts: completions of one prefix at most.
        wave: completions drawn at once; more suit a server, one is the cheapest.
        worth: nats about the first error that one more completion must be expected to tell; 0 spends all of them.

    Raises:
        ValueError: an argument out of its range.

    Example:
        >>> found = adaptive(lambda step, n: Counts(n, 0) if step < 5 else Counts(0, n), 8)
        >>> found.first_error, found.rollouts, found.confidence > 0.95
        (5, 11, True)

    References: Baum, Veeravalli 1994, A sequential procedure for multihypothesis testing.
    """
    if not 0 < error_rate < 1:
        raise ValueError(f"adaptive(error_rate) must lie in (0, 1), got {error_rate}")
    if n_steps < 0 or min(rollouts, wave) < 1 or not worth >= 0:
        raise ValueError(
            f"adaptive needs n_steps >= 0, rollouts >= 1, wave >= 1, worth >= 0; got {n_steps}, {rollouts}, {wave}, "
            f"{worth}"
        )
    if n_steps > MAX_STEPS:
        raise ValueError(f"adaptive(n_steps) must be at most {MAX_STEPS}, got {n_steps}; leave such a solution out")
    counts = [Counts()] * n_steps
    tables = _tables(rollouts + 1)
    correct, wrong = np.zeros(n_steps, dtype=np.int64), np.zeros(n_steps, dtype=np.int64)
    while True:
        posterior = _normalised(_joint(correct, wrong, tables)).sum(axis=1)
        free = np.array([count.drawn < rollouts for count in counts], dtype=bool)
        if posterior.max() >= 1 - error_rate or not free.any():
            break
        gains = np.where(free, _gains(correct, wrong, tables), -1.0)
        step = int(gains.argmax())
        if gains[step] < worth:
            break
        counts[step] = draw(step, min(counts[step].drawn + wave, rollouts))
        correct[step], wrong[step] = counts[step].correct, counts[step].wrong
    likeliest = int(posterior.argmax())
    found: int | None = -1 if likeliest == n_steps else likeliest
    if n_steps and not any(count.judged for count in counts):
        found = None  # the prior alone is no label
    return SolutionLabels(found, tuple(counts), float(posterior.max()), contradicting(counts, found))
